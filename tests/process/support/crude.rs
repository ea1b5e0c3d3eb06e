//! A client without manners: bytes out, no care for what comes back, and every way to leave.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// What the kernel is asked to buffer of answers that are not read; it takes a little more.
const SMALL_WINDOW_BYTES: usize = 2048;

pub(crate) struct Crude(TcpStream);

impl Crude {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).unwrap())
    }

    /// With so small a window that answers soon stay with the gateway.
    pub(crate) fn with_small_window(address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(SMALL_WINDOW_BYTES).unwrap();
        socket.connect(&address.into()).unwrap();
        Self(socket.into())
    }

    /// Sends; whether the gateway still took it.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends the same again and again, until the gateway takes no more for a moment. The bytes sent.
    pub(crate) fn send_until_full(&mut self, bytes: &[u8]) -> usize {
        self.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut sent = 0;
        while let Ok(taken @ 1..) = self.0.write(bytes) {
            sent += taken;
        }
        sent
    }

    /// Waits for bytes, so long; what came, `None` at the end of the connection, however it ended.
    pub(crate) fn read(&mut self, into: &mut [u8], patience: Duration) -> Option<usize> {
        self.0.set_read_timeout(Some(patience)).unwrap();
        match self.0.read(into) {
            Ok(0) => None,
            Ok(bytes) => Some(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Some(0),
            Err(_reset) => None,
        }
    }

    pub(crate) fn half_close(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Ends the connection by a reset.
    pub(crate) fn reset(self) {
        SockRef::from(&self.0).set_linger(Some(Duration::ZERO)).unwrap();
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.0
    }
}
