//! What one peer of an endpoint that we bind may say next.
//!
//! A peer sends the greeting, then `READY`, and then frames. How much of a frame is needed depends on its head alone:
//! all of it, its beginning, or nothing. What is needed and has arrived whole is read where it lies. Only what has not
//! arrived whole is kept.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use super::wire::{
    self, CANCEL, COMMAND_BYTES, FrameHead, GREETING_BYTES, PING, PING_CONTEXT_BYTES, PeerFault, READY_BYTES,
    SUBSCRIBE, SocketRole, TIME_TO_LIVE_BYTES,
};
use super::wire_message::WireMessage;
use crate::sync::limits::MAX_TOPIC_BYTES;

/// How much of a frame of a subscriber is needed: the longer way to subscribe, and a prefix that is one byte too long.
const SUBSCRIPTION_BYTES: u64 = (SUBSCRIBE.len() + MAX_TOPIC_BYTES + 1) as u64;

/// What a peer has said.
#[derive(Debug)]
pub enum PeerEvent<'b> {
    /// Its greeting has arrived. Peers of this role are to be answered with [`super::ready`].
    Greeting(SocketRole),
    /// Its handshake is done, and its socket type fits.
    Ready,
    /// It wants what begins with this prefix, of at most [`MAX_TOPIC_BYTES`]. A peer may say so twice.
    Subscribe(&'b [u8]),
    /// It no longer wants what begins with this prefix, of at most [`MAX_TOPIC_BYTES`].
    Cancel(&'b [u8]),
    /// It subscribes to a longer prefix, which is ignored.
    RefusedSubscription,
    /// It is to be answered with a `PONG` of this context, of at most [`PING_CONTEXT_BYTES`].
    Ping(&'b [u8]),
    /// A publisher has sent a message.
    Message(WireMessage),
    /// One message is dropped: there is no memory for it, it is beyond the bounds, or a subscriber has sent it.
    Dropped,
}

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
    has_greeting: bool,
    is_ready: bool,
    /// The frame whose head has arrived, and not all of its body that is needed.
    head: Option<FrameHead>,
    /// What has arrived of the greeting, of a head, or of the body of `head`.
    part: Vec<u8>,
    /// The topic of a message whose payload has not arrived. It is empty if there is none.
    topic: Vec<u8>,
    /// How many of the next bytes are dropped.
    skipped_bytes: u64,
    /// The frames of a message are dropped up to its last one.
    drops_message: bool,
}

impl PeerSession {
    /// Returns the session of a new connection whose peer must have the role `peers`. Longer payloads are dropped.
    pub fn new(peers: SocketRole, payload_bytes: u64) -> Self {
        Self {
            peers,
            payload_bytes,
            has_greeting: false,
            is_ready: false,
            head: None,
            part: Vec::new(),
            topic: Vec::new(),
            skipped_bytes: 0,
            drops_message: false,
        }
    }

    /// Returns whether the handshake is done.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Returns the bytes that are held for what has not arrived whole: at most twice what has arrived of a message.
    pub fn unfinished_bytes(&self) -> usize {
        self.part.capacity() + self.topic.capacity()
    }

    /// Reads what has arrived, and calls `on` for each thing that the peer has said. The same bytes have the same
    /// result, in however many parts they arrive.
    ///
    /// # Errors
    /// Returns an error if the peer does not speak ZMTP 3 with the mechanism NULL, or its socket type does not fit.
    /// What it said before has been told. The connection must end, and nothing more may be received.
    pub fn receive(&mut self, bytes: &[u8], on: &mut dyn FnMut(PeerEvent<'_>)) -> Result<(), PeerFault> {
        let mut rest = bytes;
        if !self.has_greeting {
            let Some(greeting) = self.take_body(GREETING_BYTES, &mut rest) else {
                return wire::check_greeting(&self.part);
            };
            wire::check_greeting(&greeting)?;
            self.has_greeting = true;
            on(PeerEvent::Greeting(self.peers));
        }
        let mut topic: Cow<'_, [u8]> = Cow::Owned(mem::take(&mut self.topic));
        while let Some(head) = self.take_head(&mut rest)? {
            let needed = self.needed_bytes(head, !topic.is_empty())?;
            let Some(needed) = needed.filter(|&needed| self.make_room(needed, rest.len())) else {
                self.drop_frame(head, on);
                topic = Cow::default();
                continue;
            };
            let Some(body) = self.take_body(needed, &mut rest) else {
                self.head = Some(head);
                break;
            };
            self.skipped_bytes = head.body_bytes - needed as u64;
            self.read_frame(head, body, &mut topic, on)?;
        }
        self.topic = topic.into_owned();
        Ok(())
    }

    /// Takes what is dropped, and then the head of the next frame. Returns `None` if it has not arrived whole.
    fn take_head(&mut self, rest: &mut &[u8]) -> Result<Option<FrameHead>, PeerFault> {
        let skipped = usize::try_from(self.skipped_bytes).unwrap_or(usize::MAX).min(rest.len());
        self.skipped_bytes -= skipped as u64;
        *rest = rest.get(skipped..).unwrap_or_default();
        if let Some(head) = self.head.take() {
            return Ok(Some(head));
        }
        if self.part.is_empty()
            && let Some(head) = FrameHead::parse(rest)?
        {
            *rest = rest.get(head.head_bytes..).unwrap_or_default();
            return Ok(Some(head));
        }
        while let Some((&byte, behind)) = rest.split_first() {
            *rest = behind;
            self.part.push(byte);
            if let Some(head) = FrameHead::parse(&self.part)? {
                self.part = Vec::new();
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Returns how many bytes of the body of this frame are needed, or `None` if its message is dropped.
    fn needed_bytes(&self, head: FrameHead, has_topic: bool) -> Result<Option<usize>, PeerFault> {
        let FrameHead { is_command, has_more, body_bytes, .. } = head;
        if !self.is_ready && (!is_command || body_bytes > READY_BYTES) {
            return Err(PeerFault::Handshake);
        }
        if self.is_ready && is_command && body_bytes > COMMAND_BYTES && self.peers == SocketRole::Publishes {
            return Err(PeerFault::Command);
        }
        let is_possible = match self.peers {
            _ if is_command => true,
            _ if self.drops_message => false,
            SocketRole::Subscribes => !has_more,
            SocketRole::Publishes if has_topic => !has_more && body_bytes <= self.payload_bytes,
            SocketRole::Publishes => has_more && (1..=MAX_TOPIC_BYTES as u64).contains(&body_bytes),
        };
        let needed = match self.peers {
            SocketRole::Subscribes => body_bytes.min(SUBSCRIPTION_BYTES),
            SocketRole::Publishes => body_bytes,
        };
        // Where a `usize` has 32 bits, there is no memory for a longer frame.
        Ok(usize::try_from(needed).ok().filter(|_| is_possible))
    }

    /// Makes room for what has arrived of the body. Returns `false` if there is no memory for it.
    ///
    /// The room doubles, and ends at what is needed. So the length that a peer announces costs nothing by itself, and a
    /// whole payload lies in a buffer of its size.
    fn make_room(&mut self, needed: usize, arrived: usize) -> bool {
        let kept = self.part.len();
        let kept_next = kept.saturating_add(arrived).min(needed);
        let is_in_place = kept == 0 && kept_next == needed;
        if is_in_place || kept_next <= self.part.capacity() {
            return true;
        }
        self.part.try_reserve_exact(kept_next.saturating_mul(2).min(needed) - kept).is_ok()
    }

    /// Takes so many bytes, of the greeting or of a body. Returns `None`, and keeps what there is, if they have not arrived whole.
    fn take_body<'b>(&mut self, needed: usize, rest: &mut &'b [u8]) -> Option<Cow<'b, [u8]>> {
        debug_assert!(self.part.len() <= needed, "{} bytes are kept of {needed}", self.part.len());
        let (arrived, behind) = rest.split_at(needed.saturating_sub(self.part.len()).min(rest.len()));
        *rest = behind;
        if arrived.len() == needed {
            return Some(Cow::Borrowed(arrived));
        }
        self.part.extend_from_slice(arrived);
        (self.part.len() == needed).then(|| Cow::Owned(mem::take(&mut self.part)))
    }

    /// Drops what follows of this frame, and the rest of its message.
    fn drop_frame(&mut self, head: FrameHead, on: &mut dyn FnMut(PeerEvent<'_>)) {
        if !self.drops_message {
            on(PeerEvent::Dropped);
        }
        self.drops_message = head.has_more;
        self.skipped_bytes = head.body_bytes - mem::take(&mut self.part).len() as u64;
    }

    fn read_frame<'b>(
        &mut self,
        head: FrameHead,
        body: Cow<'b, [u8]>,
        topic: &mut Cow<'b, [u8]>,
        on: &mut dyn FnMut(PeerEvent<'_>),
    ) -> Result<(), PeerFault> {
        if !self.is_ready {
            let socket_type = wire::parse_socket_type(&body)?;
            self.is_ready = SocketRole::of_type(&socket_type) == Some(self.peers);
            if !self.is_ready {
                return Err(PeerFault::SocketType(socket_type));
            }
            on(PeerEvent::Ready);
            return Ok(());
        }
        if self.peers == SocketRole::Subscribes && read_subscription(head.is_command, &body, on) {
            return Ok(());
        }
        if head.is_command {
            return read_command(head.body_bytes, &body, on);
        }
        match self.peers {
            SocketRole::Subscribes => on(PeerEvent::Dropped),
            SocketRole::Publishes if topic.is_empty() => *topic = body,
            SocketRole::Publishes => {
                let message = message(&mem::take(topic), body);
                on(message.map_or(PeerEvent::Dropped, PeerEvent::Message));
            }
        }
        Ok(())
    }
}

/// Reads a subscription or a cancellation. Returns `false` if the frame is neither.
fn read_subscription(is_command: bool, body: &[u8], on: &mut dyn FnMut(PeerEvent<'_>)) -> bool {
    let (subscribe, cancel) = if is_command { (SUBSCRIBE, CANCEL) } else { (&b"\x01"[..], &b"\0"[..]) };
    if let Some(prefix) = body.strip_prefix(subscribe) {
        let is_short = prefix.len() <= MAX_TOPIC_BYTES;
        on(if is_short { PeerEvent::Subscribe(prefix) } else { PeerEvent::RefusedSubscription });
        return true;
    }
    let Some(prefix) = body.strip_prefix(cancel) else { return false };
    // A longer prefix was refused before, and is counted once.
    if prefix.len() <= MAX_TOPIC_BYTES {
        on(PeerEvent::Cancel(prefix));
    }
    true
}

fn read_command(body_bytes: u64, body: &[u8], on: &mut dyn FnMut(PeerEvent<'_>)) -> Result<(), PeerFault> {
    if body_bytes > COMMAND_BYTES {
        return Err(PeerFault::Command);
    }
    if let Some(rest) = body.strip_prefix(PING) {
        let (_time_to_live, context) = rest.split_at_checked(TIME_TO_LIVE_BYTES).ok_or(PeerFault::Command)?;
        // libzmq repeats as much of a longer context.
        on(PeerEvent::Ping(context.get(..PING_CONTEXT_BYTES).unwrap_or(context)));
    }
    Ok(())
}

/// Returns the message, or `None` if there is no memory for it. Only a payload that lies in the input is copied.
fn message(topic: &[u8], payload: Cow<'_, [u8]>) -> Option<WireMessage> {
    match payload {
        Cow::Borrowed(payload) => WireMessage::copy_of(topic, payload),
        Cow::Owned(payload) => {
            let whole = 0..payload.len();
            WireMessage::part_of(topic, &Arc::new(payload), whole)
        }
    }
}
