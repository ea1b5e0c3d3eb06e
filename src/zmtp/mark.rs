//! A subscription that the guard adds for each subscriber, so that the owner of the socket sees when libzmq has forgotten
//! the subscriber.
//!
//! A peer's subscriptions stay in libzmq's trie after its connection is closed, until the thread that owns the socket
//! has removed them. libzmq then reports the end of each subscription that nobody else has. It does not say whose it was.
//! So each subscriber has one that nobody else has. It begins with bytes that no topic of this program begins with.

/// What each mark begins with.
const HEAD: &[u8; 6] = b"\0\xffpeer";
const MARK_BYTES: usize = HEAD.len() + 3;
/// The length of the frame that subscribes to a mark.
pub const MARK_FRAME_BYTES: usize = 3 + MARK_BYTES;

/// The mark of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number of the socket's [`Peers`](super::Peers).
    pub socket: u16,
    /// The subscriber's place among them.
    pub place: u8,
}

impl Mark {
    /// Returns the mark that a topic prefix is, if it is one.
    #[must_use]
    pub fn parse(prefix: &[u8]) -> Option<Self> {
        match prefix.strip_prefix(HEAD)? {
            &[high, low, place] => Some(Self { socket: u16::from_be_bytes([high, low]), place }),
            _ => None,
        }
    }

    /// Returns the message that subscribes to the mark.
    #[must_use]
    pub fn frame(self) -> [u8; MARK_FRAME_BYTES] {
        let mut frame = [0; MARK_FRAME_BYTES];
        let [high, low] = self.socket.to_be_bytes();
        let bytes = [0, 1 + MARK_BYTES as u8, 1].into_iter().chain(*HEAD).chain([high, low, self.place]);
        frame.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        frame
    }
}

/// Returns whether only marks begin like this topic or prefix.
pub(super) fn is_reserved(topic: &[u8]) -> bool {
    topic.starts_with(HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_from_its_frame_and_from_nothing_else() {
        let mark = Mark { socket: 0x0102, place: 3 };
        let frame = mark.frame();
        assert_eq!(frame, *b"\0\x0a\x01\0\xffpeer\x01\x02\x03");
        let prefix = frame.get(3..).unwrap();
        assert_eq!(Mark::parse(prefix), Some(mark));
        for other in [&b""[..], b"\0\xffpeer", b"\0\xffpeer\x01\x02", b"\0\xffpeer\x01\x02\x03\x04", b"topic"] {
            assert_eq!(Mark::parse(other), None);
        }
    }
}
