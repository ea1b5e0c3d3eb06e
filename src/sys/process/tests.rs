use super::*;

#[test]
fn a_thread_inherits_the_batch_policy() {
    // The policy is the 39th value after the name, which stands in parentheses (proc_pid_stat(5)).
    let policy = || {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(38).unwrap().to_owned()
    };
    let inherited = std::thread::spawn(move || {
        schedule_as_batch();
        std::thread::spawn(policy).join().unwrap()
    });
    assert_eq!(inherited.join().unwrap(), libc::SCHED_BATCH.to_string());
}

#[test]
fn signals_that_the_parent_has_blocked_reach_the_thread() {
    // Each digit of the set stands for four signals (proc_pid_status(5)).
    let blocked = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let set = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap().to_owned();
        u64::from_str_radix(&set, 16).unwrap()
    };
    let thread = std::thread::spawn(move || {
        // SAFETY: the set is an integer array, which the calls write and read; only this thread has another mask.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, ptr::null_mut());
        }
        let before = blocked();
        unblock_signals();
        before & !blocked()
    });
    let bit = |signal: c_int| 1 << (signal - 1);
    let handled = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];
    let expected = handled.map(bit).iter().sum::<u64>();
    assert_eq!(thread.join().unwrap(), expected);
}

#[test]
fn an_inherited_descriptor_refers_to_the_same_file_and_is_closed_on_exec() {
    use std::os::fd::AsRawFd;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let second = inherited_descriptor(writer.as_raw_fd()).unwrap();
    drop(writer);
    assert!(rustix::io::fcntl_getfd(&second).unwrap().contains(FdFlags::CLOEXEC));
    rustix::io::write(&second, b"x").unwrap();
    std::io::Read::read_exact(&mut reader, &mut [0]).unwrap();
    for number in [-1, 1_000_000] {
        assert!(inherited_descriptor(number).is_err(), "{number}");
    }
}

#[test]
fn the_descriptor_limit_is_raised_and_never_lowered() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = raise_descriptor_limit();
    assert!(raised >= current.unwrap_or(u64::MAX), "{raised}");
    assert_eq!(Some(raised), maximum);
    assert_eq!(getrlimit(Resource::Nofile).current, maximum);
}

#[test]
fn the_runtime_ignores_the_signal_of_a_closed_pipe_and_no_other() {
    assert!(is_ignored(libc::SIGPIPE));
    assert!(!is_ignored(libc::SIGTERM));
}

#[test]
fn seconds_and_minutes_are_the_same_in_this_time_zone_up_to_its_offset() {
    let [hour, minute, second] = local_time(1_000_000_003);
    // Offsets are multiples of 15 minutes since 1972.
    assert_eq!((minute % 15, second), (46 % 15, 43));
    assert!((0..24).contains(&hour));
}

#[test]
fn what_is_allocated_counts_whichever_thread_has_it_and_not_when_it_is_freed() {
    const BYTES: usize = 256 << 20;
    const CHUNK_BYTES: usize = 100 << 10;
    let before = allocated_bytes();
    let chunks = || -> Vec<Vec<u8>> { (0..BYTES / CHUNK_BYTES).map(|_| Vec::with_capacity(CHUNK_BYTES)).collect() };
    // The chunks are in the arena of that thread, and the vector has pages of its own.
    let held = std::hint::black_box((std::thread::spawn(chunks).join().unwrap(), Vec::<u8>::with_capacity(BYTES)));
    let more = allocated_bytes() - before;
    assert!(more > BYTES * 7 / 4, "{more} bytes more");
    drop(held);
    return_freed_memory();
    let more = allocated_bytes().saturating_sub(before);
    assert!(more < BYTES / 4, "{more} bytes more");
}

#[test]
fn memory_can_be_allocated_after_the_allocator_is_configured() {
    keep_freed_memory();
    assert_eq!(vec![1u8; 8 * 1024 * 1024].iter().map(|&byte| usize::from(byte)).sum::<usize>(), 8 * 1024 * 1024);
}
