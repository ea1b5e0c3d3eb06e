//! A client's connection, in plain http or TLS, that never blocks once it stands.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};

use crate::Failure;
use crate::request::Answers;

/// What a server gets to accept, and to shake hands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes read at once, into a buffer that all connections share.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// A connection.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    unsent: Vec<u8>,
    /// The beginning of an answer whose end is to come.
    partial: Vec<u8>,
    /// Requests that were not answered yet.
    pub(crate) awaited: usize,
}

impl Connection {
    /// Connects, and shakes hands where there is a configuration of TLS.
    pub(crate) fn open(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> Result<Self, Failure> {
        let mut socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        socket.set_nodelay(true)?;
        // Closed by a reset: ports in TIME_WAIT would run out.
        socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
        let tls = tls.map(|config| shake_hands(&mut socket, config)).transpose()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, tls, unsent: Vec::new(), partial: Vec::new(), awaited: 0 })
    }

    /// How it shook hands.
    pub(crate) fn handshake_kind(&self) -> Option<HandshakeKind> {
        self.tls.as_ref()?.handshake_kind()
    }

    /// Sends a pipeline of requests, as far as the socket takes it.
    pub(crate) fn send(&mut self, requests: &[u8], pipelined: usize) -> Result<(), Failure> {
        self.awaited += pipelined;
        let Some(tls) = &mut self.tls else {
            let sent = if self.unsent.is_empty() { write_some(&self.socket, requests)? } else { 0 };
            self.unsent.extend_from_slice(requests.get(sent..).unwrap_or_default());
            return Ok(());
        };
        tls.writer().write_all(requests)?;
        while tls.wants_write() {
            tls.write_tls(&mut self.unsent)?;
        }
        self.flush()
    }

    /// Sends what was left, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if !self.unsent.is_empty() {
            let sent = write_some(&self.socket, &self.unsent)?;
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Reads all there is. How many answers it completed.
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
                    decrypt(tls, input, &mut self.partial)?;
                    self.count_partial(answers)?
                }
            };
            if bytes < buffer.len() {
                break;
            }
        }
        self.awaited = self.awaited.checked_sub(count).ok_or("more answers than requests")?;
        Ok(count)
    }

    fn count_partial(&mut self, answers: &mut Answers) -> Result<usize, Failure> {
        let (count, used) = answers.count(&self.partial)?;
        self.partial.drain(..used);
        Ok(count)
    }
}

/// A handshake on a socket that blocks.
fn shake_hands(socket: &mut TcpStream, config: &Arc<ClientConfig>) -> Result<Box<ClientConnection>, Failure> {
    socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    let name = ServerName::try_from("localhost")?;
    let mut tls = Box::new(ClientConnection::new(Arc::clone(config), name)?);
    tls.set_buffer_limit(None);
    while tls.is_handshaking() {
        tls.complete_io(socket)?;
    }
    Ok(tls)
}

fn decrypt(tls: &mut ClientConnection, mut records: &[u8], plaintext: &mut Vec<u8>) -> Result<(), Failure> {
    while !records.is_empty() {
        tls.read_tls(&mut records)?;
        let arrived = tls.process_new_packets()?.plaintext_bytes_to_read();
        let before = plaintext.len();
        plaintext.resize(before + arrived, 0);
        tls.reader().read_exact(plaintext.get_mut(before..).unwrap_or_default())?;
    }
    Ok(())
}

fn write_some(mut socket: &TcpStream, bytes: &[u8]) -> Result<usize, Failure> {
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
