//! Listening sockets that the parent passes.
//!
//! Other processes may accept from such a socket too: the parent, or a gateway that this one replaces. So it is never
//! shut down. It is made non-blocking, as every event-driven server needs it, and so it is for all who share its open
//! file description. No other option of it is set.
//!
//! While the API is switched off, connections are accepted and closed. In the backlog, clients would wait for an answer
//! that does not come.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname};

use crate::server::listener::BoundAddress;
use crate::sys::process::inherited_descriptor;

/// An inherited listening socket.
#[derive(Debug)]
pub struct InheritedSocket {
    pub(crate) number: RawFd,
    pub(crate) socket: OwnedFd,
    pub(crate) address: BoundAddress,
}

impl InheritedSocket {
    /// Takes the socket that the parent passed. Fails if it is no listening stream socket of TCP or of Unix sockets.
    pub fn take(number: RawFd) -> io::Result<Self> {
        let refused = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        let Ok(socket) = inherited_descriptor(number) else {
            return refused("the parent passed no such descriptor");
        };
        let is_stream = match socket_type(&socket) {
            Err(Errno::NOTSOCK) => return refused("it is not a socket"),
            socket_type => socket_type? == SocketType::STREAM,
        };
        if !is_stream || !socket_acceptconn(&socket)? {
            return refused("it is not a listening stream socket");
        }
        let address = match socket_domain(&socket)? {
            AddressFamily::INET | AddressFamily::INET6 => BoundAddress::Tcp(getsockname(&socket)?.try_into()?),
            AddressFamily::UNIX => BoundAddress::Unix(path(&getsockname(&socket)?.try_into()?)),
            _ => return refused("it is a socket neither of TCP nor of Unix sockets"),
        };
        ioctl_fionbio(&socket, true)?;
        Ok(Self { number, socket, address })
    }
}

/// `None` for a socket without a path, or with an abstract name.
fn path(address: &SocketAddrUnix) -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(std::ffi::OsStr::from_bytes(address.path()?.to_bytes()).into())
}
