//! Opens listening sockets of TCP.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use super::advice::{Refused, advised};

/// Listens at an address, non-blocking; with `takes_ipv4`, one that means every address of IPv6 means every one of IPv4
/// too. Accepted sockets inherit the options, and those that `set` sets. It binds without `SO_REUSEPORT`, with which a
/// second process could take half of the connections unnoticed.
pub(crate) fn open(
    address: SocketAddr,
    takes_ipv4: bool,
    backlog: i32,
    set: impl FnOnce(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // Connections of a former process that linger in TIME_WAIT must not keep a new one from its port.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!takes_ipv4)?;
    }
    // Answers are written whole, and messages together where there are several: to wait for more would only delay them.
    socket.set_tcp_nodelay(true)?;
    set(&socket)?;
    socket.bind(&address.into()).map_err(|error| advised(error, Refused::Port(address.port())))?;
    socket.listen(backlog)?;
    Ok(socket)
}
