//! The bytes of a peer of the bus: what it has said does not depend on how they are split, and a plain reader agrees.

use std::collections::BTreeSet;

use adapter_gateway::terms::limits::MAX_TOPIC_BYTES;
use adapter_gateway::zmtp::{
    COMMAND_BYTES, GREETING_BYTES, PING_CONTEXT_BYTES, PeerEvent, PeerFault, PeerSession, READY_BYTES, SocketRole,
    UNRESERVED_BYTES,
};

use super::ways;
use crate::support::zmtp::handshake;

/// The longest payload of a publisher: what short inputs reach, and what a long message has.
const SHORT_PAYLOAD_BYTES: u64 = 300;
const LONG_PAYLOAD_BYTES: u64 = UNRESERVED_BYTES as u64 + 100;
/// How much of a frame of a subscriber is waited for: the name of the command and a prefix that is too long.
const SUBSCRIPTION_BYTES: usize = 10 + MAX_TOPIC_BYTES + 1;
/// What peers do, and how long the payloads of publishers may be.
const BOUNDS: [(SocketRole, u64); 3] = [
    (SocketRole::Publishes, SHORT_PAYLOAD_BYTES),
    (SocketRole::Publishes, LONG_PAYLOAD_BYTES),
    (SocketRole::Subscribes, SHORT_PAYLOAD_BYTES),
];

/// Where an input begins with this byte, which begins no frame, a message stands there that reserves its size.
const LONG_MESSAGE_MARK: u8 = b'L';

/// What a peer has said at once.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Greeting(bool),
    Ready(bool),
    Subscribe(Vec<u8>),
    Cancel(Vec<u8>),
    Ping(Vec<u8>),
    Message(Vec<u8>, Vec<u8>),
    Dropped,
}

/// All that a peer has said, and how the connection ends.
type Transcript = (Vec<Said>, Result<(), PeerFault>);

/// All that a peer sends; and, behind a handshake, the traffic of a publisher and of a subscriber.
pub(crate) fn zmtp(input: &[u8]) {
    for socket_type in [None, Some("PUB"), Some("XSUB")] {
        let mut bytes = socket_type.map(|it| handshake(it).concat()).unwrap_or_default();
        match input.split_first() {
            Some((&LONG_MESSAGE_MARK, rest)) => {
                // It has one byte more than needs no reservation, and so many more as are left of 200.
                let payload = vec![b' '; UNRESERVED_BYTES + rest.len() % 200];
                bytes.extend([&b"\x01\x01t\x02"[..], &(payload.len() as u64).to_be_bytes(), &payload, rest].concat());
            }
            _ => bytes.extend_from_slice(input),
        }
        for bounds in BOUNDS {
            let mut said = Vec::new();
            let end = read_plainly(&bytes, bounds, &mut said);
            let expected = (said, end);
            ways(&bytes).iter().for_each(|pieces| agrees(pieces, bounds, &expected));
        }
    }
}

/// Checks that a peer which sends these pieces has said what a plain reader says, and that each long message which does
/// not arrive whole in one of them was announced.
fn agrees(pieces: &[&[u8]], (role, payload_bytes): (SocketRole, u64), expected: &Transcript) {
    let mut session = PeerSession::new(role, payload_bytes);
    let (mut transcript, mut end) = (Vec::new(), Ok(()));
    // The most that is held of a publisher: a topic, and behind it a payload or a command that stands before the payload.
    let message_bytes = MAX_TOPIC_BYTES + payload_bytes.max(COMMAND_BYTES) as usize;
    let mut announced_bytes = None;
    for piece in pieces {
        end = session.receive(piece, &mut |event| {
            match &event {
                PeerEvent::LongMessage(bytes) => {
                    assert!(*bytes > UNRESERVED_BYTES, "{bytes} bytes");
                    return assert_eq!(announced_bytes.replace(*bytes), None, "one message is announced at a time");
                }
                PeerEvent::Message(message) => {
                    let bytes = message.topic().len() + message.payload().len();
                    let needs_none = bytes <= UNRESERVED_BYTES || message.payload().len() <= piece.len();
                    assert_eq!(announced_bytes.take().or(needs_none.then_some(bytes)), Some(bytes));
                }
                PeerEvent::Dropped => announced_bytes = None,
                _ => {}
            }
            transcript.push(said(event));
        });
        if end.is_err() {
            break;
        }
        let most = match role {
            _ if !session.is_ready() => READY_BYTES as usize,
            SocketRole::Subscribes => SUBSCRIPTION_BYTES,
            SocketRole::Publishes => message_bytes,
        };
        assert!(session.unfinished_bytes() <= most, "what is held is bounded");
        assert_eq!(session.is_ready(), transcript.iter().any(|said| matches!(said, Said::Ready(_))));
    }
    assert_eq!((transcript, end), *expected, "{role:?}");
}

