//! Addresses on the loopback interface that no other test and no other program uses.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::PATIENCE;

/// Returns a free address that stays free while nothing listens on it. A port of 127.0.0.1 would not stay free, because
/// the kernel may give it to the next test that asks for any port. So each call takes another host of 127.0.0.0/8, from
/// the id of this process and a counter.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let host = (std::process::id() << 8) + NEXT.fetch_add(1, Ordering::Relaxed);
    let [_, b, c, d] = host.to_be_bytes();
    let host = Ipv4Addr::new(127, b.max(1), c, d.clamp(1, 254));
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
}

/// Returns an endpoint where no hub listens.
pub(crate) fn dead_endpoint() -> String {
    format!("tcp://{}", free_address())
}

/// Returns whether a connection to this address is refused, because nothing listens there.
pub(crate) fn refuses(address: SocketAddr) -> bool {
    match TcpStream::connect(address) {
        Ok(_open) => false,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
    }
}

/// Returns whether a process listens on this IPv4 address, without a connection to it (proc_net(5)).
pub(crate) fn is_listening(address: SocketAddr) -> bool {
    const LISTEN: &str = "0A";
    let SocketAddr::V4(address) = address else { panic!("{address} is not an IPv4 address") };
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next() == Some(&local) && columns.nth(1) == Some(LISTEN)
    })
}

/// Waits for the next connection and accepts it.
pub(crate) fn accept_connection(listener: &TcpListener) -> TcpStream {
    let timeout = Timespec::try_from(PATIENCE).unwrap();
    let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
    assert_eq!(ready, Ok(1), "nobody connected in time");
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}
