//! The bytes of a peer of the bus: what passes does not depend on how they are split, and a plain reader of all of them
//! agrees.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use adapter_gateway::limits::MAX_TOPIC_BYTES;
use adapter_gateway::zmtp::{
    COMMAND_BYTES, CONNECTION_SLOTS, GREETING_BYTES, HELD_BYTES, InboundGuard, MARK_FRAME_BYTES, Mark, Origin,
    PeerFault, Peers, READY_BYTES,
};

use super::compare::assert_same_bytes;
use super::pieces::ways;

/// A bound that short inputs reach.
const MESSAGE_BYTES: u64 = 300;
/// The mark of the only subscriber.
const MARK: Mark = Mark { socket: 0x0102, place: 0 };
/// What each mark begins with.
pub(crate) const MARK_HEAD: &[u8] = b"\0\xffpeer";

/// What passes, and how the connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: Result<(), PeerFault>,
}

/// All that a peer sends; and, behind a handshake, the traffic of a publisher and of a subscriber.
pub(crate) fn zmtp(input: &[u8]) {
    for socket_type in [None, Some("PUB"), Some("XSUB")] {
        let mut bytes = socket_type.map(handshake).unwrap_or_default();
        bytes.extend_from_slice(input);
        for origin in [Origin::Accepted, Origin::Dialled] {
            let expected = read_plainly(&bytes, origin);
            for pieces in ways(&bytes) {
                agrees(&pieces, origin, &expected);
            }
        }
    }
}

/// Checks that what comes in these pieces passes as a plain reader says.
pub(crate) fn agrees(pieces: &[&[u8]], origin: Origin, expected: &Passed) {
    let passed = filter(pieces, origin);
    assert_eq!(passed.end, expected.end, "{origin:?}");
    match passed.end {
        Ok(()) => assert_same_bytes(format_args!("{origin:?}"), &passed.bytes, &expected.bytes),
        // What came in the same read as the violation is lost.
        Err(_) => {
            let most = &expected.bytes[..passed.bytes.len().min(expected.bytes.len())];
            assert_same_bytes(format_args!("{origin:?}"), &passed.bytes, most);
        }
    }
}

/// Returns the greeting and the READY of a socket of this type.
pub(crate) fn handshake(socket_type: &str) -> Vec<u8> {
    let mut bytes = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".to_vec();
    bytes.resize(GREETING_BYTES, 0);
    let length = u8::try_from(socket_type.len()).unwrap();
    bytes.extend_from_slice(&[4, 22 + length]);
    bytes.extend_from_slice(b"\x05READY\x0bSocket-Type\0\0\0");
    bytes.push(length);
    bytes.extend_from_slice(socket_type.as_bytes());
    bytes
}

fn filter(pieces: &[&[u8]], origin: Origin) -> Passed {
    let mut peers = Peers::new(MARK.socket, 1, 1, Arc::default(), Arc::default());
    let mut guard = InboundGuard::new(origin, MESSAGE_BYTES);
    // The handshakes of these inputs are not divided as those of libzmq are.
    (0..2).for_each(|_| guard.on_sent(Some(&[0; GREETING_BYTES])));
    let mut passed = Passed { bytes: Vec::new(), end: Ok(()) };
    for &piece in pieces {
        let room_bytes = guard.room_bytes();
        assert!(room_bytes <= HELD_BYTES);
        // libzmq reads a long body straight to its place, so nothing may be held inside one.
        assert!(room_bytes == 0 || ends_at_a_frame(&passed.bytes));
        let mut buffer = piece.to_vec();
        buffer.resize(piece.len() + room_bytes + MARK_FRAME_BYTES, 0xee);
        match guard.filter(&mut buffer, piece.len(), &mut peers, Duration::ZERO) {
            Ok(length) => passed.bytes.extend_from_slice(&buffer[..length]),
            Err(violation) => {
                passed.end = Err(violation);
                break;
            }
        }
    }
    guard.leave(&mut peers);
    if peers.subscriptions() > 0 {
        peers.forget(MARK);
    }
    assert_eq!((peers.subscriptions(), peers.slots()), (0, 0), "a connection that ends gives back what it held");
    passed
}