fn said(event: PeerEvent<'_>) -> Said {
    match event {
        PeerEvent::Greeting(role) => Said::Greeting(role == SocketRole::Publishes),
        PeerEvent::Ready { takes_commands } => Said::Ready(takes_commands),
        PeerEvent::Subscribe(prefix) => Said::Subscribe(prefix.to_vec()),
        PeerEvent::Cancel(prefix) => Said::Cancel(prefix.to_vec()),
        PeerEvent::Ping(context) => Said::Ping(context.to_vec()),
        PeerEvent::LongMessage(bytes) => unreachable!("the announcement of {bytes} bytes depends on the pieces"),
        PeerEvent::Message(message) => Said::Message(message.topic().to_vec(), message.payload().to_vec()),
        PeerEvent::Dropped => Said::Dropped,
    }
}

/// A frame as it arrived: perhaps without the end of its body.
struct Frame<'i> {
    is_command: bool,
    has_more: bool,
    body_bytes: u64,
    body: &'i [u8],
}

impl Frame<'_> {
    fn is_whole(&self) -> bool {
        self.body.len() as u64 == self.body_bytes
    }
}

fn take_frame<'i>(rest: &mut &'i [u8]) -> Result<Option<Frame<'i>>, PeerFault> {
    let Some(&flags) = rest.first() else { return Ok(None) };
    if flags > 7 || matches!(flags, 5 | 7) {
        return Err(PeerFault::Frame);
    }
    let head_bytes = if matches!(flags, 2 | 3 | 6) { 9 } else { 2 };
    let Some((head, behind)) = rest.split_at_checked(head_bytes) else { return Ok(None) };
    let body_bytes = head[1..].iter().fold(0, |length, byte| (length << 8) | u64::from(*byte));
    if body_bytes >= 1 << 63 {
        return Err(PeerFault::Frame);
    }
    let (body, behind) = behind.split_at(behind.len().min(usize::try_from(body_bytes).unwrap()));
    *rest = behind;
    Ok(Some(Frame { is_command: flags >= 4, has_more: flags % 2 == 1, body_bytes, body }))
}

/// Reads all that a peer sends, one frame after the other.
fn read_plainly(input: &[u8], bounds: (SocketRole, u64), said: &mut Vec<Said>) -> Result<(), PeerFault> {
    let publishes = bounds.0 == SocketRole::Publishes;
    let mut mechanism = Vec::new();
    for (at, &byte) in input.iter().take(GREETING_BYTES).enumerate() {
        match (at, byte) {
            (0, 1) | (10, 0) => return Err(PeerFault::Zmtp1),
            (10, 1 | 2) => return Err(PeerFault::Zmtp2),
            (12..32, _) if is_of_name(byte) && mechanism.len() == at - 12 => mechanism.push(byte),
            (0, 0xff) | (9, 0x7f) => {}
            (12..32, 0) if !mechanism.is_empty() => {}
            (0 | 9 | 12..32, _) => return Err(PeerFault::Greeting),
            _ => {}
        }
        if (12..32).contains(&at) && (byte == 0 || at == 31) && mechanism != b"NULL" {
            return Err(PeerFault::Mechanism(String::from_utf8(mechanism).unwrap()));
        }
    }
    let Some(mut rest) = input.get(GREETING_BYTES..) else { return Ok(()) };
    said.push(Said::Greeting(publishes));
    let Some(ready) = take_frame(&mut rest)? else { return Ok(()) };
    if !ready.is_command {
        return Err(PeerFault::Handshake);
    }
    if ready.body_bytes > READY_BYTES {
        return Err(PeerFault::LongHandshake);
    }
    if !ready.is_whole() {
        return Ok(());
    }
    let fault = if ready.body.starts_with(b"\x05ERROR") { PeerFault::Refused } else { PeerFault::Handshake };
    let socket_type = socket_type(ready.body).ok_or(fault)?;
    let is_name = (1..=20).contains(&socket_type.len()) && socket_type.iter().all(|byte| is_of_name(*byte));
    match (publishes, socket_type) {
        (true, b"PUB" | b"XPUB") | (false, b"SUB" | b"XSUB") => {}
        _ if is_name => return Err(PeerFault::SocketType(String::from_utf8_lossy(socket_type).into_owned())),
        _ => return Err(PeerFault::Handshake),
    }
    said.push(Said::Ready(input[11] > 0));
    if publishes { read_messages(rest, bounds.1, said) } else { read_subscriptions(rest, said) }
}

