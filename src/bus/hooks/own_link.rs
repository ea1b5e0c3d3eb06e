//! Recognises what connects to this process from itself: the gateway's own link to its hub.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{getpeername, getsockname, sockopt};
use rustix::process::getpid;

/// The connections that libzmq has made, with their address at this end.
static DIALLED: Mutex<Vec<(RawFd, SocketAddr)>> = Mutex::new(Vec::new());

fn dialled_connections() -> MutexGuard<'static, Vec<(RawFd, SocketAddr)>> {
    DIALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of a connection that libzmq makes.
pub(super) fn dialled(fd: BorrowedFd<'_>, number: RawFd) {
    if let Some(address) = getsockname(fd).ok().and_then(|address| SocketAddr::try_from(address).ok()) {
        dialled_connections().push((number, canonical(address)));
    }
}

/// Forgets a connection that is closed.
pub(super) fn closed(number: RawFd) {
    dialled_connections().retain(|(other, _)| *other != number);
}

/// Returns whether an accepted connection comes from this process. The other end of a Unix socket has no address, but a
/// process.
pub(super) fn is_own(fd: BorrowedFd<'_>) -> bool {
    match getpeername(fd).map(|address| address.and_then(|address| SocketAddr::try_from(address).ok())) {
        Ok(Some(address)) => dialled_connections().iter().any(|(_, dialled)| *dialled == canonical(address)),
        _ => sockopt::socket_peercred(fd).is_ok_and(|peer| peer.pid == getpid()),
    }
}

/// A connection by IPv4 may be one by IPv6 at its other end.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
