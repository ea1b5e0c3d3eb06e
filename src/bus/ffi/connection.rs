//! Calls for the connections of libzmq, of which libzmq knows nothing.
//!
//! Each of them takes the number of a descriptor. The caller holds the lock under which the hook for `close` forgets that
//! number, so the descriptor is open, and is the connection that is meant.

use std::os::fd::{BorrowedFd, RawFd};

use rustix::event::epoll;
use rustix::net::{Shutdown, SocketAddrUnix, getsockname, shutdown};

/// How a connection is registered with the epoll instance of libzmq's thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    pub(crate) epoll: RawFd,
    pub(crate) connection: RawFd,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

impl Registration {
    /// Lets libzmq's thread wait for the connection.
    pub(crate) fn add(&self) {
        let flags = epoll::EventFlags::from_bits_retain(self.events);
        let data = epoll::EventData::new_u64(self.data);
        let added = epoll::add(borrowed(self.epoll), borrowed(self.connection), data, flags);
        debug_assert!(added.is_ok(), "{added:?}");
    }

    /// Lets libzmq's thread not wait for the connection, not even for its end.
    pub(crate) fn remove(&self) {
        let removed = epoll::delete(borrowed(self.epoll), borrowed(self.connection));
        debug_assert!(removed.is_ok(), "{removed:?}");
    }
}

/// Ends both directions of a connection. libzmq reads the end, and closes it.
pub(crate) fn shut_down(connection: RawFd) {
    // The only error is that the peer has ended it already.
    let _ = shutdown(borrowed(connection), Shutdown::Both);
}

/// Returns how many of the sent bytes the peer has not acknowledged, or, at a Unix socket, not read.
pub(crate) fn unacknowledged_bytes(connection: RawFd) -> u64 {
    let mut bytes = 0;
    // SAFETY: the descriptor is open, and the kernel writes an `int` to the address.
    let status = unsafe { libc::ioctl(connection, libc::TIOCOUTQ, &raw mut bytes) };
    debug_assert_eq!(status, 0, "a socket tells what it has not sent");
    u64::try_from(bytes).unwrap_or_default()
}

/// Returns the endpoint of ours that the peer has connected to.
pub(crate) fn local_endpoint(connection: RawFd) -> String {
    let address = getsockname(borrowed(connection)).ok();
    let unix = || SocketAddrUnix::try_from(address.clone()?).ok();
    let path = unix().and_then(|unix| Some(format!("ipc://{}", unix.path()?.to_string_lossy())));
    let tcp = || Some(format!("tcp://{}", std::net::SocketAddr::try_from(address.clone()?).ok()?));
    path.or_else(tcp).unwrap_or_default()
}

fn borrowed<'c>(descriptor: RawFd) -> BorrowedFd<'c> {
    // SAFETY: the callers see to it that the descriptor is open for as long as they use it.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}
