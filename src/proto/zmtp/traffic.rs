//! What passes after the handshake.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::frame::{self, FrameHead, SubscriberFrame, Violation};
use super::subscriptions::{SUBSCRIPTION_BYTES, Subscriptions};
use super::window::{Step, Window};
use crate::proto::budget::Budget;
use crate::proto::message::MAX_TOPIC_BYTES;

/// A message that subscribes to everything. Peers of ZMTP 3.1 may send it too.
const SUBSCRIBE_TO_EVERYTHING: &[u8] = &[0, 1, 1];

/// The bounds of what peers may send, and how much was beyond them.
#[derive(Debug)]
pub struct ZmtpLimits {
    /// Longest payload frame of a publisher that connected to us.
    pub message_bytes: u64,
    /// What the subscriptions of all accepted connections may cost together, counted by
    /// [`subscription_cost_bytes`](super::subscription_cost_bytes).
    pub subscriptions: Arc<Budget>,
    /// Messages of publishers that connected to us that were dropped.
    pub dropped_messages: Arc<AtomicU64>,
}

impl ZmtpLimits {
    /// Returns the default bounds with this one for payload frames.
    #[must_use]
    pub fn new(message_bytes: u64) -> Self {
        Self { message_bytes, subscriptions: Budget::new(SUBSCRIPTION_BYTES), dropped_messages: Arc::default() }
    }
}

/// What a peer may send.
#[derive(Debug)]
pub(super) enum PeerKind {
    /// Messages of two frames.
    Publisher,
    /// Subscriptions, within bounds.
    Subscriber(Subscriptions),
    /// Subscriptions, of which only the first counts, because the hub that we publish to filters by itself.
    PublishedTo { has_subscribed: bool },
    /// Messages of any kind: we chose the hub that we subscribe to.
    SubscribedTo,
}

/// The traffic of one peer.
#[derive(Debug)]
pub(super) struct Traffic {
    peer: PeerKind,
    /// The frames of a message are dropped up to its last one.
    drops_message: bool,
}

impl Traffic {
    pub(super) fn new(peer: PeerKind) -> Self {
        Self { peer, drops_message: false }
    }

    /// Decides about the next frame, or about the next message.
    pub(super) fn judge(&mut self, window: &mut Window<'_>, limits: &ZmtpLimits) -> Result<Step, Violation> {
        let Some(head) = FrameHead::parse(window.unread())? else { return Ok(Step::Wait) };
        match self.peer {
            PeerKind::Publisher => self.judge_message(head, window, limits),
            PeerKind::Subscriber(_) | PeerKind::PublishedTo { .. } => self.judge_subscription(head, window, limits),
            PeerKind::SubscribedTo if head.is_command => frame::judge_command(head, window.unread()),
            PeerKind::SubscribedTo => Ok(Step::Pass(head.frame_bytes())),
        }
    }

    /// A message passes when the heads of its two frames have arrived. The payload is not looked at.
    fn judge_message(
        &mut self,
        topic: FrameHead,
        window: &mut Window<'_>,
        limits: &ZmtpLimits,
    ) -> Result<Step, Violation> {
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
        let Some(behind) = unread.get(topic_bytes..) else { return Ok(Step::Wait) };
        let Some(payload) = FrameHead::parse(behind)? else { return Ok(Step::Wait) };
        if payload.is_command {
            // libzmq may send a heartbeat between two frames. It goes first, since the topic waits for the payload.
            let step = frame::judge_command(payload, behind)?;
            if step != Step::Wait {
                window.exchange(topic_bytes, payload.frame_bytes() as usize);
            }
            return Ok(step);
        }
        if payload.has_more || payload.body_bytes > limits.message_bytes {
            return Ok(self.drop_message(topic, limits));
        }
        Ok(Step::Pass(topic.frame_bytes() + payload.frame_bytes()))
    }

    fn judge_subscription(
        &mut self,
        head: FrameHead,
        window: &mut Window<'_>,
        limits: &ZmtpLimits,
    ) -> Result<Step, Violation> {
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
            PeerKind::Subscriber(subscriptions) if head.frame_bytes() <= (prefix_at + MAX_TOPIC_BYTES) as u64 => {
                let Some(prefix) = head.body(unread).and_then(|_| unread.get(prefix_at..head.frame_bytes() as usize))
                else {
                    return Ok(Step::Wait);
                };
                if adds { subscriptions.add(prefix, &limits.subscriptions) } else { subscriptions.remove(prefix) }
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
        limits.dropped_messages.fetch_add(1, Ordering::Relaxed);
        self.drop_frame(topic)
    }

    /// Drops a frame, and the rest of its message.
    fn drop_frame(&mut self, head: FrameHead) -> Step {
        self.drops_message = head.has_more;
        Step::Drop(head.frame_bytes())
    }
}
