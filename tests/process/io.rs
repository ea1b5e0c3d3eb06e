//! Where io_uring is refused: by seccomp, as containers do it, with either errno that they choose, and by limits.

use rustix::io::Errno;

use crate::statuses::FINE;
use crate::support::gateway::{Builder, Gateway};
use crate::support::way::ring;

/// What runtimes of containers answer: Docker EPERM, gVisor and older kernels ENOSYS.
const REFUSALS: [Errno; 2] = [Errno::PERM, Errno::NOSYS];

/// Serves one request, and returns what it said on stderr.
fn serves(builder: Builder) -> String {
    let mut gateway = builder.start();
    gateway.post(FINE).assert_accepted();
    gateway.terminate();
    gateway.end().stderr
}

#[test]
fn auto_waits_by_epoll_where_io_uring_is_refused_and_says_why_once() {
    for refused in REFUSALS {
        for workers in ["1", "3"] {
            let builder = Gateway::serve().arguments(["--workers", workers]);
            let stderr = serves(builder.io("auto", "epoll").where_uring_is(refused));
            let told: Vec<_> = stderr.lines().filter(|line| line.contains("io_uring")).collect();
            assert_eq!(told.len(), 1, "{stderr}");
            assert!(told[0].contains(&format!("os error {}", refused.raw_os_error())), "{stderr}");
            assert!(told[0].contains("epoll"), "{stderr}");
        }
    }
}

#[test]
fn epoll_asks_for_no_ring() {
    for refused in REFUSALS {
        let stderr = serves(Gateway::serve().io("epoll", "epoll").where_uring_is(refused));
        assert!(!stderr.contains("io_uring"), "{stderr}");
    }
}

#[test]
fn uring_where_it_is_refused_is_5_with_the_reason_and_the_cures() {
    for refused in REFUSALS {
        for workers in ["1", "3"] {
            let builder = Gateway::serve().arguments(["--workers", workers]);
            let mut gateway = builder.io("uring", "uring").where_uring_is(refused).spawn();
            assert_eq!(gateway.wait_exit(), 5);
            let output = gateway.end();
            assert!(!output.stdout.contains("listening"), "{}", output.stdout);
            let reason = format!("os error {}", refused.raw_os_error());
            for said in [reason.as_str(), "kernel.io_uring_disabled", "seccomp", "memlock"] {
                assert!(output.stderr.contains(said), "{said}: {}", output.stderr);
            }
        }
    }
}

/// Kernels from 5.12 on count rings against the memory cgroup and not against this limit; before, `auto` falls back.
#[test]
fn a_memlock_limit_of_zero_is_no_obstacle() {
    let counted = kernel_version() < (5, 12);
    let expected = if ring().is_ok() && !counted { "uring" } else { "epoll" };
    serves(Gateway::serve().io("auto", expected).limits("-l 0"));
}

fn kernel_version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|byte: char| !byte.is_ascii_digit()).map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}
