//! A client's connection, for tasks: by TCP, by TCP and TLS, or by a Unix socket.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};

use crate::support::connection::Connection;
use crate::world::World;

const READ_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Tcp,
    Unix,
}

pub(crate) struct Stream {
    /// It is dropped before its descriptor is closed.
    readiness: AsyncFd<RawFd>,
    /// Its two directions are used at the same time.
    connection: RefCell<Connection>,
    /// Whether the client has closed or reset it.
    pub(crate) is_closed: Cell<bool>,
}

impl Stream {
    /// Connects, with a handshake if the gateway serves https by this way and `speaks_tls` is set.
    #[allow(deprecated, reason = "its unsafe successor asks for a promise that every owned descriptor keeps")]
    pub(crate) async fn connect(world: &World, way: Way, speaks_tls: bool) -> io::Result<Self> {
        let config = world.tls().filter(|_| way == Way::Tcp && speaks_tls);
        let socket = match way {
            Way::Tcp => Socket::from(TcpStream::connect(world.tcp).await?.into_std()?),
            Way::Unix => Socket::from(UnixStream::connect(&world.unix).await?.into_std()?),
        };
        let readiness = AsyncFd::new(socket.as_raw_fd())?;
        let connection = RefCell::new(Connection::over(socket, config.as_ref())?);
        let stream = Self { readiness, connection, is_closed: Cell::default() };
        stream.flush().await?;
        while stream.with(Connection::is_handshaking) {
            if stream.read().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            stream.flush().await?;
        }
        Ok(stream)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Connection) -> T) -> T {
        act(&mut self.connection.borrow_mut())
    }

    pub(crate) async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.with(|connection| connection.send(bytes))?;
        self.flush().await
    }

    /// Takes the bytes of answers that have come.
    pub(crate) fn take_plaintext(&self) -> Vec<u8> {
        self.with(|connection| std::mem::take(&mut connection.unread))
    }

    /// Lets the drop close the connection by TCP with a reset.
    pub(crate) fn reset(&self) {
        // It fails by a Unix socket, and if the connection is gone.
        let _ = self.with(|connection| connection.socket().set_linger(Some(Duration::ZERO)));
        self.is_closed.set(true);
    }

    pub(crate) fn half_close(&self) {
        let _ = self.with(|connection| connection.socket().shutdown(std::net::Shutdown::Write));
    }

    /// Ends the connection as most clients do.
    pub(crate) fn close(&self) {
        if !self.is_closed.replace(true) {
            let _ = self.with(Connection::close);
        }
    }

    /// Waits until the socket has taken all that was to be sent.
    async fn flush(&self) -> io::Result<()> {
        let flush = |connection: &mut Connection| {
            connection.flush()?;
            if connection.is_sent() { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
        };
        self.readiness.async_io(Interest::WRITABLE, |_| self.with(flush)).await
    }

    /// Returns how many bytes were read from the socket, 0 at its end. The buffer is not a part of the future of a
    /// client, of which there are thousands.
    pub(crate) async fn read(&self) -> io::Result<usize> {
        let read = |connection: &mut Connection| connection.receive(&mut [0; READ_BYTES]);
        self.readiness.async_io(Interest::READABLE, |_| self.with(read)).await
    }
}
