//! A client that sends any bytes, ignores what the gateway answers, and ends a connection in every way there is.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use super::net::connect_after;

/// How many bytes of unread answers the kernel is asked to buffer. It buffers a little more.
const SMALL_WINDOW_BYTES: usize = 2048;

pub(crate) struct RawClient(TcpStream);

impl RawClient {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).unwrap())
    }

    /// Connects with a receive window so small that after a few answers the gateway cannot send the next one.
    pub(crate) fn with_small_window(address: SocketAddr) -> Self {
        let socket = connect_after(&address.into(), |socket| socket.set_recv_buffer_size(SMALL_WINDOW_BYTES));
        Self(socket.unwrap().into())
    }

    /// Sends all bytes. Returns whether the connection still took them.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends the same bytes again and again until the connection takes none for 200 ms. Returns how many it took.
    pub(crate) fn send_until_full(&mut self, bytes: &[u8]) -> usize {
        self.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut sent = 0;
        while let Ok(taken @ 1..) = self.0.write(bytes) {
            sent += taken;
        }
        sent
    }

    /// Waits up to `timeout` for bytes. Returns how many came, and `None` if the connection ended, by a reset or not.
    pub(crate) fn read(&mut self, into: &mut [u8], timeout: Duration) -> Option<usize> {
        self.0.set_read_timeout(Some(timeout)).unwrap();
        match self.0.read(into) {
            Ok(0) => None,
            Ok(bytes) => Some(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Some(0),
            Err(_reset) => None,
        }
    }

    /// Returns whether neither bytes nor the end of the connection have arrived.
    pub(crate) fn has_nothing_to_read(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    pub(crate) fn half_close(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    pub(crate) fn reset(self) {
        SockRef::from(&self.0).set_linger(Some(Duration::ZERO)).unwrap();
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.0
    }
}
