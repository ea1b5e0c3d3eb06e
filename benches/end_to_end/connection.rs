//! A client's connection in http or https, by TCP or a Unix socket. It blocks only while it is opened.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, HandshakeKind};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::Failure;
use crate::request::Answers;
use crate::tls::TlsClient;

/// How long a server may take to accept a connection, and to complete the handshake of TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that are read at once, into a buffer that all connections share.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// One connection.
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    tls: Option<Box<TlsClient>>,
    unsent: Vec<u8>,
    /// The beginning of an answer whose end has not come yet.
    partial: Vec<u8>,
    /// Requests that have not been answered yet.
    pub(crate) unanswered: usize,
}

impl Connection {
    /// Connects, and completes a handshake if a configuration of TLS is given. A reset will close the connection, because
    /// otherwise many ports would be in TIME_WAIT.
    pub(crate) fn open(address: &SockAddr, tls: Option<&Arc<ClientConfig>>) -> Result<Self, Failure> {
        let mut connection = Self::begin(address, None, tls)?;
        connection.socket.set_linger(Some(Duration::ZERO))?;
        if let Some(tls) = &mut connection.tls {
            complete_handshake(&mut connection.socket, tls.connection())?;
        }
        Ok(connection)
    }

    /// Connects, from the address `source` if it is given. If a configuration of TLS is given, the handshake begins with
    /// the first request.
    pub(crate) fn begin(
        address: &SockAddr,
        source: Option<Ipv4Addr>,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, Failure> {
        let socket = Socket::new(address.domain(), Type::STREAM, None)?;
        if let Some(source) = source {
            socket.bind(&SocketAddr::from((source, 0)).into())?;
        }
        if address.domain() != Domain::UNIX {
            socket.set_tcp_nodelay(true)?;
        }
        socket.connect_timeout(address, CONNECT_TIMEOUT)?;
        let tls = tls.map(|config| Box::new(TlsClient::new(config, "localhost")));
        socket.set_nonblocking(true)?;
        Ok(Self { socket, tls, unsent: Vec::new(), partial: Vec::new(), unanswered: 0 })
    }

    /// Ends the connection as most clients do: with `close_notify` in TLS, and without a reset. Drop closes it.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        if let Some(tls) = &mut self.tls {
            self.unsent.extend(tls.close()?);
        }
        self.flush()
    }

    /// Returns whether the handshake was full or resumed a session.
    pub(crate) fn handshake_kind(&mut self) -> Option<HandshakeKind> {
        self.tls.as_mut()?.connection().handshake_kind()
    }

    /// Sends a pipeline of requests, as far as the socket takes them now.
    pub(crate) fn send(&mut self, requests: &[u8], pipelined: usize) -> Result<(), Failure> {
        self.unanswered += pipelined;
        let Some(tls) = &mut self.tls else {
            let sent = if self.unsent.is_empty() { write_some(&self.socket, requests)? } else { 0 };
            self.unsent.extend_from_slice(requests.get(sent..).unwrap_or_default());
            return Ok(());
        };
        self.unsent.extend(tls.write(requests)?);
        self.flush()
    }

    /// Sends what has not been sent yet, as far as the socket takes it now.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if let Some(tls) = &mut self.tls {
            self.unsent.extend(tls.records()?);
        }
        if !self.unsent.is_empty() {
            let sent = write_some(&self.socket, &self.unsent)?;
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Reads all bytes that have come. Returns the number of answers that are complete now.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], answers: &mut Answers) -> Result<usize, Failure> {
        let mut count = 0;
        loop {
            let bytes = match (&self.socket).read(buffer) {
                Ok(0) => return Err("the server closed a connection".into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            };
            let input = buffer.get(..bytes).unwrap_or_default();
            count += match &mut self.tls {
                None if self.partial.is_empty() => {
                    let (count, used) = answers.count(input)?;
                    self.partial.extend_from_slice(input.get(used..).unwrap_or_default());
                    count
                }
                None => {
                    self.partial.extend_from_slice(input);
                    self.count_partial(answers)?
                }
                Some(tls) => {
                    tls.read(input, &mut self.partial)?;
                    // The last message of the handshake, and the request behind it.
                    self.flush()?;
                    self.count_partial(answers)?
                }
            };
            if bytes < buffer.len() {
                break;
            }
        }
        self.unanswered = self.unanswered.checked_sub(count).ok_or("more answers than requests")?;
        Ok(count)
    }

    fn count_partial(&mut self, answers: &mut Answers) -> Result<usize, Failure> {
        let (count, used) = answers.count(&self.partial)?;
        self.partial.drain(..used);
        Ok(count)
    }
}

/// Completes a handshake. Blocks meanwhile.
fn complete_handshake(socket: &mut Socket, tls: &mut ClientConnection) -> Result<(), Failure> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    while tls.is_handshaking() {
        tls.complete_io(socket)?;
    }
    Ok(socket.set_nonblocking(true)?)
}

fn write_some(mut socket: &Socket, bytes: &[u8]) -> Result<usize, Failure> {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        match socket.write(rest) {
            Ok(taken) => sent += taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent)
}
