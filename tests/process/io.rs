//! What the gateway does where io_uring is refused: by seccomp, as containers refuse it, or by a limit.

use rustix::io::Errno;

use crate::statuses::FINE;
use crate::support::gateway::{Builder, Gateway};

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
fn auto_uses_epoll_where_io_uring_is_refused_and_says_why_once() {
    for errno in REFUSALS {
        for workers in ["1", "3"] {
            let builder = Gateway::serve().arguments(["--workers", workers]);
            let stderr = serve_one(builder.io("auto", "epoll").io_uring_refused_with(errno));
            let lines: Vec<_> = stderr.lines().filter(|line| line.contains("io_uring")).collect();
            assert_eq!(lines.len(), 1, "{stderr}");
            assert!(lines[0].contains(&format!("os error {}", errno.raw_os_error())), "{stderr}");
            assert!(lines[0].contains("epoll"), "{stderr}");
        }
    }
}

#[test]
fn epoll_does_not_try_io_uring() {
    for errno in REFUSALS {
        let stderr = serve_one(Gateway::serve().io("epoll", "epoll").io_uring_refused_with(errno));
        assert!(!stderr.contains("io_uring"), "{stderr}");
    }
}

#[test]
fn uring_exits_with_5_where_it_is_refused_and_names_reason_and_remedies() {
    for errno in REFUSALS {
        for workers in ["1", "3"] {
            let builder = Gateway::serve().arguments(["--workers", workers]);
            let mut gateway = builder.io("uring", "uring").io_uring_refused_with(errno).spawn();
            let output = gateway.finish(5);
            assert!(!output.stdout.contains("listening"), "{}", output.stdout);
            let reason = format!("os error {}", errno.raw_os_error());
            for text in [reason.as_str(), "kernel.io_uring_disabled", "seccomp", "memlock"] {
                assert!(output.stderr.contains(text), "{text}: {}", output.stderr);
            }
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
