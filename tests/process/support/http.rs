//! A minimal and strict HTTP/1.1 client. It sends any bytes and accepts a response only if RFC 9112 allows it. What a
//! lenient client would accept fails the test.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::PATIENCE;
use super::request::Request;

/// The least time after which a timeout of one second, the shortest that can be set, may end. It is a little less than
/// a second, because clocks round.
pub(crate) const SHORTEST_TIMEOUT: Duration = Duration::from_millis(900);

/// One connection over TCP, over TLS on it, or over a Unix socket.
pub(crate) struct Client<S = TcpStream> {
    stream: S,
    unread: Vec<u8>,
}

/// One complete response.
#[derive(Clone, PartialEq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("the gateway accepts connections")
    }

    pub(crate) fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self::over(stream))
    }
}

impl Client<UnixStream> {
    pub(crate) fn connect_to(path: &Path) -> Self {
        Self::try_connect_to(path).expect("the gateway accepts connections")
    }

    pub(crate) fn try_connect_to(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self::over(stream))
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Returns the stream below.
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

    pub(crate) fn exchange(&mut self, request: &Request) -> Response {
        self.send(request.bytes());
        self.response()
    }

    /// Reads the next response, whose body has the length that Content-Length states.
    pub(crate) fn response(&mut self) -> Response {
        self.try_response().expect("a response")
    }

    /// Reads the next response, or returns `UnexpectedEof` if the connection ends instead.
    pub(crate) fn try_response(&mut self) -> io::Result<Response> {
        let mut response = self.read_head()?;
        let length = response.content_length();
        while self.unread.len() < length {
            self.read_more()?;
        }
        response.body = self.unread.drain(..length).collect();
        Ok(response)
    }

    /// Reads the response to a HEAD request: whatever length it states, no body follows.
    pub(crate) fn response_without_body(&mut self) -> Response {
        self.read_head().expect("a response")
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

    fn read_head(&mut self) -> io::Result<Response> {
        let end = loop {
            match self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.read_more()?,
            }
        };
        let head: Vec<u8> = self.unread.drain(..end).collect();
        Ok(parse_head(&head))
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

impl fmt::Debug for Response {
    /// Shows the body as text, because a person reads it when a test fails.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        write!(formatter, "{} {:?} {body}", self.status, self.fields)
    }
}

impl Response {
    /// Returns the value of a field that may occur once at most.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} is repeated");
        value
    }

    pub(crate) fn closes(&self) -> bool {
        self.field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Fails unless this is the answer that promises delivery.
    pub(crate) fn assert_accepted(&self) {
        assert_eq!(self.status, 200, "{self:?}");
        let body: Value = serde_json::from_slice(&self.body).expect("a JSON body");
        assert_eq!(body, serde_json::json!({"status": "accepted"}));
    }

    /// Returns the problem document (RFC 9457) that every refusal has.
    pub(crate) fn problem(&self) -> Value {
        assert_eq!(self.field("Content-Type"), Some("application/problem+json"), "{self:?}");
        let problem: Value = serde_json::from_slice(&self.body).expect("a JSON body");
        assert_eq!(problem["status"], self.status, "{problem}");
        for member in ["type", "title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {problem}");
        }
        problem
    }

    /// Returns the length of the body. A response that may have a body must state its length once, and any other
    /// response must state none (RFC 9110 §8.6 and RFC 9112 §6).
    fn content_length(&self) -> usize {
        assert_eq!(self.field("Transfer-Encoding"), None, "the gateway always states a length");
        let length = self.field("Content-Length");
        if self.status < 200 || self.status == 204 {
            assert_eq!(length, None, "a {} must state no length", self.status);
            return 0;
        }
        let length = length.expect("a Content-Length");
        assert!(length.bytes().all(|byte| byte.is_ascii_digit()), "{length:?}");
        length.parse().expect("a Content-Length")
    }
}

/// Parses the status line and the field lines strictly (RFC 9112 §4 and §5).
fn parse_head(head: &[u8]) -> Response {
    let head = std::str::from_utf8(head).expect("an ASCII head");
    assert!(head.is_ascii() && !head.contains('\0'), "{head:?}");
    let mut lines = head.strip_suffix("\r\n\r\n").unwrap().split("\r\n");
    let status = parse_status_line(lines.next().unwrap());
    let fields = lines.map(parse_field).collect();
    Response { status, fields, body: Vec::new() }
}

fn parse_status_line(line: &str) -> u16 {
    let rest = line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("status line {line:?}"));
    let (code, reason) = rest.split_at_checked(3).unwrap_or_else(|| panic!("status line {line:?}"));
    assert!(reason.starts_with(' ') && !reason.contains(['\r', '\n']), "status line {line:?}");
    code.parse().unwrap_or_else(|_| panic!("status line {line:?}"))
}

fn parse_field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("field line {line:?}"));
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    assert!(!name.is_empty() && name.bytes().all(is_token), "field line {line:?}");
    assert!(!value.contains(['\r', '\n']), "field line {line:?}");
    (name.to_owned(), value.trim_matches([' ', '\t']).to_owned())
}

/// Reads a 408 and the end of the connection, and fails if they come before the timeout.
pub(crate) fn expect_408<S: Read + Write>(mut client: Client<S>, since: Instant) {
    let response = client.response();
    assert_eq!((response.status, response.closes()), (408, true));
    response.problem();
    client.expect_close();
    assert!(since.elapsed() >= SHORTEST_TIMEOUT, "too early, after {:?}", since.elapsed());
}

fn is_gone(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
