//! What passes after the handshake.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::backlog::Backlog;
use super::frame::{self, FrameHead, PeerFault, SubscriberFrame};
use super::ledger::Addition;
use super::mark;
use super::peers::{Peers, SubscribingPeer};
use super::window::{Step, Window};
use crate::limits::MAX_TOPIC_BYTES;

/// A message that subscribes to everything. Peers of ZMTP 3.1 may send it too.
const SUBSCRIBE_TO_EVERYTHING: &[u8] = &[0, 1, 1];

/// The bounds of what peers may send, and how much was beyond them.
#[derive(Clone, Debug)]
pub struct ZmtpLimits {
    /// Longest payload frame of a publisher that connected to us.
    pub message_bytes: u64,
    /// What was beyond the bounds.
    pub counters: Arc<PeerCounters>,
}

/// What peers that connected to us have sent.
#[derive(Debug, Default)]
pub struct PeerCounters {
    /// Messages of publishers that were dropped.
    pub dropped_messages: AtomicU64,
    /// Messages of publishers that began to pass.
    pub passed_messages: AtomicU64,
    /// Those of them that came from this process.
    pub own_messages: AtomicU64,
    /// Subscriptions that were ignored.
    pub refused_subscriptions: AtomicU64,
}

impl PeerCounters {
    fn message_passes(&self, is_own: bool) {
        self.passed_messages.fetch_add(1, Ordering::Relaxed);
        self.own_messages.fetch_add(u64::from(is_own), Ordering::Relaxed);
    }

    /// Takes note that the rest of a message never comes. libzmq drops what has passed of it.
    pub(super) fn message_is_incomplete(&self, is_own: bool) {
        self.passed_messages.fetch_sub(1, Ordering::Relaxed);
        self.own_messages.fetch_sub(u64::from(is_own), Ordering::Relaxed);
    }
}

impl ZmtpLimits {
    /// Returns the default bounds with this one for payload frames.
    #[must_use]
    pub fn new(message_bytes: u64) -> Self {
        Self { message_bytes, counters: Arc::default() }
    }
}

/// What the traffic of all peers of a socket shares, at one time.
pub(super) struct Surroundings<'a> {
    pub(super) limits: &'a ZmtpLimits,
    pub(super) peers: &'a mut Peers,
    pub(super) now: Duration,
}

impl Surroundings<'_> {
    fn count_refused(&self, is_refused: bool) {
        if is_refused {
            self.limits.counters.refused_subscriptions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a peer may send.
#[derive(Debug)]
pub(super) enum PeerKind {
    /// Messages of two frames.
    Publisher { is_own: bool },
    /// Subscriptions, within bounds.
    Subscriber(SubscribingPeer),
    /// Subscriptions, of which only the first counts, because the hub that we publish to filters by itself.
    PublishedTo { has_subscribed: bool },
    /// Messages of any kind: we chose the hub that we subscribe to.
    SubscribedTo,
}

/// The traffic of one peer.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) peer: PeerKind,
    /// The frames of a message are dropped up to its last one.
    drops_message: bool,
    /// The message of a publisher that began to pass last.
    pub(super) message: Option<PassedMessage>,
}

/// A message whose beginning has passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedMessage {
    /// What counts as held of it.
    pub(super) held_bytes: usize,
    /// When it began to pass.
    pub(super) began_at: Duration,
}

impl Traffic {
    pub(super) fn new(peer: PeerKind) -> Self {
        Self { peer, drops_message: false, message: None }
    }

    /// Decides about the next frame, or about the next message.
    pub(super) fn judge(&mut self, window: &mut Window<'_>, around: &mut Surroundings<'_>) -> Result<Step, PeerFault> {
        self.message = None;
        let Some(head) = FrameHead::parse(window.unread())? else { return Ok(Step::Wait) };
        match self.peer {
            PeerKind::Publisher { is_own } => self.judge_message(head, window, around, is_own),
            PeerKind::Subscriber(_) | PeerKind::PublishedTo { .. } => self.judge_subscription(head, window, around),
            PeerKind::SubscribedTo if head.is_command => frame::judge_command(head, window.unread()),
            PeerKind::SubscribedTo => Ok(Step::Pass(head.frame_bytes())),
        }
    }

