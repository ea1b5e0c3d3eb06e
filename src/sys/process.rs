//! What concerns the whole process: memory, scheduling, descriptors, parent, signals, time zone.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{io, ptr};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::param::page_size;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getpid, getppid, getrlimit, pidfd_open, setrlimit};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{lock, registered};

/// Bytes of freed memory that the allocator may keep at the end of its arena: as much as the queue and the bodies of
/// all connections may take by default.
const FREED_BYTES: c_int = 64 * 1024 * 1024;

/// Bytes from which an allocation gets pages of its own. Several bodies of the default limit fit into it.
const MAPPED_BYTES: c_int = 4 * 1024 * 1024;

/// Bytes of freed memory from which a return is worth its cost.
const RETURNED_BYTES: usize = 4 * 1024 * 1024;

/// The least time between two returns, and two questions to the allocator. Each takes some milliseconds, and to get the
/// memory again takes more. With the time between two looks at the settings, it is 30 s.
const RETURN_INTERVAL: Duration = Duration::from_secs(25);

/// Makes the allocator keep the memory of large bodies after they are freed (mallopt(3)), until it is returned. By
/// default the pages of each large body are mapped, zeroed and unmapped. All threads share one arena, at no cost that
/// could be measured: malloc_trim(3) returns only the free memory at the end of the main one.
pub fn keep_freed_memory() {
    let parameters =
        [(libc::M_TRIM_THRESHOLD, FREED_BYTES), (libc::M_MMAP_THRESHOLD, MAPPED_BYTES), (libc::M_ARENA_MAX, 1)];
    for (parameter, value) in parameters {
        // SAFETY: the arguments are integers, and the allocator takes its own lock.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Returns freed memory to the kernel (malloc_trim(3)) where much of it is kept, whoever has held it. Takes the locks
/// of the allocator for some milliseconds.
pub(crate) fn return_freed_memory() {
    static ASKED: Mutex<Option<Instant>> = Mutex::new(None);
    let mut asked = lock(&ASKED);
    if asked.is_some_and(|asked| asked.elapsed() < RETURN_INTERVAL) {
        return;
    }
    let Some(private) = private_bytes().filter(|bytes| *bytes >= RETURNED_BYTES) else { return };
    *asked = Some(Instant::now());
    if private.saturating_sub(allocated_bytes()) >= RETURNED_BYTES {
        // SAFETY: the argument is an integer, and the allocator takes its own locks.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Returns the resident bytes that no file has: those of the allocator, and a little for stacks and static data.
fn private_bytes() -> Option<usize> {
    let told = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = told.split(' ').skip(1).map_while(|pages| pages.parse::<usize>().ok());
    Some(pages.next()?.saturating_sub(pages.next()?) * page_size())
}

/// Returns the bytes that are allocated, in all arenas and with pages of their own (mallinfo(3)). From 4 GiB on it is
/// less, and memory may be returned in vain: the successor of the call is newer than glibc 2.17.
fn allocated_bytes() -> usize {
    // SAFETY: the call has no arguments, and the allocator takes its own locks.
    let told = unsafe { libc::mallinfo() };
    told.uordblks.cast_unsigned() as usize + told.hblkhd.cast_unsigned() as usize
}

/// Ends the process without destructors and handlers of exit(3): a thread of libzmq may still use what they destroy.
pub fn exit_now(status: u8) -> ! {
    // SAFETY: the call takes an integer, and does not return.
    unsafe { libc::_exit(status.into()) }
}

/// Gives the calling thread, and those that it starts from now on, the policy `SCHED_BATCH` (sched(7)): it interrupts
/// no other thread when it wakes up, and still gets its full share of the processor. Without it, on one core, libzmq's
/// thread interrupts the bus thread at the first message of a batch, and the bus thread interrupts the worker. If the
/// kernel refuses the policy, only the speed changes.
pub(crate) fn schedule_as_batch() {
    let parameters = libc::sched_param { sched_priority: 0 }; // the only priority of this policy
    // SAFETY: 0 names the calling thread; the kernel reads the parameters during the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

/// Raises the soft limit of descriptors to the hard one, and returns it. The soft one is low for the sake of programs that
/// use select(2), as this one does not.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    raised.map_or(current, |()| maximum).unwrap_or(u64::MAX)
}

/// Checks that so many more descriptors can be opened.
pub(crate) fn check_free_descriptors(count: u64) -> io::Result<()> {
    let opened: Result<Vec<_>, _> = (0..count).map(|_| eventfd(0, EventfdFlags::CLOEXEC)).collect();
    Ok(opened.map(drop)?)
}

/// Returns a descriptor that becomes readable when the process that started this one has ended (`--watch-parent`),
/// whoever else holds its pipes. Fails if that process is in another PID namespace.
pub(crate) fn parent_end() -> io::Result<AsyncFd<OwnedFd>> {
    let parent = getppid().ok_or_else(|| io::Error::other("the parent process is in another PID namespace"))?;
    let end = match pidfd_open(parent, PidfdFlags::empty()) {
        // If the parent ended before the descriptor was open, its number may belong to another process now.
        Ok(pidfd) if getppid() == Some(parent) && !is_adoptive(parent) => pidfd,
        // It has ended already, and so this one is readable.
        Ok(_) | Err(Errno::SRCH) => eventfd(1, EventfdFlags::CLOEXEC)?,
        Err(error) => return Err(error.into()),
    };
    registered(end, Interest::READABLE)
}

/// Returns whether this parent has adopted the process. A process inherits the session of the one that starts it, so an
/// adoptive parent is recognised by its session, unless the first parent had the same. It is older than the leader of
/// that session, and has a smaller number; a parent that has left the session since (setsid(2)) is younger.
fn is_adoptive(parent: Pid) -> bool {
    let (own, pid) = (session(None), getpid().as_raw_pid());
    own.is_some_and(|own| {
        let has_left = (1..parent.as_raw_pid()).contains(&own);
        own != pid && !has_left && session(Some(parent)).is_some_and(|parents| parents != own)
    })
}

/// Returns the session of a process, or of this one; `None` if the process has ended. It is 0 if the leader of the
/// session is in another PID namespace, a value that rustix cannot represent.
fn session(pid: Option<Pid>) -> Option<i32> {
    // SAFETY: the argument is an integer; 0 names this process.
    let session = unsafe { libc::getsid(pid.map_or(0, Pid::as_raw_pid)) };
    (session >= 0).then_some(session)
}

/// Returns whether the process ignores this signal, as nohup(1) makes it ignore SIGHUP.
pub(crate) fn is_ignored(signal: c_int) -> bool {
    // SAFETY: the structure has integer fields and pointers, for all of which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer changes no action, and the call writes `action`, which lives longer than the call.
    let status = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    status == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Returns a second descriptor of the file that the parent passed. No process that this one starts inherits either.
pub(crate) fn inherited_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is not -1. Only system calls see the descriptor, during this function; the kernel refuses the
    // number with EBADF if it is not open, and the calls neither close the descriptor nor touch what it refers to.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_setfd(inherited, FdFlags::CLOEXEC)?;
    Ok(fcntl_dupfd_cloexec(inherited, 0)?)
}

/// Unblocks the signals that end or steer the process, for the calling thread and those that it starts from now on. A
/// process inherits what its parent has blocked.
pub fn unblock_signals() {
    // SAFETY: the set is an integer array, for which zero is a value; the calls read and write it alone, and change the
    // mask of the calling thread alone. They fail only for other arguments.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2] {
            libc::sigaddset(&raw mut signals, signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const signals, ptr::null_mut());
    }
}

/// Makes a write beyond the limit of a file's size fail, as on a full disk, and a break of a lease harmless. By default
/// SIGXFSZ and SIGIO end the process (setrlimit(2), fcntl(2)).
pub fn ignore_signals_of_files() {
    for signal in [libc::SIGXFSZ, libc::SIGIO] {
        // SAFETY: the arguments are integers; no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Takes a lease on a file that is open to read (fcntl(2)): whoever opens it to write waits until it is closed here, at
/// most for the time of `/proc/sys/fs/lease-break-time`. Fails with [`Errno::AGAIN`] while it is open to write.
pub(super) fn take_lease(file: &File) -> io::Result<()> {
    // SAFETY: the arguments are integers, and the descriptor is open.
    let status = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether nobody has tried to open the file to write since the lease was taken.
pub(super) fn has_lease(file: &File) -> bool {
    // SAFETY: the arguments are integers, and the descriptor is open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_RDLCK }
}

/// Returns hour, minute and second in the local time zone.
pub(crate) fn local_time(unix_s: u64) -> [i32; 3] {
    // The type has 32 bits on 32-bit ARM.
    let unix_s = libc::time_t::try_from(unix_s).unwrap_or(libc::time_t::MAX);
    // SAFETY: the structure has integer fields and a pointer, for all of which zero is a value.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: the call reads the one argument and writes the other, which both live longer than the call. It reads the
    // environment variable TZ, which nothing in this program changes.
    unsafe { libc::localtime_r(&raw const unix_s, &raw mut local) };
    [local.tm_hour, local.tm_min, local.tm_sec]
}

#[cfg(test)]
mod tests;
