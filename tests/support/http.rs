//! A minimal and strict HTTP/1.1 client. It sends any bytes and accepts a response only if RFC 9112 allows it. What a
//! lenient client would accept fails the test. By TCP it can also ignore its answers, and end in every way there is.

use super::*;

/// The least time after which the shortest timeout, of a second, may end. It is a little less, because clocks round.
pub(crate) const SHORTEST_TIMEOUT: Duration = Duration::from_millis(900);
/// How many bytes of unread answers the kernel is asked to buffer. It buffers a little more.
const SMALL_WINDOW_BYTES: usize = 2048;

/// One connection over TCP, over TLS on it, or over a Unix socket.
pub(crate) struct Client<S = TcpStream> {
    stream: S,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("the gateway accepts connections")
    }

    pub(crate) fn try_connect(address: SocketAddr) -> io::Result<Self> {
        Ok(Self::over(connect(&address.into())?.into()))
    }

    /// Connects with a receive window so small that after a few answers the gateway cannot send the next one.
    pub(crate) fn with_small_window(address: SocketAddr) -> Self {
        let socket = connect_after(&address.into(), |socket| socket.set_recv_buffer_size(SMALL_WINDOW_BYTES));
        Self::over(socket.unwrap().into())
    }

    /// Sends the same bytes again and again until the connection takes none for 200 ms. Returns how many it took.
    pub(crate) fn send_until_full(&mut self, bytes: &[u8]) -> usize {
        self.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut sent = 0;
        while let Ok(taken @ 1..) = self.stream.write(bytes) {
            sent += taken;
        }
        sent
    }

    /// Waits up to `timeout` for bytes. Returns how many came, and `None` if the connection ended, by a reset or not.
    pub(crate) fn read(&mut self, into: &mut [u8], timeout: Duration) -> Option<usize> {
        self.stream.set_read_timeout(Some(timeout)).unwrap();
        match self.stream.read(into) {
            Ok(0) => None,
            Ok(bytes) => Some(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Some(0),
            Err(_reset) => None,
        }
    }

    /// Returns whether neither bytes nor the end of the connection have arrived.
    pub(crate) fn has_nothing_to_read(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    pub(crate) fn half_close(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    pub(crate) fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

impl Client<UnixStream> {
    pub(crate) fn connect_to(path: &Path) -> Self {
        let socket = connect(&SockAddr::unix(path).unwrap());
        Self::over(socket.expect("the gateway accepts connections").into())
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    pub(crate) fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Sends these bytes. Returns whether the connection still took them.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends these bytes. A gateway that has closed already is no error here, because the test still reads its answer.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        match self.stream.write_all(bytes.as_ref()) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("cannot send: {error}")
            }
            _sent_or_gone => {}
        }
    }

    pub(crate) fn exchange(&mut self, request: &Request) -> Answer {
        self.send(request.bytes());
        self.response()
    }

    /// Sends the head of this request alone, and waits until the gateway has read it.
    pub(crate) fn begin(&mut self, request: &Request) {
        self.send(request.clone().field("Expect", "100-continue").head());
        assert_eq!(self.response().status, 100, "the head is not read, or refused");
    }

    pub(crate) fn response(&mut self) -> Answer {
        self.try_response().expect("an answer")
    }

    pub(crate) fn status_with(&mut self, token: &str) -> u16 {
        self.exchange(&Request::post(&format!("/api/message?token={token}"), FINE)).status
    }

    /// Reads an answer with this status that says that it is the last, and the end of the connection.
    pub(crate) fn expect_last(&mut self, status: u16) -> Answer {
        let answer = self.response();
        answer.check().unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((answer.status, answer.closes()), (status, true), "{answer:?}");
        self.expect_close();
        answer
    }

    /// Reads the next answer, or returns `UnexpectedEof` if the connection ends instead.
    pub(crate) fn try_response(&mut self) -> io::Result<Answer> {
        self.take(true)
    }

    /// Reads the answer to a HEAD request: whatever length it states, no content follows.
    pub(crate) fn response_without_body(&mut self) -> Answer {
        self.take(false).expect("an answer")
    }

    /// Fails unless the connection ends here, without a further byte and without a reset.
    pub(crate) fn expect_close(&mut self) {
        let unread = String::from_utf8_lossy(&self.unread);
        assert!(unread.is_empty(), "bytes instead of a close: {unread:?}");
        match self.read_more() {
            Ok(()) => panic!("bytes instead of a close: {:?}", String::from_utf8_lossy(&self.unread)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "not a clean close"),
        }
    }

    /// Fails unless the gateway has half-closed the connection, and still reads and drops what was not sent yet. If it
    /// has closed, the first of these bytes brings a reset, by which the client may lose its answer, and a later write
    /// fails.
    pub(crate) fn expect_half_close(&mut self, unsent: &[u8]) {
        self.expect_close();
        for part in unsent.chunks(unsent.len().div_ceil(4)) {
            self.stream.write_all(part).expect("not a reset");
        }
    }

    fn take(&mut self, has_content: bool) -> io::Result<Answer> {
        loop {
            match Answer::take(&self.unread, has_content) {
                Ok(Some((answer, length))) => {
                    self.unread.drain(..length);
                    return Ok(answer);
                }
                Ok(None) => self.read_more()?,
                Err(fault) => panic!("an answer has {fault}"),
            }
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        // If a process is stopped and continued, its system calls are interrupted.
        let length = loop {
            match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.unread.extend_from_slice(&bytes[..length]);
        Ok(())
    }
}
