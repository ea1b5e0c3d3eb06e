//! The bytes of ZMTP 3 (<https://rfc.zeromq.org/spec/23>): the greeting, `READY`, the heads of frames, and commands.

use std::fmt;

/// Why a connection must end: the peer does not speak ZMTP 3, or is beyond a bound. Its text is what the peer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerFault {
    /// The greeting is none of ZMTP.
    Greeting,
    /// The greeting is one of ZMTP 1.
    Zmtp1,
    /// The greeting is one of ZMTP 2.
    Zmtp2,
    /// The mechanism is this one, not NULL.
    Mechanism(String),
    /// The first frame is not `READY`, or does not name one socket type.
    Handshake,
    /// The first frame has more than [`READY_BYTES`].
    LongHandshake,
    /// The first frame is `ERROR`: the peer refuses the connection (ZAP, spec 27).
    Refused,
    /// The socket is of this type, which does not fit.
    SocketType(String),
    /// A frame has reserved flags, is a divided command, or has a length of more than 63 bits.
    Frame,
    /// A command is too long, or a `PING` is too short.
    Command,
}

impl fmt::Display for PeerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Greeting | Self::Handshake => f.write_str("does not speak ZMTP 3, the protocol of ZeroMQ"),
            Self::LongHandshake => write!(f, "sends a READY of more than {READY_BYTES} bytes"),
            Self::Zmtp1 => f.write_str("speaks ZMTP 1, and only ZMTP 3 (ZeroMQ 4) is supported"),
            Self::Zmtp2 => f.write_str("speaks ZMTP 2, and only ZMTP 3 (ZeroMQ 4) is supported"),
            Self::Mechanism(name) => write!(f, "uses the security mechanism {name}, and only NULL is supported"),
            Self::Refused => f.write_str("refuses the connection (its ZAP authentication sent an ERROR)"),
            Self::SocketType(kind) => write!(f, "is a ZeroMQ socket of type {kind}, which does not fit"),
            Self::Frame | Self::Command => f.write_str("breaks ZMTP 3, the protocol of ZeroMQ"),
        }
    }
}

/// Returns the name of a mechanism or of a socket type as a peer sends it, if it has the characters of a mechanism of
/// spec 23, which a socket type has too: up to 20, which can be printed.
fn parse_name(name: &[u8]) -> Option<String> {
    let is_fit = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'+');
    let is_name = (1..=MECHANISM.len()).contains(&name.len()) && name.iter().all(is_fit);
    is_name.then(|| String::from_utf8_lossy(name).into_owned())
}

/// The length of the greeting.
pub const GREETING_BYTES: usize = 64;
/// The greeting that we send: signature, version, mechanism, padding. It announces ZMTP 3.1 (spec 37), as libzmq does
/// since 4.3.3: some small clients take nothing else.
pub const GREETING: [u8; GREETING_BYTES] = *b"\xff\0\0\0\0\0\0\0\0\x7f\x03\x01NULL\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// The length of what we send of our greeting unasked and at once: up to the version. The rest follows once the major
/// version of the peer has arrived. libzmq then sends its mechanism, and it closes a connection without it where it has
/// read the name of another one. No socket of libzmq sends a part of its greeting sooner, so no peer waits for more.
pub const GREETING_VERSION_BYTES: usize = MECHANISM_AT;
/// Longest `READY` that is accepted, in bytes. libzmq sends 27 bytes, up to some 300 with an identity, and more with
/// what the program adds (`ZMQ_METADATA`).
pub const READY_BYTES: u64 = 8 * 1_024;
/// Longest command of those that do not subscribe, in bytes, also if it is ignored. `PING` has at most 23 (spec 37).
pub const COMMAND_BYTES: u64 = 512;
/// Longest head of a frame: the flags and a length of eight bytes.
pub(super) const FRAME_HEAD_BYTES: usize = 9;

pub(super) const VERSION_AT: usize = 10;
pub(super) const MINOR_VERSION_AT: usize = 11;
const MECHANISM_AT: usize = 12;
const MECHANISM: &[u8; 20] = b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

pub(super) const PING: &[u8] = b"\x04PING";
pub(super) const SUBSCRIBE: &[u8] = b"\x09SUBSCRIBE";
pub(super) const CANCEL: &[u8] = b"\x06CANCEL";

/// Longest context of a `PING`, which its `PONG` repeats (spec 37).
pub const PING_CONTEXT_BYTES: usize = 16;

/// The half of publish/subscribe that a socket plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketRole {
    /// A socket of type PUB or XPUB.
    Publishes,
    /// A socket of type SUB or XSUB.
    Subscribes,
}

impl SocketRole {
    /// Returns the role of sockets of this type, or `None` if it is no type of publish/subscribe.
    pub fn of_type(socket_type: &str) -> Option<Self> {
        match socket_type {
            "PUB" | "XPUB" => Some(Self::Publishes),
            "SUB" | "XSUB" => Some(Self::Subscribes),
            _ => None,
        }
    }
}

impl fmt::Display for SocketRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Publishes { "publishers" } else { "subscribers" })
    }
}