    /// A message passes when the heads of its two frames have arrived. The payload is not looked at.
    fn judge_message(
        &mut self,
        topic: FrameHead,
        window: &mut Window<'_>,
        around: &Surroundings<'_>,
        is_own: bool,
    ) -> Result<Step, PeerFault> {
        let limits = around.limits;
        let unread = window.unread();
        if topic.is_command {
            return frame::judge_command(topic, unread);
        }
        if self.drops_message {
            return Ok(self.drop_frame(topic));
        }
        if !topic.has_more || topic.body_bytes > MAX_TOPIC_BYTES as u64 {
            return Ok(self.drop_message(topic, limits));
        }
        let topic_bytes = topic.frame_bytes() as usize;
        let Some((topic_frame, behind)) = unread.split_at_checked(topic_bytes) else { return Ok(Step::Wait) };
        let Some(payload) = FrameHead::parse(behind)? else { return Ok(Step::Wait) };
        if payload.is_command {
            // libzmq may send a heartbeat between two frames. It goes first, since the topic waits for the payload.
            let step = frame::judge_command(payload, behind)?;
            if step != Step::Wait {
                window.exchange(topic_bytes, payload.frame_bytes() as usize);
            }
            return Ok(step);
        }
        let is_reserved = topic.body(topic_frame).is_some_and(mark::is_reserved);
        if payload.has_more || payload.body_bytes > limits.message_bytes || is_reserved {
            return Ok(self.drop_message(topic, limits));
        }
        let frame_bytes = |frame: FrameHead| Backlog::frame_bytes(frame.body_bytes as usize);
        let held_bytes = frame_bytes(topic) + frame_bytes(payload);
        around.peers.backlog().add(held_bytes);
        self.message = Some(PassedMessage { held_bytes, began_at: around.now });
        limits.counters.message_passes(is_own);
        Ok(Step::Pass(topic.frame_bytes() + payload.frame_bytes()))
    }

    fn judge_subscription(
        &mut self,
        head: FrameHead,
        window: &mut Window<'_>,
        around: &mut Surroundings<'_>,
    ) -> Result<Step, PeerFault> {
        let unread = window.unread();
        if !head.is_command && (self.drops_message || head.has_more) {
            return Ok(self.drop_frame(head));
        }
        let (adds, prefix_at) = match head.subscriber_frame(unread) {
            None => return Ok(Step::Wait),
            Some(SubscriberFrame::Other) if head.is_command => return frame::judge_command(head, unread),
            Some(SubscriberFrame::Other) => return Ok(Step::Drop(head.frame_bytes())),
            Some(SubscriberFrame::Subscription { adds, prefix_at }) => (adds, prefix_at),
        };
        let passes = match &mut self.peer {
            PeerKind::Subscriber(of) if head.frame_bytes() <= (prefix_at + MAX_TOPIC_BYTES) as u64 => {
                let Some(prefix) = head.body(unread).and_then(|_| unread.get(prefix_at..head.frame_bytes() as usize))
                else {
                    return Ok(Step::Wait);
                };
                if adds {
                    let addition = around.peers.subscribe(of, prefix, around.now)?;
                    around.count_refused(addition == Addition::Refused);
                    addition == Addition::Passes
                } else {
                    around.peers.cancel(of, prefix, around.now)?
                }
            }
            PeerKind::Subscriber(_) => {
                around.count_refused(adds);
                false
            }
            PeerKind::PublishedTo { has_subscribed } if adds && !*has_subscribed => {
                *has_subscribed = true;
                window.replace(SUBSCRIBE_TO_EVERYTHING);
                return Ok(Step::Drop(head.frame_bytes() - SUBSCRIBE_TO_EVERYTHING.len() as u64));
            }
            _ => false,
        };
        Ok(if passes { Step::Pass(head.frame_bytes()) } else { Step::Drop(head.frame_bytes()) })
    }

    /// Drops a message of a publisher from its first frame on.
    fn drop_message(&mut self, topic: FrameHead, limits: &ZmtpLimits) -> Step {
        limits.counters.dropped_messages.fetch_add(1, Ordering::Relaxed);
        self.drop_frame(topic)
    }

    /// Drops a frame, and the rest of its message.
    fn drop_frame(&mut self, head: FrameHead) -> Step {
        self.drops_message = head.has_more;
        Step::Drop(head.frame_bytes())
    }
}