fn ends_at_a_frame(passed: &[u8]) -> bool {
    let mut rest = passed.get(GREETING_BYTES..).expect("the greeting is not held");
    while let Ok(Some(frame)) = take_frame(&mut rest) {
        if !frame.is_whole() {
            return false;
        }
    }
    rest.is_empty()
}

/// A frame as it arrived: perhaps without the end of its body.
struct Frame<'i> {
    is_command: bool,
    has_more: bool,
    body_bytes: u64,
    head: &'i [u8],
    body: &'i [u8],
}

impl Frame<'_> {
    fn is_whole(&self) -> bool {
        self.body.len() as u64 == self.body_bytes
    }

    fn bytes(&self) -> Vec<u8> {
        [self.head, self.body].concat()
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
    Ok(Some(Frame { is_command: flags >= 4, has_more: flags % 2 == 1, body_bytes, head, body }))
}

/// Reads all that a peer sends, one frame after the other.
pub(crate) fn read_plainly(input: &[u8], origin: Origin) -> Passed {
    let mut bytes = Vec::new();
    let end = pass_stream(input, origin, &mut bytes);
    Passed { bytes, end }
}

fn pass_stream(input: &[u8], origin: Origin, out: &mut Vec<u8>) -> Result<(), PeerFault> {
    let sample = handshake("PUB");
    for (at, &byte) in input.iter().take(GREETING_BYTES).enumerate() {
        let fits = match at {
            0 | 9 | 12..32 => byte == sample[at],
            10 => byte >= 3,
            _ => true,
        };
        if !fits {
            return Err(PeerFault::Greeting);
        }
        out.push(byte);
    }
    let mut rest = input.get(GREETING_BYTES..).unwrap_or_default();
    let Some(ready) = take_frame(&mut rest)? else { return Ok(()) };
    if !ready.is_command || ready.body_bytes > READY_BYTES {
        return Err(PeerFault::Handshake);
    }
    if !ready.is_whole() {
        return Ok(());
    }
    let publishes = role(ready.body).ok_or(PeerFault::Handshake)?;
    out.extend(ready.bytes());
    if (origin, publishes) == (Origin::Accepted, false) {
        out.extend(MARK.frame());
    }
    match (origin, publishes) {
        (Origin::Accepted, true) => pass_messages(rest, out),
        (Origin::Dialled, true) => pass_all(rest, out),
        (_, false) => pass_subscriptions(rest, origin, out),
    }
}

/// Returns whether the peer publishes or subscribes, or `None` if its READY does not say it.
fn role(ready: &[u8]) -> Option<bool> {
    let mut properties = ready.strip_prefix(b"\x05READY")?;
    let mut roles = BTreeSet::new();
    while let Some((&name_bytes, rest)) = properties.split_first() {
        let (name, rest) = rest.split_at_checked(name_bytes.into())?;
        let (length, rest) = rest.split_at_checked(4)?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(length.try_into().unwrap()) as usize)?;
        if name == b"Socket-Type" {
            let publishes = value == b"PUB" || value == b"XPUB";
            roles.insert((publishes || value == b"SUB" || value == b"XSUB").then_some(publishes)?);
        }
        properties = rest;
    }
    if roles.len() == 1 { roles.pop_first() } else { None }
}

