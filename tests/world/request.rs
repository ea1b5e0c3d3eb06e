//! The requests of the clients, and what becomes of each.

use crate::support::Random;
use crate::support::ladder::{Fault, LADDER};
use crate::support::request as sent;

/// The tokens that are in force one after the other.
pub(crate) const TOKENS: [&str; 3] = ["first-token", "second-token", "third-token"];
pub(crate) const HEAD_BYTES: usize = 2048;
pub(crate) const BODY_BYTES: usize = 300_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message(Fault),
    Head,
    Options,
    MalformedChunk,
}

/// The faults that no request can have in the limits of these worlds.
const NO_FAULTS: [Fault; 3] = [Fault::LongTarget, Fault::NoHub, Fault::None];

/// One request, as it stands in what a client sends.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
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
        let kind = if is_one_of_many { Kind::Message(Fault::None) } else { kind(random) };
        let fault = if let Kind::Message(fault) = kind { fault } else { Fault::None };
        let is_framed = matches!(fault, Fault::TransferCoding | Fault::LargeBody);
        let is_chunked = kind == Kind::MalformedChunk || (!is_framed && random.permille(200));
        let filler = match random.below(100) {
            _ if is_one_of_many => 0,
            0..80 => random.within(0..201),
            80..95 => random.within(200..20_001),
            _ => random.within(20_000..200_001),
        };
        let payload = payload(life, index, filler);
        let body = match kind {
            Kind::Head | Kind::Options => Vec::new(),
            _ => [br#"{"topic":"adapter/nodes/data","payload":"#.as_slice(), &payload, b"}"].concat(),
        };
        let request = sent::Request::post(&format!("/api/message?token={}", TOKENS[token]), body);
        let mut request = fault.put_into(request, BODY_BYTES);
        request = match kind {
            Kind::Head => request.method("HEAD"),
            Kind::Options => request.method("OPTIONS"),
            Kind::Message(_) | Kind::MalformedChunk => request,
        };
        let body_bytes = request.body().len();
        let expects_continue = fault != Fault::Expectation && body_bytes > 0 && random.permille(60);
        let is_last = !is_one_of_many && random.permille(60);
        if expects_continue {
            request = request.field("Expect", "100-continue");
        }
        if is_last {
            request = request.field("Connection", "close");
        }
        if is_chunked {
            // A body of a hundred chunks shows what one of a thousand would.
            let most = random.within(1..body_bytes.max(1) + 1);
            request = request.chunked(most.max(body_bytes / 100 + 1));
        }
        if kind == Kind::MalformedChunk {
            request = request.with_body(b"zz\r\n".to_vec());
        }
        let start = wire.len();
        wire.extend(request.head());
        let head_end = wire.len();
        wire.extend(request.body());
        let end = wire.len();
        Self { kind, token, start, head_end, end, is_chunked, expects_continue, is_last, body_bytes, payload }
    }

    pub(crate) fn is_message(&self) -> bool {
        self.kind == Kind::Message(Fault::None)
    }

    /// Returns whether the answer ends the connection, whatever the state of the gateway is.
    pub(crate) fn ends_connection(&self) -> bool {
        let is_in_doubt = match self.kind {
            Kind::Message(fault) => fault < Fault::Path || matches!(fault, Fault::LargeBody | Fault::Expectation),
            kind => kind == Kind::MalformedChunk,
        };
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

fn kind(random: &mut Random) -> Kind {
    match random.below(100) {
        0..75 => Kind::Message(Fault::None),
        75..95 => {
            let faults: Vec<_> = LADDER.iter().map(|row| row.0).filter(|fault| !NO_FAULTS.contains(fault)).collect();
            Kind::Message(random.pick(&faults))
        }
        _ => random.pick(&[Kind::Head, Kind::Options, Kind::MalformedChunk]),
    }
}
