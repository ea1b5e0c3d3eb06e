# Holds a lease on a file, and gives it back a while after another program has asked for it. What it writes meanwhile
# counts as long as it runs, since it does not close the file.
import fcntl, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
file = open(sys.argv[1], 'r+b', buffering=0)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
if sys.argv[2]:
    file.write(sys.argv[2].encode())
    file.truncate()
signal.sigwait([signal.SIGIO])
time.sleep(0.1)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
time.sleep(1000)
