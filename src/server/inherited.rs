//! Listening sockets that the parent passes.
//!
//! Other processes may accept from such a socket too: the parent, or a gateway that this one replaces. So it is never
//! shut down. It is made non-blocking, as every event-driven server needs it, and so it is for all who share its open
//! file description. No other option of it is set.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;

use rustix::io::Errno;
use socket2::{SockRef, Type};

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
        let Ok(descriptor) = inherited_descriptor(number) else {
            return refused("the parent passed no such descriptor");
        };
        let socket = SockRef::from(&descriptor);
        let is_stream = match socket.r#type() {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTSOCK) => return refused("it is not a socket"),
            socket_type => socket_type? == Type::STREAM,
        };
        if !is_stream || !socket.is_listener()? {
            return refused("it is not a listening stream socket");
        }
        let local = socket.local_addr()?;
        let address = match local.as_socket() {
            Some(address) => BoundAddress::Tcp(address),
            None if local.is_unix() => BoundAddress::Unix(local.as_pathname().map(Path::to_path_buf)),
            None => return refused("it is a socket neither of TCP nor of Unix sockets"),
        };
        socket.set_nonblocking(true)?;
        Ok(Self { number, socket: descriptor, address })
    }
}
