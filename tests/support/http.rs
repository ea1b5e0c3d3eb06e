//! A minimal and strict HTTP/1.1 client. It sends any bytes and accepts a response only if RFC 9112 allows it. What a
//! lenient client would accept fails the test.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::SockAddr;

use super::answer::Answer;
use super::net::connect;
use super::request::Request;

/// The least time after which a timeout of one second, the shortest that can be set, may end. It is a little less than
/// a second, because clocks round.
pub(crate) const SHORTEST_TIMEOUT: Duration = Duration::from_millis(900);

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

    /// Sends these bytes. A gateway that has refused the request and closed already is no error here, because the test
    /// still reads its answer.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        match self.stream.write_all(bytes.as_ref()) {
            Err(error) if !is_gone(error.kind()) => panic!("cannot send: {error}"),
            _sent_or_gone => {}
        }
    }

    pub(crate) fn exchange(&mut self, request: &Request) -> Answer {
        self.send(request.bytes());
        self.response()
    }

    pub(crate) fn response(&mut self) -> Answer {
        self.try_response().expect("an answer")
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

    /// Fails unless the gateway has half-closed the connection: it must still read the bytes that this client has not
    /// sent yet, and drop them. If it has closed the connection instead, it answers the first of these bytes with a
    /// reset, because of which the client may lose its answer, and a later write fails.
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

/// Reads a 408 and the end of the connection, and fails if they come before the timeout.
pub(crate) fn expect_408<S: Read + Write>(mut client: Client<S>, since: Instant) {
    client.expect_last(408);
    assert!(since.elapsed() >= SHORTEST_TIMEOUT, "too early, after {:?}", since.elapsed());
}

fn is_gone(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
