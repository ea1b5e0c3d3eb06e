//! The requests of the clients, and what becomes of each.

use crate::random::Random;

/// The tokens that are in force one after the other.
pub(crate) const TOKENS: [&str; 3] = ["first-token", "second-token", "third-token"];

pub(crate) const HEAD_BYTES: usize = 2048;
pub(crate) const BODY_BYTES: usize = 300_000;

/// What is wrong with a request, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    WrongToken,
    WrongPath,
    WrongMethod,
    HeadMethod,
    Options,
    MediaType,
    Expectation,
    NotJson,
    NotMessage,
    TooLarge,
    MalformedHead,
    LargeHead,
    MalformedChunk,
}

/// One request, as it stands in what a client sends.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// The index of its token.
    pub(crate) token: usize,
    /// Where its head ends and where it ends, in what the client sends on its connection.
    pub(crate) start: usize,
    pub(crate) head_end: usize,
    pub(crate) end: usize,
    pub(crate) is_chunked: bool,
    pub(crate) expects_continue: bool,
    /// Whether the client asks that the connection close behind it.
    pub(crate) is_last: bool,
    /// The bytes of its body, without the framing.
    pub(crate) body_bytes: usize,
    pub(crate) payload: Vec<u8>,
}

impl Request {
    /// Appends a random request to what a client sends: small and without a fault if it is one of many.
    pub(crate) fn append(
        wire: &mut Vec<u8>,
        (life, index): (u32, usize),
        token: usize,
        is_one_of_many: bool,
        random: &mut Random,
    ) -> Self {
        let kind = if is_one_of_many { Kind::Message } else { kind(random) };
        let is_chunked = kind == Kind::MalformedChunk || (kind != Kind::TooLarge && random.permille(200));
        let filler = match random.below(100) {
            _ if is_one_of_many => 0,
            0..80 => random.within(0..201),
            80..95 => random.within(200..20_001),
            _ => random.within(20_000..200_001),
        };
        let payload = payload(life, index, filler);
        let body = match kind {
            Kind::NotJson => [b"{\"topic\":".as_slice(), &payload].concat(),
            Kind::NotMessage => [b"[".as_slice(), &payload, b"]"].concat(),
            Kind::WrongMethod | Kind::HeadMethod | Kind::Options | Kind::MalformedHead | Kind::LargeHead => Vec::new(),
            _ => [br#"{"topic":"adapter/nodes/data","payload":"#.as_slice(), &payload, b"}"].concat(),
        };
        let expects_continue = kind != Kind::Expectation && !body.is_empty() && random.permille(60);
        let is_last = !is_one_of_many && random.permille(60);
        let start = wire.len();
        let method = match kind {
            Kind::WrongMethod => "GET",
            Kind::HeadMethod => "HEAD",
            Kind::Options => "OPTIONS",
            _ => "POST",
        };
        let path = if kind == Kind::WrongPath { "/api/other" } else { "/api/message" };
        let sent_token = if kind == Kind::WrongToken { "another" } else { TOKENS[token] };
        let mut head = format!("{method} {path}?token={sent_token} HTTP/1.1\r\nHost: h\r\n");
        head.push_str(match kind {
            Kind::MediaType => "Content-Type: text/plain\r\n",
            _ => "Content-Type: application/json\r\n",
        });
        match kind {
            Kind::Expectation => head.push_str("Expect: another\r\n"),
            Kind::MalformedHead => head.push_str("No colon\r\n"),
            Kind::LargeHead => head.push_str(&format!("Padding: {}\r\n", "p".repeat(HEAD_BYTES))),
            _ if expects_continue => head.push_str("Expect: 100-continue\r\n"),
            _ => {}
        }
        if is_last {
            head.push_str("Connection: close\r\n");
        }
        match (kind, is_chunked) {
            (Kind::TooLarge, _) => head.push_str(&format!("Content-Length: {}\r\n", BODY_BYTES + 1)),
            (_, true) => head.push_str("Transfer-Encoding: chunked\r\n"),
            (_, false) => head.push_str(&format!("Content-Length: {}\r\n", body.len())),
        }
        head.push_str("\r\n");
        wire.extend_from_slice(head.as_bytes());
        let head_end = wire.len();
        match (kind, is_chunked) {
            (Kind::MalformedChunk, _) => wire.extend_from_slice(b"zz\r\n"),
            (_, true) => append_chunks(wire, &body, random),
            (_, false) => wire.extend_from_slice(&body),
        }
        let (end, body_bytes) = (wire.len(), body.len());
        Self { kind, token, start, head_end, end, is_chunked, expects_continue, is_last, body_bytes, payload }
    }

    /// Returns whether the answer ends the connection, whatever the state of the gateway is.
    pub(crate) fn ends_connection(&self) -> bool {
        let is_in_doubt = matches!(
            self.kind,
            Kind::TooLarge | Kind::MalformedHead | Kind::LargeHead | Kind::MalformedChunk | Kind::Expectation
        );
        self.is_last || is_in_doubt
    }
}

/// Returns the payload of a message, by which it is known again.
fn payload(life: u32, index: usize, filler: usize) -> Vec<u8> {
    let filler = "f".repeat(filler);
    format!(r#"{{"node_id":"{life}","content":"{index} {filler}"}}"#).into_bytes()
}

/// Returns the life and the index of the request that a payload belongs to.
pub(crate) fn origin(payload: &[u8]) -> Option<(u32, usize)> {
    let text = str::from_utf8(payload).ok()?;
    let (life, rest) = text.strip_prefix(r#"{"node_id":""#)?.split_once(r#"","content":""#)?;
    let (index, _) = rest.split_once(' ')?;
    Some((life.parse().ok()?, index.parse().ok()?))
}

fn append_chunks(wire: &mut Vec<u8>, body: &[u8], random: &mut Random) {
    let most = random.within(1..body.len().max(1) + 1);
    // A body of a hundred chunks shows what one of a thousand would.
    for chunk in body.chunks(most.max(body.len() / 100 + 1)) {
        wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
}

fn kind(random: &mut Random) -> Kind {
    if random.permille(750) {
        return Kind::Message;
    }
    random.pick(&[
        Kind::WrongToken,
        Kind::WrongPath,
        Kind::WrongMethod,
        Kind::HeadMethod,
        Kind::Options,
        Kind::MediaType,
        Kind::Expectation,
        Kind::NotJson,
        Kind::NotMessage,
        Kind::TooLarge,
        Kind::MalformedHead,
        Kind::LargeHead,
        Kind::MalformedChunk,
    ])
}