/// Passes a heartbeat. Returns `false` if the command has not arrived whole.
fn pass_command(frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<bool, PeerFault> {
    let is_ping = frame.body.starts_with(b"\x04PING");
    if frame.body_bytes > COMMAND_BYTES || (frame.is_whole() && is_ping && frame.body.len() < 7) {
        return Err(PeerFault::Command);
    }
    if frame.is_whole() && (is_ping || frame.body.starts_with(b"\x04PONG")) {
        out.extend(frame.bytes());
    }
    Ok(frame.is_whole())
}

fn pass_all(mut rest: &[u8], out: &mut Vec<u8>) -> Result<(), PeerFault> {
    while let Some(frame) = take_frame(&mut rest)? {
        if frame.is_command {
            pass_command(&frame, out)?;
        } else {
            out.extend(frame.bytes());
        }
    }
    Ok(())
}

fn pass_messages(mut rest: &[u8], out: &mut Vec<u8>) -> Result<(), PeerFault> {
    let mut message: Vec<Frame<'_>> = Vec::new();
    while let Some(frame) = take_frame(&mut rest)? {
        if frame.is_command {
            pass_command(&frame, out)?;
            continue;
        }
        let is_last = !frame.has_more;
        message.push(frame);
        if is_last {
            if let [topic, payload] = &message[..]
                && topic.body_bytes <= MAX_TOPIC_BYTES as u64
                && payload.body_bytes <= MESSAGE_BYTES
                && !topic.body.starts_with(MARK_HEAD)
            {
                out.extend(topic.bytes());
                out.extend(payload.bytes());
            }
            message.clear();
        }
    }
    Ok(())
}

fn pass_subscriptions(mut rest: &[u8], origin: Origin, out: &mut Vec<u8>) -> Result<(), PeerFault> {
    let mut kept = BTreeSet::new();
    let mut inside_message = false;
    while let Some(frame) = take_frame(&mut rest)? {
        let is_single = frame.is_command || !(inside_message || frame.has_more);
        inside_message = frame.has_more || (frame.is_command && inside_message);
        let marks: [&[u8]; 2] = if frame.is_command { [b"\x09SUBSCRIBE", b"\x06CANCEL"] } else { [b"\x01", b"\x00"] };
        let [added, cancelled] = marks.map(|mark| frame.body.strip_prefix(mark).filter(|_| is_single));
        if origin == Origin::Dialled && added.is_some() && kept.insert(Vec::new()) {
            out.extend([0, 1, 1]);
        }
        if frame.is_command && added.is_none() && cancelled.is_none() {
            // The beginning of a long command may be that of a subscription.
            let torn = !frame.is_whole()
                && marks.iter().any(|mark| mark.starts_with(frame.body) && frame.body_bytes >= mark.len() as u64);
            if !torn {
                pass_command(&frame, out)?;
            }
        }
        if origin == Origin::Dialled || !frame.is_whole() {
            continue;
        }
        let changes = match (added, cancelled) {
            (Some(prefix), _) => {
                let is_possible = prefix.len() <= MAX_TOPIC_BYTES && !prefix.starts_with(MARK_HEAD);
                is_possible && has_room(&kept, prefix) && kept.insert(prefix.to_vec())
            }
            (_, Some(prefix)) => kept.remove(prefix),
            _ => false,
        };
        if changes {
            out.extend(frame.bytes());
        }
    }
    Ok(())
}

fn has_room(kept: &BTreeSet<Vec<u8>>, prefix: &[u8]) -> bool {
    let slots = slots_of(kept.iter().map(Vec::as_slice).chain([prefix]));
    slots <= CONNECTION_SLOTS
}

/// Counts the slots of libzmq's trie of these prefixes: in each node, from its lowest child to its highest. In their
/// order, each prefix adds what follows its beginning that the last one has too, and the gap between the two bytes that
/// differ.
pub(crate) fn slots_of<'p>(prefixes: impl Iterator<Item = &'p [u8]>) -> usize {
    let (mut slots, mut last) = (0, &[][..]);
    for prefix in prefixes.collect::<BTreeSet<_>>() {
        let common = prefix.iter().zip(last).take_while(|(one, other)| one == other).count();
        let gap = last.get(common).map_or(0, |before| usize::from(prefix[common] - before) - 1);
        slots += prefix.len() - common + gap;
        last = prefix;
    }
    slots
}
