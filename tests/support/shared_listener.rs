//! A listening socket that the test shares with gateways, which inherit it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use rustix::fs::{OFlags, fcntl_getfl};
use tempfile::TempDir;

use super::PATIENCE;
use super::http::Client;

/// A drain time of which no test waits for the end, nor for the half. A tenth of it is the longest pause of a client
/// between two requests, on a slow machine too.
pub(crate) const LONG_DRAIN: [&str; 2] = ["--drain-timeout", "60"];

/// A stream of either kind.
pub(crate) trait Connection: Read + Write + Send {}

impl<S: Read + Write + Send> Connection for S {}

/// A listening socket that the test shares with gateways.
pub(crate) enum Shared {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf, #[expect(dead_code, reason = "it is removed on drop")] TempDir),
}

impl Shared {
    pub(crate) fn tcp() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Self::Tcp(listener, address)
    }

    pub(crate) fn unix() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shared");
        Self::Unix(UnixListener::bind(&path).unwrap(), path, directory)
    }

    pub(crate) fn both() -> [Self; 2] {
        [Self::tcp(), Self::unix()]
    }

    pub(crate) fn descriptor(&self) -> OwnedFd {
        match self {
            Self::Tcp(listener, _) => listener.as_fd(),
            Self::Unix(listener, ..) => listener.as_fd(),
        }
        .try_clone_to_owned()
        .unwrap()
    }

    pub(crate) fn connect(&self) -> Client<Box<dyn Connection>> {
        let patience = Some(PATIENCE);
        match self {
            Self::Tcp(_, address) => {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(patience).unwrap();
                Client::over(Box::new(stream))
            }
            Self::Unix(_, path, _) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(patience).unwrap();
                Client::over(Box::new(stream))
            }
        }
    }

    pub(crate) fn set_nonblocking(&self) {
        match self {
            Self::Tcp(listener, _) => listener.set_nonblocking(true).unwrap(),
            Self::Unix(listener, ..) => listener.set_nonblocking(true).unwrap(),
        }
    }

    pub(crate) fn flags(&self) -> OFlags {
        fcntl_getfl(self.descriptor()).unwrap()
    }
}
