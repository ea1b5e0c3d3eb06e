//! A client's connection, by TCP, by TCP and TLS, or by a Unix socket, with the answers that it reads.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use socket2::Socket;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};

use crate::support::answer::Answer;
use crate::support::tls::TlsClient;
use crate::world::World;

const READ_BYTES: usize = 16 * 1024;

/// How a client connects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Tcp,
    Unix,
}

/// One connection. Drop closes it.
pub(crate) struct Stream {
    socket: AsyncFd<Socket>,
    tls: Option<Box<TlsClient>>,
    unread: Vec<u8>,
}

impl Stream {
    /// Connects without TLS.
    #[allow(deprecated, reason = "its unsafe successor asks for a promise that every owned descriptor keeps")]
    pub(crate) async fn connect_plain(world: &World, way: Way) -> io::Result<Self> {
        let socket = match way {
            Way::Tcp => Socket::from(TcpStream::connect(world.tcp).await?.into_std()?),
            Way::Unix => Socket::from(UnixStream::connect(&world.unix).await?.into_std()?),
        };
        Ok(Self { socket: AsyncFd::new(socket)?, tls: None, unread: Vec::new() })
    }

    /// Connects, with a handshake if the gateway serves https by this way.
    pub(crate) async fn connect(world: &World, way: Way) -> io::Result<Self> {
        let config = world.tls().filter(|_| way == Way::Tcp);
        let mut stream = Self::connect_plain(world, way).await?;
        if let Some(config) = config {
            stream.tls = Some(Box::new(TlsClient::new(&config, "localhost")));
            while stream.tls.as_mut().is_some_and(|tls| tls.connection().is_handshaking()) {
                stream.flush_tls().await?;
                if stream.read().await? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
            stream.flush_tls().await?;
        }
        Ok(stream)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.write_raw(bytes).await };
        let records = tls.write(bytes)?;
        self.write_raw(&records).await
    }

    /// Reads the next answer. Fails with `UnexpectedEof` if the connection ends instead.
    pub(crate) async fn answer(&mut self) -> io::Result<Answer> {
        loop {
            if let Some((answer, bytes)) = Answer::take(&self.unread, true).map_err(io::Error::other)? {
                answer.check().map_err(io::Error::other)?;
                self.unread.drain(..bytes);
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
        self.unread.is_empty()
    }

    /// Closes the connection, by TCP with a reset.
    pub(crate) fn reset(self) {
        // It fails by a Unix socket, and if the connection is gone.
        let _ = self.socket.get_ref().set_linger(Some(Duration::ZERO));
    }

    /// Ends the client's side, and keeps the other.
    pub(crate) fn half_close(&mut self) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Write);
    }

    /// Closes the connection as most clients do, in TLS with `close_notify`.
    pub(crate) async fn close(mut self) {
        if let Some(Ok(records)) = self.tls.as_mut().map(|tls| tls.close()) {
            let _ = self.write_raw(&records).await;
        }
    }

    async fn write_raw(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.socket.writable().await?;
            if let Ok(written) = ready.try_io(|socket| socket.get_ref().write(bytes)) {
                bytes = &bytes[written?..];
            }
        }
        Ok(())
    }

    async fn flush_tls(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let records = tls.records()?;
        self.write_raw(&records).await
    }

    /// Reads what comes next into `unread`. Returns the bytes that were read from the socket, 0 at its end.
    async fn read(&mut self) -> io::Result<usize> {
        loop {
            let mut ready = self.socket.readable().await?;
            if let Ok(read) = ready.try_io(|socket| read_into(socket.get_ref(), &mut self.tls, &mut self.unread)) {
                return read;
            }
        }
    }
}

/// The buffer is not a part of the future of a client, of which there are thousands.
fn read_into(mut socket: &Socket, tls: &mut Option<Box<TlsClient>>, unread: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; READ_BYTES];
    let bytes = socket.read(&mut buffer)?;
    match tls {
        None => unread.extend_from_slice(&buffer[..bytes]),
        Some(tls) => tls.read(&buffer[..bytes], unread)?,
    }
    Ok(bytes)
}
