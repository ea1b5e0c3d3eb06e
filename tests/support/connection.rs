//! A client's connection that never blocks, by TCP, TLS, or a Unix socket. Its owner waits for the socket.

use super::tls::TlsClient;
use super::*;

pub(crate) struct Connection {
    socket: Socket,
    tls: Option<Box<TlsClient>>,
    unsent: Vec<u8>,
    /// The plaintext that was read and not used yet.
    pub(crate) unread: Vec<u8>,
}

impl Connection {
    /// Takes a connected socket. A handshake begins with what is sent first, and goes on with what is read.
    pub(crate) fn over(socket: Socket, tls: Option<&Arc<ClientConfig>>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let tls = tls.map(|config| Box::new(TlsClient::new(config, "localhost")));
        Ok(Self { socket, tls, unsent: Vec::new(), unread: Vec::new() })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn session(&mut self) -> Option<&mut ClientConnection> {
        self.tls.as_mut().map(|tls| tls.connection())
    }

    pub(crate) fn is_handshaking(&mut self) -> bool {
        self.session().is_some_and(|session| session.is_handshaking())
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Sends bytes, as far as the socket takes them now.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            self.unsent.extend(tls.write(bytes)?);
            return self.flush();
        }
        let sent = if self.unsent.is_empty() { write_some(&self.socket, bytes)? } else { 0 };
        self.unsent.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Sends what has not been sent yet, as far as the socket takes it now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            self.unsent.extend(tls.records()?);
        }
        let sent = write_some(&self.socket, &self.unsent)?;
        self.unsent.drain(..sent);
        Ok(())
    }

    /// Reads once, into a buffer that several connections may share. Returns how many bytes there were, and 0 at the
    /// end. Something of a handshake may be to be sent then. An answer is read also where nothing can be sent any more.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = (&self.socket).read(buffer)?;
        match &mut self.tls {
            None => self.unread.extend_from_slice(&buffer[..bytes]),
            Some(tls) => tls.read(&buffer[..bytes], &mut self.unread)?,
        }
        Ok(bytes)
    }

    /// Ends the connection as most clients do, in TLS with `close_notify`, as far as the socket takes it now.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => return Ok(()),
            Some(tls) => self.unsent.extend(tls.close()?),
        }
        self.flush()
    }
}

fn write_some(mut socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(taken) => sent += taken,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
