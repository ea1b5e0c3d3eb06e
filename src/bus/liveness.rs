//! Whether the other side of a TCP connection is still there. A machine that has vanished, or an address of ours that has
//! gone, closes nothing.
//!
//! While nothing is sent, the kernel's keep-alive finds out. It does not run while data is unacknowledged: then the
//! kernel sends it again for 15 minutes, so the bus checks each connection itself. `TCP_USER_TIMEOUT` is not the way,
//! since it also ends a peer that acknowledges and does not read.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use socket2::TcpKeepalive;

use super::ffi;

/// A connection that was idle for so long is probed with so many probes, so far apart, before it ends.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
pub(super) const KEEPALIVE_PROBES: u32 = 3;

/// The pause between two checks of all connections: one that has vanished is found within half a minute. A check comes
/// between the last probe and the end that the kernel then puts to the connection, which says nothing of it.
pub(super) const CHECK_PAUSE: Duration = Duration::from_secs(4);
const _: () = assert!(CHECK_PAUSE.as_secs() < KEEPALIVE_INTERVAL.as_secs());

/// How long the other side must have acknowledged nothing.
const SILENT_MS: u32 = 20_000;
/// How often it must have been asked meanwhile: by data that was sent again, or by probes. On a slow link these are
/// further apart, so that it has more time.
const RETRANSMITS: u8 = 4;
const PROBES: u8 = 3;

/// What the other side does then.
pub(super) const HAS_VANISHED: &str = "has acknowledged nothing for 20 s";

/// Returns the keep-alive that the connections of the bus have.
pub(super) fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_PROBES)
}

/// Returns whether the other side has acknowledged nothing for 20 s although it was asked to several times. One that is
/// stopped acknowledges the probes of its full window. What is no TCP connection never vanishes.
pub(super) fn has_vanished(connection: BorrowedFd<'_>) -> bool {
    ffi::tcp_info(connection).is_ok_and(|info| {
        let is_asked = info.tcpi_retransmits >= RETRANSMITS || info.tcpi_probes >= PROBES;
        info.tcpi_last_ack_recv > SILENT_MS && is_asked
    })
}
