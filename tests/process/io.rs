//! What the gateway does where io_uring is refused: by seccomp, as containers refuse it, or by a limit.

use rustix::io::Errno;

use crate::support::*;

/// The errors with which container runtimes refuse: Docker with EPERM, gVisor and older kernels with ENOSYS.
const REFUSALS: [Errno; 2] = [Errno::PERM, Errno::NOSYS];

/// Serves one request, and returns what the gateway wrote to stderr.
fn serve_one(builder: Builder) -> String {
    let mut gateway = builder.start();
    gateway.post(FINE).assert_accepted();
    gateway.terminate();
    gateway.end().stderr
}

#[test]
fn where_io_uring_is_refused_auto_uses_epoll_and_says_why_once_epoll_does_not_try_it_and_uring_exits_with_5() {
    for (errno, workers) in REFUSALS.into_iter().flat_map(|errno| [(errno, "1"), (errno, "3")]) {
        let refused = |io, expected| {
            let builder = Gateway::serve().arguments(["--workers", workers]).io(io, expected);
            builder.io_uring_refused_with(errno)
        };
        let reason = format!("os error {}", errno.raw_os_error());
        let stderr = serve_one(refused("auto", "epoll"));
        let lines: Vec<_> = stderr.lines().filter(|line| line.contains("io_uring")).collect();
        assert_eq!(lines.len(), 1, "{stderr}");
        assert!(lines[0].contains(&reason) && lines[0].contains("epoll"), "{stderr}");

        let stderr = serve_one(refused("epoll", "epoll"));
        assert!(!stderr.contains("io_uring"), "{stderr}");

        let stderr = refused("uring", "uring").fail(5);
        for text in [reason.as_str(), "kernel.io_uring_disabled", "seccomp", "memlock"] {
            assert!(stderr.contains(text), "{text}: {stderr}");
        }
    }
}

/// Whether rings count against this limit depends on the kernel, and on the capability `CAP_IPC_LOCK` of the process.
#[test]
fn a_memlock_limit_of_zero_does_not_prevent_serving() {
    let limited = || Gateway::serve().after("ulimit -l 0");
    let has_ring = limited().io("uring", "uring").spawn().listens_before_its_end();
    serve_one(limited().io("auto", if has_ring { "uring" } else { "epoll" }));
}
