//! The frames of ZMTP 3: <https://rfc.zeromq.org/spec/23>, "Formal Grammar" and "Framing".

use super::window::Step;

/// Why a connection must end: the peer does not speak ZMTP 3, or is beyond a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerFault {
    /// The greeting is not one of ZMTP 3 with the mechanism NULL.
    Greeting,
    /// The first frame is not `READY`, is too long, or names no socket type of publish/subscribe.
    Handshake,
    /// A frame has reserved flags, is a divided command, or has a length of more than 63 bits.
    Frame,
    /// A command is too long, or a `PING` is too short.
    Command,
    /// As many peers of its kind as there may be are connected.
    NoPlace,
    /// The peer changes its subscriptions too often.
    Changes,
}

/// Longest command that passes or is dropped whole, in bytes. `PING` has at most 23 bytes (spec 37). Only `READY`, and
/// the commands that subscribe, may be longer.
pub const COMMAND_BYTES: u64 = 512;
/// Longest head of a frame: the flags and a length of eight bytes.
pub(super) const FRAME_HEAD_BYTES: usize = 9;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// `PING` has a time to live of two bytes after its name. libzmq 4.3.4 reads it even if it is missing.
const PING: &[u8] = b"\x04PING";
const PING_MIN_BYTES: usize = PING.len() + 2;
const PONG: &[u8] = b"\x04PONG";
const SUBSCRIBE: &[u8] = b"\x09SUBSCRIBE";
const CANCEL: &[u8] = b"\x06CANCEL";

/// The flags of a frame, and its lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) is_command: bool,
    pub(super) has_more: bool,
    pub(super) head_bytes: usize,
    pub(super) body_bytes: u64,
}

/// What a frame of a subscriber asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriberFrame {
    /// To receive what begins with a prefix, or no longer.
    Subscription {
        /// The frame adds a subscription; otherwise it cancels one.
        adds: bool,
        /// Bytes of the frame before the prefix, which is the rest of the frame.
        prefix_at: usize,
    },
    /// Something else.
    Other,
}

impl FrameHead {
    /// Reads the head of the frame that begins here. Returns `None` if more bytes are needed.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, PeerFault> {
        let Some(&flags) = bytes.first() else { return Ok(None) };
        let is_command = flags & COMMAND != 0;
        let has_more = flags & MORE != 0;
        // Spec 23: the other bits are zero, and a command is a single frame.
        if flags & !(MORE | LONG | COMMAND) != 0 || (is_command && has_more) {
            return Err(PeerFault::Frame);
        }
        let lengths = if flags & LONG == 0 {
            bytes.get(1).map(|&length| (2, u64::from(length)))
        } else {
            let length = bytes.get(1..).and_then(|rest| rest.first_chunk());
            length.map(|length| (FRAME_HEAD_BYTES, u64::from_be_bytes(*length)))
        };
        let Some((head_bytes, body_bytes)) = lengths else { return Ok(None) };
        // Spec 23: a length has 63 bits.
        if body_bytes > i64::MAX as u64 {
            return Err(PeerFault::Frame);
        }
        Ok(Some(Self { is_command, has_more, head_bytes, body_bytes }))
    }

    /// Returns the length of the whole frame.
    pub(super) fn frame_bytes(&self) -> u64 {
        self.head_bytes as u64 + self.body_bytes
    }

    /// Returns the body of the frame that begins here, if it has arrived whole.
    pub(super) fn body<'b>(&self, frame: &'b [u8]) -> Option<&'b [u8]> {
        let body_bytes = usize::try_from(self.body_bytes).ok()?;
        frame.get(self.head_bytes..)?.get(..body_bytes)
    }

    /// Returns what this frame of a subscriber asks for, or `None` if more bytes are needed. Peers of ZMTP 3.0 subscribe
    /// by a message whose first byte is 1 or 0, those of 3.1 by a command.
    pub(super) fn subscriber_frame(&self, frame: &[u8]) -> Option<SubscriberFrame> {
        let marks: &[(&[u8], bool)] =
            if self.is_command { &[(SUBSCRIBE, true), (CANCEL, false)] } else { &[(b"\x01", true), (b"\x00", false)] };
        let body = frame.get(self.head_bytes..)?;
        for &(mark, adds) in marks {
            if self.body_bytes < mark.len() as u64 || !mark.iter().zip(body).all(|(expected, byte)| expected == byte) {
                continue;
            }
            if body.len() < mark.len() {
                return None;
            }
            return Some(SubscriberFrame::Subscription { adds, prefix_at: self.head_bytes + mark.len() });
        }
        Some(SubscriberFrame::Other)
    }
}

