//! What one peer of an endpoint that we bind may say next.
//!
//! A peer sends the greeting, then `READY`, and then frames. How much of a frame is needed depends on its head alone:
//! all of it, its beginning, or nothing. What is needed and has arrived whole is read where it lies. Only what has not
//! arrived whole is kept, in memory of the size that its head announces.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use super::reservations::UNRESERVED_BYTES;
use super::wire::{
    self, CANCEL, COMMAND_BYTES, FrameHead, GREETING_BYTES, MINOR_VERSION_AT, PING, PING_CONTEXT_BYTES, PeerFault,
    READY_BYTES, SUBSCRIBE, SocketRole, VERSION_AT,
};
use super::wire_message::WireMessage;
use crate::terms::limits::MAX_TOPIC_BYTES;

/// How much of a frame of a subscriber is needed: the longer way to subscribe, and a prefix that is one byte too long.
const SUBSCRIPTION_BYTES: u64 = (SUBSCRIBE.len() + MAX_TOPIC_BYTES + 1) as u64;

/// What a peer has sent.
#[derive(Debug)]
pub enum PeerEvent<'b> {
    /// Its greeting has arrived. Peers of this role are to be answered with [`super::ready`].
    Greeting(SocketRole),
    /// Its handshake is done, and its socket type fits. A publisher is to be sent
    /// [`super::subscribe_to_everything`].
    Ready {
        /// It takes subscriptions as commands.
        takes_commands: bool,
    },
    /// It wants what begins with this prefix, perhaps twice. One of more than [`MAX_TOPIC_BYTES`] may be cut.
    Subscribe(&'b [u8]),
    /// It no longer wants what begins with this prefix, which may be cut as well.
    Cancel(&'b [u8]),
    /// It is to be answered with a `PONG` of this context, of at most [`PING_CONTEXT_BYTES`].
    Ping(&'b [u8]),
    /// A publisher has begun to send a message of so many bytes, more than [`UNRESERVED_BYTES`], which has not arrived
    /// whole. Before more is received, these are to be reserved, until the message has arrived or is dropped.
    LongMessage(usize),
    /// A publisher has sent a message.
    Message(WireMessage),
    /// One message is dropped: there is no memory for it, it is beyond the bounds, or a subscriber has sent it.
    Dropped,
}

type OnEvent<'a> = dyn FnMut(PeerEvent<'_>) + 'a;

/// What one peer has sent so far, as far as it decides about what may follow.
///
/// | peer | what is read | what is dropped |
/// |---|---|---|
/// | a publisher | messages of a topic frame of 1 to [`MAX_TOPIC_BYTES`] of any kind, and a payload frame | other messages |
/// | a subscriber | subscriptions and cancellations, as messages of ZMTP 3.0 and as commands of ZMTP 3.1 | other messages |
/// | any | `PING`, also between two frames of a message | other commands, of at most [`COMMAND_BYTES`] |
#[derive(Debug)]
pub struct PeerSession {
    peers: SocketRole,
    payload_bytes: u64,
    /// How much is to come of a frame of which the rest is dropped, before the next one begins.
    dropped_bytes: u64,
    /// The head of the frame of which a part has arrived, if it has arrived whole.
    head: Option<FrameHead>,
    /// What has arrived of the greeting, or of the head or the body of a frame.
    part: Vec<u8>,
    expected: Expected,
    /// The topic of the message whose payload is expected. Its memory stays, so that no message allocates it anew.
    topic: Vec<u8>,
}

/// What comes next from a peer. Behind the handshake, it may also be a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Greeting,
    /// The greeting says whether the peer speaks ZMTP 3.1, or a later one.
    Ready {
        takes_commands: bool,
    },
    /// The first frame of a message.
    Message,
    /// The payload of a publisher's message.
    Payload,
    /// Another frame of a message that is dropped.
    Rest,
}

impl PeerSession {
    /// Returns the session of a new connection whose peer must have the role `peers`. Longer payloads are dropped.
    pub fn new(peers: SocketRole, payload_bytes: u64) -> Self {
        let (part, expected, topic) = (Vec::new(), Expected::Greeting, Vec::new());
        Self { peers, payload_bytes, dropped_bytes: 0, head: None, part, expected, topic }
    }

    /// Returns whether the major version of the peer has arrived, so that it is to get the rest of our greeting.
    pub fn has_major_version(&self) -> bool {
        self.expected != Expected::Greeting || self.part.len() > VERSION_AT
    }

