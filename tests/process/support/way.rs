//! By which way the gateways of this run wait for sockets.

use std::io::Write;
use std::sync::LazyLock;

use io_uring::{IoUring, cqueue, squeue};

/// Entries of the ring that a worker sets up, with the flags below.
const RING_ENTRIES: u32 = 1024;

/// Set where a ring must be had: without one the tests fail instead of waiting by epoll.
const REQUIRE_URING: &str = "REQUIRE_URING";

/// `uring` in the crate `process`, `epoll` in `process_epoll`.
///
/// Where the kernel refuses rings, `process` waits by epoll too, so that all of it can be tested in a container. It says
/// so on stderr, past the capture of the test harness.
pub(crate) fn way() -> &'static str {
    static WAY: LazyLock<&str> = LazyLock::new(|| match env!("CARGO_CRATE_NAME") {
        "process_epoll" => "epoll",
        _ => match ring() {
            Ok(()) => "uring",
            Err(error) if std::env::var_os(REQUIRE_URING).is_some() => panic!("no io_uring here: {error}"),
            Err(error) => {
                let note = format!("\nNOTE: no io_uring here ({error}): these tests wait by epoll.\n");
                let _ = std::io::stderr().write_all(note.as_bytes());
                "epoll"
            }
        },
    });
    *WAY
}

/// Whether the kernel grants a ring, asked without the gateway's own code, and in a thread of its own: the end of a
/// ring interrupts the system calls of the thread that made it.
pub(crate) fn ring() -> std::io::Result<()> {
    let ask = || {
        let mut ring = IoUring::<squeue::Entry, cqueue::Entry>::builder();
        ring.setup_coop_taskrun().setup_single_issuer().build(RING_ENTRIES).map(drop)
    };
    std::thread::spawn(ask).join().unwrap()
}