/// Returns whether the name of a mechanism or of a socket type may have this byte.
fn is_of_name(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'+')
}

/// Returns the type of the peer's socket, or `None` if its READY does not say it.
fn socket_type(ready: &[u8]) -> Option<&[u8]> {
    let mut properties = ready.strip_prefix(b"\x05READY")?;
    let mut types = BTreeSet::new();
    while let Some((&name_bytes, rest)) = properties.split_first() {
        let (name, rest) = rest.split_at_checked(name_bytes.into())?;
        let (length, rest) = rest.split_at_checked(4)?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(length.try_into().unwrap()) as usize)?;
        if name.eq_ignore_ascii_case(b"socket-type") {
            types.insert(value);
        }
        properties = rest;
    }
    if types.len() == 1 { types.pop_first() } else { None }
}

fn read_command(frame: &Frame<'_>, said: &mut Vec<Said>) -> Result<(), PeerFault> {
    if frame.body_bytes > COMMAND_BYTES {
        return Err(PeerFault::Command);
    }
    if frame.is_whole() && frame.body.starts_with(b"\x04PING") {
        let context = frame.body.get(7..).ok_or(PeerFault::Command)?;
        said.push(Said::Ping(context.iter().copied().take(PING_CONTEXT_BYTES).collect()));
    }
    Ok(())
}

fn read_messages(mut rest: &[u8], payload_bytes: u64, said: &mut Vec<Said>) -> Result<(), PeerFault> {
    let mut message: Vec<Frame<'_>> = Vec::new();
    let mut is_dropped = false;
    while let Some(frame) = take_frame(&mut rest)? {
        if frame.is_command {
            read_command(&frame, said)?;
            continue;
        }
        let is_last = !frame.has_more;
        message.push(frame);
        let is_possible = match &message[..] {
            [topic] => !is_last && topic.body_bytes > 0 && topic.body_bytes <= MAX_TOPIC_BYTES as u64,
            [_, payload] => is_last && payload.body_bytes <= payload_bytes,
            _ => false,
        };
        if !is_possible && !is_dropped {
            is_dropped = true;
            said.push(Said::Dropped);
        }
        if is_last {
            if let [topic, payload] = &message[..]
                && !is_dropped
                && payload.is_whole()
            {
                said.push(Said::Message(topic.body.to_vec(), payload.body.to_vec()));
            }
            message.clear();
            is_dropped = false;
        }
    }
    Ok(())
}

fn read_subscriptions(mut rest: &[u8], said: &mut Vec<Said>) -> Result<(), PeerFault> {
    let mut inside_message = false;
    while let Some(frame) = take_frame(&mut rest)? {
        if !frame.is_command && (inside_message || frame.has_more) {
            if !inside_message {
                said.push(Said::Dropped);
            }
            inside_message = frame.has_more;
            continue;
        }
        if !frame.is_whole() && frame.body.len() < SUBSCRIPTION_BYTES {
            break;
        }
        let marks: [&[u8]; 2] = if frame.is_command { [b"\x09SUBSCRIBE", b"\x06CANCEL"] } else { [b"\x01", b"\x00"] };
        let body = &frame.body[..frame.body.len().min(SUBSCRIPTION_BYTES)];
        match marks.map(|mark| body.strip_prefix(mark)) {
            [Some(prefix), _] => said.push(Said::Subscribe(prefix.to_vec())),
            [_, Some(prefix)] => said.push(Said::Cancel(prefix.to_vec())),
            _ if frame.is_command => read_command(&frame, said)?,
            _ => said.push(Said::Dropped),
        }
    }
    Ok(())
}
