//! The value of `--io` for the gateways of this run.

use std::io::Write;
use std::sync::LazyLock;

use io_uring::{IoUring, cqueue, squeue};

/// The environment variable with which the tests fail where the kernel refuses a ring, instead of waiting with epoll.
const REQUIRE_URING: &str = "REQUIRE_URING";
/// The environment variable that names the way in which the gateways wait.
pub(crate) const IO_VARIABLE: &str = "GATEWAY_IO";

/// Returns what `GATEWAY_IO` says, and else `uring`.
///
/// Where the kernel refuses rings, it returns `epoll`, so that all tests can run in a container. It then says so on
/// stderr, past the output capture of the test harness.
pub(crate) fn io_mode() -> &'static str {
    static MODE: LazyLock<&str> = LazyLock::new(|| match std::env::var(IO_VARIABLE).as_deref() {
        Ok("epoll") => "epoll",
        Ok(other) if other != "uring" => panic!("{IO_VARIABLE} is {other}"),
        _ => match probe_io_uring() {
            Ok(()) => "uring",
            Err(error) if std::env::var_os(REQUIRE_URING).is_some() => panic!("io_uring is refused: {error}"),
            Err(error) => {
                let note = format!("\nNOTE: io_uring is refused here ({error}), so these tests use epoll.\n");
                let _ = std::io::stderr().write_all(note.as_bytes());
                "epoll"
            }
        },
    });
    *MODE
}

/// Makes a ring as a worker does and enters it, without the gateway's own code. Uses a thread of its own, because
/// the end of a ring interrupts the system calls of the thread that made it.
fn probe_io_uring() -> std::io::Result<()> {
    let probe = || {
        let mut ring = IoUring::<squeue::Entry, cqueue::Entry>::builder();
        ring.setup_single_issuer().setup_coop_taskrun().build(256)?.submit().map(drop)
    };
    std::thread::spawn(probe).join().unwrap()
}
