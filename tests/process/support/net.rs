//! Addresses on the loopback that no other test, and no other program, is using.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::PATIENCE;

/// A free address that stays free while nothing listens on it. A port of 127.0.0.1 would not: the
/// kernel may give it to the next test that asks for any port. So each call has a host of its own
/// in 127/8, from the process's id and a counter.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let host = (std::process::id() << 8) + NEXT.fetch_add(1, Ordering::Relaxed);
    let [_, b, c, d] = host.to_be_bytes();
    let host = Ipv4Addr::new(127, b.max(1), c, d.clamp(1, 254));
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
}

/// An endpoint for a hub that is not there.
pub(crate) fn dead_endpoint() -> String {
    format!("tcp://{}", free_address())
}

/// Whether a connection is refused, as where nothing listens.
pub(crate) fn refuses(address: SocketAddr) -> bool {
    match TcpStream::connect(address) {
        Ok(_open) => false,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
    }
}

/// The next to connect.
pub(crate) fn visitor(listener: &TcpListener) -> TcpStream {
    let bound = Timespec::try_from(PATIENCE).unwrap();
    assert_eq!(poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&bound)), Ok(1), "nobody came");
    let (visitor, _) = listener.accept().unwrap();
    visitor.set_read_timeout(Some(PATIENCE)).unwrap();
    visitor
}