/// Checks what has arrived of a greeting. The first byte that does not fit decides, except that the name of another
/// mechanism is awaited. The padding of the signature, the minor version and what follows the mechanism mean nothing.
pub(super) fn check_greeting(greeting: &[u8]) -> Result<(), PeerFault> {
    let [signature, signature_end, version] = [0, VERSION_AT - 1, VERSION_AT].map(|at| greeting.get(at).copied());
    match (signature.unwrap_or(0xff), signature_end.unwrap_or(0x7f), version.unwrap_or(3)) {
        // ZMTP 1 begins with the length of an identity, which is empty.
        (1, ..) | (0xff, 0x7f, 0) => return Err(PeerFault::Zmtp1),
        (0xff, 0x7f, 1 | 2) => return Err(PeerFault::Zmtp2),
        (0xff, 0x7f, _) => {}
        _ => return Err(PeerFault::Greeting),
    }
    let (_, field) = greeting.split_at(MECHANISM_AT.min(greeting.len()));
    let field = field.get(..MECHANISM.len()).unwrap_or(field);
    let name = field.split(|&byte| byte == 0).next().unwrap_or(field);
    let is_whole = name.len() < field.len() || field.len() == MECHANISM.len();
    match Some(name).filter(|name| *name != b"NULL").and_then(parse_name) {
        _ if MECHANISM.starts_with(field) => Ok(()),
        // Commands of other mechanisms could not be read here.
        Some(other) if is_whole => Err(PeerFault::Mechanism(other)),
        Some(_) => Ok(()),
        None => Err(PeerFault::Greeting),
    }
}

/// Returns the socket type that the body of a READY names.
pub(super) fn parse_socket_type(body: &[u8]) -> Result<String, PeerFault> {
    let fault = if body.starts_with(b"\x05ERROR") { PeerFault::Refused } else { PeerFault::Handshake };
    let mut rest = body.strip_prefix(b"\x05READY").ok_or(fault)?;
    let mut socket_type = None;
    while !rest.is_empty() {
        let (name, value) = take_property(&mut rest).ok_or(PeerFault::Handshake)?;
        // Spec 37: the case of a name is not significant.
        if name.eq_ignore_ascii_case(b"Socket-Type") && socket_type.replace(value).is_some_and(|other| other != value) {
            return Err(PeerFault::Handshake);
        }
    }
    socket_type.and_then(parse_name).ok_or(PeerFault::Handshake)
}

/// Takes a property: its name after a length of one byte, and its value after a length of four bytes.
fn take_property<'b>(rest: &mut &'b [u8]) -> Option<(&'b [u8], &'b [u8])> {
    let name_bytes = *rest.split_off_first()?;
    let name = rest.split_off(..name_bytes.into())?;
    let value_bytes = u32::from_be_bytes(rest.split_off(..4)?.try_into().ok()?);
    Some((name, rest.split_off(..usize::try_from(value_bytes).ok()?)?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) is_command: bool,
    pub(super) has_more: bool,
    pub(super) body_bytes: u64,
}

impl FrameHead {
    /// Takes the head of the frame that begins here. Takes nothing and returns `None` if more bytes are needed.
    pub(super) fn take(rest: &mut &[u8]) -> Result<Option<Self>, PeerFault> {
        let Some((&flags, tail)) = rest.split_first() else { return Ok(None) };
        let is_command = flags & COMMAND != 0;
        let has_more = flags & MORE != 0;
        // Spec 23: the other bits are zero, and a command is a single frame.
        if flags & !(MORE | LONG | COMMAND) != 0 || (is_command && has_more) {
            return Err(PeerFault::Frame);
        }
        let length = if flags & LONG == 0 {
            tail.split_first().map(|(&length, tail)| (u64::from(length), tail))
        } else {
            tail.split_first_chunk().map(|(length, tail)| (u64::from_be_bytes(*length), tail))
        };
        let Some((body_bytes, tail)) = length else { return Ok(None) };
        // Spec 23: a length has 63 bits.
        if body_bytes > i64::MAX as u64 {
            return Err(PeerFault::Frame);
        }
        *rest = tail;
        Ok(Some(Self { is_command, has_more, body_bytes }))
    }
}

/// Returns the `READY` that peers of this role are sent: an XPUB socket's if they subscribe, else an XSUB's.
pub fn ready(peers: SocketRole) -> &'static [u8] {
    match peers {
        SocketRole::Subscribes => b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04XPUB",
        SocketRole::Publishes => b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04XSUB",
    }
}

/// Returns what subscribes to everything: a command of ZMTP 3.1, or a message of ZMTP 3.0. A publisher is sent it once
/// its `READY` has arrived: libzmq closes a connection on which a message arrives together with our own `READY`.
pub fn subscribe_to_everything(takes_commands: bool) -> &'static [u8] {
    if takes_commands { b"\x04\x0a\x09SUBSCRIBE" } else { b"\0\x01\x01" }
}

/// Appends the command that answers a `PING` with this context, of at most [`PING_CONTEXT_BYTES`].
pub fn put_pong(out: &mut Vec<u8>, context: &[u8]) {
    assert!(context.len() <= PING_CONTEXT_BYTES, "a session reads no context of {} bytes", context.len());
    let body = [b"\x04PONG", context].concat();
    out.extend_from_slice(&[COMMAND, body.len() as u8]);
    out.extend_from_slice(&body);
}

/// Appends the head of a frame of a message. `has_more` says that another frame of the same message follows.
pub(super) fn put_frame_head(out: &mut Vec<u8>, has_more: bool, body_bytes: usize) {
    let more = if has_more { MORE } else { 0 };
    match u8::try_from(body_bytes) {
        Ok(length) => out.extend_from_slice(&[more, length]),
        Err(_) => {
            out.push(more | LONG);
            out.extend_from_slice(&(body_bytes as u64).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