/// Decides about a command that is no subscription. After the handshake only heartbeats have a meaning.
pub(super) fn judge_command(head: FrameHead, frame: &[u8]) -> Result<Step, PeerFault> {
    if head.body_bytes > COMMAND_BYTES {
        return Err(PeerFault::Command);
    }
    let Some(body) = head.body(frame) else { return Ok(Step::Wait) };
    if body.starts_with(PING) && body.len() < PING_MIN_BYTES {
        return Err(PeerFault::Command);
    }
    let is_heartbeat = body.starts_with(PING) || body.starts_with(PONG);
    Ok(if is_heartbeat { Step::Pass(head.frame_bytes()) } else { Step::Drop(head.frame_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(is_command: bool, has_more: bool, head_bytes: usize, body_bytes: u64) -> FrameHead {
        FrameHead { is_command, has_more, head_bytes, body_bytes }
    }

    #[test]
    fn short_and_long_heads_are_read() {
        for (bytes, expected) in [
            (&[0, 5][..], head(false, false, 2, 5)),
            (&[1, 255], head(false, true, 2, 255)),
            (&[4, 0], head(true, false, 2, 0)),
            (&[2, 0, 0, 0, 0, 0, 0, 1, 0], head(false, false, 9, 256)),
            (&[6, 0, 0, 0, 0, 0, 0, 0, 1], head(true, false, 9, 1)),
            (&[3, 0x7f, 255, 255, 255, 255, 255, 255, 255], head(false, true, 9, i64::MAX as u64)),
        ] {
            assert_eq!(FrameHead::parse(bytes), Ok(Some(expected)));
            for end in 0..bytes.len() {
                assert_eq!(FrameHead::parse(&bytes[..end]), Ok(None));
            }
        }
    }

    #[test]
    fn reserved_flags_divided_commands_and_lengths_of_64_bits_are_refused() {
        for bytes in [&[8, 0][..], &[0x80], &[5, 0], &[7], b"GET /", &[2, 0x80, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(FrameHead::parse(bytes), Err(PeerFault::Frame), "{bytes:?}");
        }
    }

    #[test]
    fn of_commands_a_ping_with_a_time_to_live_and_a_pong_pass() {
        for (frame, expected) in [
            (&b"\x04\x07\x04PING\0\0"[..], Ok(Step::Pass(9))),
            (b"\x04\x0e\x04PING\0\x0acontext", Ok(Step::Pass(16))),
            (b"\x04\x05\x04PONG", Ok(Step::Pass(7))),
            (b"\x04\x05\x04PON", Ok(Step::Wait)),
            (b"\x04\x06\x04PING\0", Err(PeerFault::Command)),
            (b"\x04\x07\x05ERROR\0", Ok(Step::Drop(9))),
            (b"\x04\x00", Ok(Step::Drop(2))),
            (b"\x06\0\0\0\0\0\0\x02\x01", Err(PeerFault::Command)),
        ] {
            let head = FrameHead::parse(frame).unwrap().unwrap();
            assert_eq!(judge_command(head, frame), expected, "{frame:?}");
        }
    }

    #[test]
    fn subscriptions_are_found_in_messages_and_in_commands() {
        let subscription = |adds, prefix_at| Some(SubscriberFrame::Subscription { adds, prefix_at });
        for (frame, expected) in [
            (&b"\0\x03\x01ab"[..], subscription(true, 3)),
            (b"\0\x01\x00", subscription(false, 3)),
            (b"\0\x01", None),
            (b"\0\x01\x02", Some(SubscriberFrame::Other)),
            (b"\0\x00", Some(SubscriberFrame::Other)),
            (b"\x04\x0b\x09SUBSCRIBEa", subscription(true, 12)),
            (b"\x04\x0b\x09SUBS", None),
            (b"\x04\x07\x06CANCEL", subscription(false, 9)),
            (b"\x04\x06\x06CANCE", Some(SubscriberFrame::Other)),
            (b"\x04\x07\x04PING", Some(SubscriberFrame::Other)),
        ] {
            let head = FrameHead::parse(frame).unwrap().unwrap();
            assert_eq!(head.subscriber_frame(frame), expected, "{frame:?}");
        }
    }
}