    /// Returns whether the handshake is done.
    pub fn is_ready(&self) -> bool {
        !matches!(self.expected, Expected::Greeting | Expected::Ready { .. })
    }

    /// Returns whether the peer has sent nothing.
    pub fn is_silent(&self) -> bool {
        self.expected == Expected::Greeting && self.part.is_empty()
    }

    /// Returns whether the peer has sent its greeting, and is to send its `READY`.
    pub fn awaits_ready(&self) -> bool {
        matches!(self.expected, Expected::Ready { .. })
    }

    /// Returns how many bytes end a message that has begun to arrive, or a part of it: none between two messages. So
    /// many do not reach into the next message.
    pub fn missing_bytes(&self) -> usize {
        let is_between = self.part.is_empty() && self.expected == Expected::Message;
        let missing_bytes = match self.head {
            Some(head) => head.body_bytes - self.part.len() as u64,
            None => self.dropped_bytes.max(u64::from(!is_between)),
        };
        usize::try_from(missing_bytes).unwrap_or(usize::MAX)
    }

    /// Returns the bytes that are held for what has not arrived whole.
    pub fn unfinished_bytes(&self) -> usize {
        self.part.capacity() + self.topic.len()
    }

    /// Reads what has arrived, and calls `on` for each thing that the peer has sent. The same bytes have the same
    /// result, in however many parts they arrive, except for [`PeerEvent::LongMessage`].
    ///
    /// # Errors
    /// Returns an error if the peer does not speak ZMTP 3 with the mechanism NULL, or its socket type does not fit.
    /// `on` was called for what it sent before. The connection must end, and nothing more may be received.
    pub fn receive(&mut self, bytes: &[u8], on: &mut dyn FnMut(PeerEvent<'_>)) -> Result<(), PeerFault> {
        let mut rest = bytes;
        while let Some(head) = self.take_head(&mut rest, on)? {
            let Some(needed) = self.needed_bytes(head)? else {
                self.drop_frame(head, 0, on);
                continue;
            };
            let message_bytes = self.topic.len() + needed;
            let is_long = message_bytes > UNRESERVED_BYTES && self.head.is_none();
            let mut part = mem::take(&mut self.part);
            assert!(part.len() <= needed, "{} bytes are kept of {needed}", part.len());
            let left = needed - part.len();
            let body = if part.is_empty() && left <= rest.len() {
                Cow::Borrowed(take(&mut rest, left))
            } else if part.try_reserve_exact(if is_long { rest.len() } else { left }).is_err() {
                self.drop_frame(head, part.len(), on);
                continue;
            } else {
                part.extend_from_slice(take(&mut rest, left));
                if part.len() < needed {
                    (self.head, self.part) = (Some(head), part);
                    if is_long {
                        on(PeerEvent::LongMessage(message_bytes));
                    }
                    break;
                }
                Cow::Owned(part)
            };
            (self.head, self.dropped_bytes) = (None, head.body_bytes - needed as u64);
            self.read_frame(head, body, on)?;
        }
        Ok(())
    }

    /// Takes what stands before the body of a frame. Returns its head, or `None` if that has not arrived whole.
    fn take_head(&mut self, rest: &mut &[u8], on: &mut OnEvent<'_>) -> Result<Option<FrameHead>, PeerFault> {
        if self.expected == Expected::Greeting {
            self.part.extend_from_slice(take(rest, GREETING_BYTES - self.part.len()));
            wire::check_greeting(&self.part)?;
            if self.part.len() < GREETING_BYTES {
                return Ok(None);
            }
            let takes_commands = mem::take(&mut self.part).get(MINOR_VERSION_AT).is_some_and(|minor| *minor > 0);
            self.expected = Expected::Ready { takes_commands };
            on(PeerEvent::Greeting(self.peers));
        }
        if self.head.is_some() {
            return Ok(self.head);
        }
        if self.dropped_bytes > 0 {
            self.dropped_bytes -= take(rest, usize::try_from(self.dropped_bytes).unwrap_or(usize::MAX)).len() as u64;
        }
        if self.part.is_empty()
            && let Some(head) = FrameHead::take(rest)?
        {
            return Ok(Some(head));
        }
        while let Some(byte) = rest.split_off_first() {
            self.part.push(*byte);
            if let Some(head) = FrameHead::take(&mut &self.part[..])? {
                self.part = Vec::new();
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Returns how many bytes of the body of this frame are needed, or `None` if its message is dropped.
    fn needed_bytes(&self, head: FrameHead) -> Result<Option<usize>, PeerFault> {
        let FrameHead { is_command, has_more, body_bytes } = head;
        let is_possible = match (self.expected, self.peers) {
            _ if !self.is_ready() && !is_command => return Err(PeerFault::Handshake),
            _ if !self.is_ready() && body_bytes > READY_BYTES => return Err(PeerFault::LongHandshake),
            _ if !self.is_ready() => true,
            (_, SocketRole::Publishes) if is_command && body_bytes > COMMAND_BYTES => return Err(PeerFault::Command),
            _ if is_command => true,
            (Expected::Rest, _) => false,
            (_, SocketRole::Subscribes) => !has_more,
            (Expected::Payload, _) => !has_more && body_bytes <= self.payload_bytes,
            _ => has_more && (1..=MAX_TOPIC_BYTES as u64).contains(&body_bytes),
        };
        let is_subscription = self.peers == SocketRole::Subscribes && self.is_ready();
        let needed = if is_subscription { body_bytes.min(SUBSCRIPTION_BYTES) } else { body_bytes };
        // Where a `usize` has 32 bits, there is no memory for a longer frame.
        Ok(usize::try_from(needed).ok().filter(|_| is_possible))
    }

    /// Drops what follows of this frame behind its first bytes, and the rest of its message.
    fn drop_frame(&mut self, head: FrameHead, arrived: usize, on: &mut OnEvent<'_>) {
        (self.head, self.dropped_bytes) = (None, head.body_bytes - arrived as u64);
        self.topic.clear();
        let next = if head.has_more { Expected::Rest } else { Expected::Message };
        if mem::replace(&mut self.expected, next) != Expected::Rest {
            on(PeerEvent::Dropped);
        }
    }

    fn read_frame(&mut self, head: FrameHead, body: Cow<'_, [u8]>, on: &mut OnEvent<'_>) -> Result<(), PeerFault> {
        if let Expected::Ready { takes_commands } = self.expected {
            let socket_type = wire::parse_socket_type(&body)?;
            if SocketRole::of_type(&socket_type) != Some(self.peers) {
                return Err(PeerFault::SocketType(socket_type));
            }
            self.expected = Expected::Message;
            on(PeerEvent::Ready { takes_commands });
        } else if self.peers == SocketRole::Subscribes
            && let Some(subscription) = read_subscription(head.is_command, &body)
        {
            on(subscription);
        } else if head.is_command {
            if head.body_bytes > COMMAND_BYTES {
                return Err(PeerFault::Command);
            }
            if let Some(rest) = body.strip_prefix(PING) {
                let (_time_to_live, context) = rest.split_first_chunk::<2>().ok_or(PeerFault::Command)?;
                // libzmq repeats as much of a longer context.
                on(PeerEvent::Ping(context.get(..PING_CONTEXT_BYTES).unwrap_or(context)));
            }
        } else if self.peers == SocketRole::Subscribes {
            on(PeerEvent::Dropped);
        } else if self.expected == Expected::Payload {
            let message = match body {
                // Only a payload that lies in the input is copied.
                Cow::Borrowed(payload) => WireMessage::copy_of(&self.topic, payload),
                Cow::Owned(payload) => {
                    let whole = 0..payload.len();
                    WireMessage::part_of(&self.topic, &Arc::new(payload), whole)
                }
            };
            self.topic.clear();
            self.expected = Expected::Message;
            on(message.map_or(PeerEvent::Dropped, PeerEvent::Message));
        } else {
            self.topic.extend_from_slice(&body);
            self.expected = Expected::Payload;
        }
        Ok(())
    }
}

/// Takes so many bytes, or what has arrived of them.
fn take<'b>(rest: &mut &'b [u8], bytes: usize) -> &'b [u8] {
    rest.split_off(..bytes.min(rest.len())).unwrap_or_default()
}

/// Returns the subscription or the cancellation that this frame is.
pub fn read_subscription(is_command: bool, body: &[u8]) -> Option<PeerEvent<'_>> {
    let (subscribe, cancel) = if is_command { (SUBSCRIBE, CANCEL) } else { (&b"\x01"[..], &b"\0"[..]) };
    let subscribed = body.strip_prefix(subscribe).map(PeerEvent::Subscribe);
    subscribed.or_else(|| body.strip_prefix(cancel).map(PeerEvent::Cancel))
}
