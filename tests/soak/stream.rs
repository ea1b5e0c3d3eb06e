//! A client's connection, for tasks: by TCP, by TCP and TLS, or by a Unix socket, with the answers that it reads.

use std::io::{self, ErrorKind};
use std::time::Duration;

use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};

use crate::support::Answer;
use crate::support::connection::Connection;
use crate::world::World;

const READ_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Tcp,
    Unix,
}

/// One connection. Drop closes it.
pub(crate) struct Stream(AsyncFd<Connection>);

impl Stream {
    /// Connects, with a handshake if the gateway serves https by this way and `speaks_tls` is set.
    #[allow(deprecated, reason = "its unsafe successor asks for a promise that every owned descriptor keeps")]
    pub(crate) async fn connect(world: &World, way: Way, speaks_tls: bool) -> io::Result<Self> {
        let config = world.tls().filter(|_| way == Way::Tcp && speaks_tls);
        let socket = match way {
            Way::Tcp => Socket::from(TcpStream::connect(world.tcp).await?.into_std()?),
            Way::Unix => Socket::from(UnixStream::connect(&world.unix).await?.into_std()?),
        };
        let mut stream = Self(AsyncFd::new(Connection::over(socket, config.as_ref())?)?);
        stream.flush().await?;
        while stream.0.get_mut().is_handshaking() {
            if stream.read().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            stream.flush().await?;
        }
        Ok(stream)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().send(bytes)?;
        self.flush().await
    }

    /// Reads the next answer. Fails with `UnexpectedEof` if the connection ends instead.
    pub(crate) async fn answer(&mut self) -> io::Result<Answer> {
        loop {
            let unread = &mut self.0.get_mut().unread;
            if let Some((answer, bytes)) = Answer::take(unread, true).map_err(io::Error::other)? {
                answer.check().map_err(io::Error::other)?;
                unread.drain(..bytes);
                return Ok(answer);
            }
            if self.read().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Waits until the gateway closes the connection. Returns whether it sent no byte before.
    pub(crate) async fn ends_silently(&mut self) -> bool {
        // A reset ends it too.
        while self.read().await.is_ok_and(|bytes| bytes > 0) {}
        self.0.get_ref().unread.is_empty()
    }

    /// Closes the connection, by TCP with a reset.
    pub(crate) fn reset(self) {
        // It fails by a Unix socket, and if the connection is gone.
        let _ = self.0.get_ref().socket().set_linger(Some(Duration::ZERO));
    }

    /// Ends the client's side, and keeps the other.
    pub(crate) fn half_close(&mut self) {
        let _ = self.0.get_ref().socket().shutdown(std::net::Shutdown::Write);
    }

    /// Closes the connection as most clients do.
    pub(crate) fn close(self) {
        let _ = self.0.into_inner().close();
    }

    /// Waits until the socket has taken all that was to be sent.
    async fn flush(&mut self) -> io::Result<()> {
        let flush = |connection: &mut Connection| {
            connection.flush()?;
            if connection.is_sent() { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
        };
        self.0.async_io_mut(Interest::WRITABLE, flush).await
    }

    /// Returns how many bytes were read from the socket, 0 at its end. The buffer is not a part of the future of a
    /// client, of which there are thousands.
    async fn read(&mut self) -> io::Result<usize> {
        let read = |connection: &mut Connection| connection.receive(&mut [0; READ_BYTES]);
        self.0.async_io_mut(Interest::READABLE, read).await
    }
}
