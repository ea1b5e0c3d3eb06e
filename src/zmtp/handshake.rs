//! The handshake of ZMTP 3: <https://rfc.zeromq.org/spec/23>, "The Greeting" and "The NULL Security Mechanism".

use super::frame::{FrameHead, PeerFault};

/// The length of the greeting.
pub const GREETING_BYTES: usize = 64;
/// Longest `READY` that is accepted, in bytes. libzmq sends 27 bytes, and up to some 300 with an identity.
pub const READY_BYTES: u64 = 1_024;

const VERSION_AT: usize = 10;
const MECHANISM_AT: usize = 12;
const MECHANISM: &[u8; 20] = b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

const READY: &[u8] = b"\x05READY";
const SOCKET_TYPE: &[u8] = b"Socket-Type";

/// The half of publish/subscribe that a peer plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketRole {
    /// A socket of type PUB or XPUB.
    Publishes,
    /// A socket of type SUB or XSUB.
    Subscribes,
}

/// Checks bytes of the greeting that begin at this offset. The padding of the signature, the minor version and what
/// follows the mechanism mean nothing.
///
/// # Errors
/// Returns an error if the peer does not speak ZMTP 3 with the mechanism NULL.
pub fn check_greeting(at: usize, bytes: &[u8]) -> Result<(), PeerFault> {
    let fit = bytes.iter().zip(at..).all(|(&byte, at)| match at {
        0 => byte == 0xff,
        9 => byte == 0x7f,
        VERSION_AT => byte >= 3,
        // libzmq refuses other mechanisms too. Their commands could not be read here.
        _ => at.checked_sub(MECHANISM_AT).and_then(|at| MECHANISM.get(at)).is_none_or(|expected| byte == *expected),
    });
    if fit { Ok(()) } else { Err(PeerFault::Greeting) }
}

/// Reads a whole `READY`. Returns the socket type of the peer.
///
/// libzmq checks the socket type against that of its own socket, but only if the property is there and spelt so. So
/// this is as strict: otherwise a peer could play the one role here and the other one there.
///
/// # Errors
/// Returns an error for another command, for a torn property, and if there is not exactly one socket type.
pub fn socket_type(ready: &[u8]) -> Result<&[u8], PeerFault> {
    let mut rest = ready.strip_prefix(READY).ok_or(PeerFault::Handshake)?;
    let mut socket_type = None;
    while !rest.is_empty() {
        let (name, value) = take_property(&mut rest).ok_or(PeerFault::Handshake)?;
        if name == SOCKET_TYPE && socket_type.replace(value).is_some_and(|other| other != value) {
            return Err(PeerFault::Handshake);
        }
    }
    socket_type.ok_or(PeerFault::Handshake)
}

/// Reads the frame of our own `READY` on its way to a peer. Returns the role that our socket has.
pub(super) fn parse_sent_ready(frame: &[u8]) -> Option<SocketRole> {
    let head = FrameHead::parse(frame).ok()??;
    parse_ready(head.body(frame)?).ok()
}

/// Reads a whole `READY`. Returns the role that the socket type of the peer has.
pub(super) fn parse_ready(body: &[u8]) -> Result<SocketRole, PeerFault> {
    match socket_type(body)? {
        b"PUB" | b"XPUB" => Ok(SocketRole::Publishes),
        b"SUB" | b"XSUB" => Ok(SocketRole::Subscribes),
        _ => Err(PeerFault::Handshake),
    }
}

/// Takes a property: its name after a length of one byte, and its value after a length of four bytes.
fn take_property<'b>(rest: &mut &'b [u8]) -> Option<(&'b [u8], &'b [u8])> {
    let (&name_bytes, tail) = rest.split_first()?;
    let (name, tail) = tail.split_at_checked(name_bytes.into())?;
    let (value_bytes, tail) = tail.split_first_chunk()?;
    let (value, tail) = tail.split_at_checked(usize::try_from(u32::from_be_bytes(*value_bytes)).ok()?)?;
    *rest = tail;
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_fault(greeting: &[u8]) -> Option<usize> {
        (0..greeting.len()).find(|&at| check_greeting(at, &greeting[at..=at]).is_err())
    }

    #[test]
    fn greetings_of_zmtp_3_and_later_are_accepted() {
        for (major, minor) in [(3, 0), (3, 1), (3, 255), (4, 0)] {
            let mut greeting = [0; GREETING_BYTES];
            greeting[..12].copy_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, major, minor]);
            greeting[12..32].copy_from_slice(MECHANISM);
            greeting[32] = 1;
            assert_eq!(first_fault(&greeting), None);
        }
    }

    #[test]
    fn others_are_refused_at_the_first_byte_that_shows_it() {
        for (bytes, at) in [
            (&b"POST / HTTP/1.1\r\n"[..], 0),
            (b"\x01\x00", 0),
            (b"\xff\0\0\0\0\0\0\0\x01\x00", 9),
            (b"\xff\0\0\0\0\0\0\0\x01\x7f\x00", 10),
            (b"\xff\0\0\0\0\0\0\0\x01\x7f\x01", 10),
            (b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE", 12),
            (b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULLS", 16),
        ] {
            assert_eq!(first_fault(bytes), Some(at), "{bytes:?}");
        }
    }

    fn ready(properties: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut body = READY.to_vec();
        for (name, value) in properties {
            body.push(u8::try_from(name.len()).unwrap());
            body.extend_from_slice(name);
            body.extend_from_slice(&u32::try_from(value.len()).unwrap().to_be_bytes());
            body.extend_from_slice(value);
        }
        body
    }

    #[test]
    fn the_socket_type_decides_the_role() {
        for (socket_type, role) in [
            (&b"PUB"[..], SocketRole::Publishes),
            (b"XPUB", SocketRole::Publishes),
            (b"SUB", SocketRole::Subscribes),
            (b"XSUB", SocketRole::Subscribes),
        ] {
            let properties = [(&b"Identity"[..], &b""[..]), (SOCKET_TYPE, socket_type), (b"X-Other", &[0; 300])];
            assert_eq!(parse_ready(&ready(&properties)), Ok(role));
        }
    }

    #[test]
    fn a_ready_without_one_role_or_with_a_torn_property_is_refused() {
        let whole = ready(&[(SOCKET_TYPE, b"SUB")]);
        for end in READY.len()..whole.len() {
            assert_eq!(parse_ready(&whole[..end]), Err(PeerFault::Handshake), "{end}");
        }
        for body in [
            b"\x05ERROR\x03no!".to_vec(),
            b"\x09SUBSCRIBE".to_vec(),
            Vec::new(),
            ready(&[(SOCKET_TYPE, b"DEALER")]),
            ready(&[(SOCKET_TYPE, b"pub")]),
            ready(&[(b"socket-type", b"PUB")]),
            ready(&[(SOCKET_TYPE, b"PUB"), (SOCKET_TYPE, b"SUB")]),
        ] {
            assert_eq!(parse_ready(&body), Err(PeerFault::Handshake), "{body:?}");
        }
    }
}
