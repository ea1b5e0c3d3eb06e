//! A listening socket that the test shares with gateways, which inherit it.

use rustix::fs::{OFlags, fcntl_getfl};
use socket2::{SockAddr, Socket, Type};
use tempfile::TempDir;

use super::gateway::ANY_PORT;
use super::http::Client;
use super::net::connect;

/// A drain time of which no test waits for the end, nor for the half. A tenth of it is the longest pause of a client
/// between two requests, on a slow machine too.
pub(crate) const LONG_DRAIN: [&str; 2] = ["--drain-timeout", "60"];

pub(crate) struct Shared {
    pub(crate) listener: Socket,
    _directory: TempDir,
}

impl Shared {
    pub(crate) fn tcp() -> Self {
        Self::bound(&ANY_PORT.into(), tempfile::tempdir().unwrap())
    }

    pub(crate) fn unix() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::bound(&SockAddr::unix(directory.path().join("shared")).unwrap(), directory)
    }

    fn bound(address: &SockAddr, directory: TempDir) -> Self {
        let listener = Socket::new(address.domain(), Type::STREAM, None).unwrap();
        listener.bind(address).unwrap();
        listener.listen(128).unwrap();
        Self { listener, _directory: directory }
    }

    pub(crate) fn both() -> [Self; 2] {
        [Self::tcp(), Self::unix()]
    }

    pub(crate) fn address(&self) -> SockAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) fn connect(&self) -> Client<Socket> {
        Client::over(connect(&self.address()).unwrap())
    }

    pub(crate) fn flags(&self) -> OFlags {
        fcntl_getfl(&self.listener).unwrap()
    }
}
