//! What passes after the handshake.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{InboundGuard, PassedMessage, Phase};
use crate::limits::MAX_TOPIC_BYTES;
use crate::zmtp::ledger::Backlog;
use crate::zmtp::peers::{Mark, Peers};
use crate::zmtp::window::{Step, Window};
use crate::zmtp::wire::{self, FrameHead, PeerFault, SubscriberFrame};

/// A message that subscribes to everything. Peers of ZMTP 3.1 may send it too.
const SUBSCRIBE_TO_EVERYTHING: &[u8] = &[0, 1, 1];

impl InboundGuard {
    /// Decides about the next frame, or about the next message.
    pub(super) fn judge_traffic(
        &mut self,
        window: &mut Window<'_>,
        peers: &mut Peers,
        now: Duration,
    ) -> Result<Step, PeerFault> {
        self.message = None;
        let Some(head) = FrameHead::parse(window.unread())? else { return Ok(Step::Wait) };
        match self.phase {
            Phase::Publisher => self.judge_message(head, window, peers, now),
            Phase::Subscriber(_) | Phase::PublishedTo { .. } => self.judge_subscription(head, window, peers, now),
            _ if head.is_command => wire::judge_command(head, window.unread()),
            _ => Ok(Step::Pass(head.frame_bytes())),
        }
    }

    /// A message passes when the heads of its two frames have arrived. The payload is not looked at.
    fn judge_message(
        &mut self,
        topic: FrameHead,
        window: &mut Window<'_>,
        peers: &Peers,
        now: Duration,
    ) -> Result<Step, PeerFault> {
        let unread = window.unread();
        if topic.is_command {
            return wire::judge_command(topic, unread);
        }
        if self.drops_message {
            return Ok(self.drop_frame(topic));
        }
        if !topic.has_more || topic.body_bytes > MAX_TOPIC_BYTES as u64 {
            return Ok(self.drop_message(topic, peers));
        }
        let topic_bytes = topic.frame_bytes() as usize;
        let Some((topic_frame, behind)) = unread.split_at_checked(topic_bytes) else { return Ok(Step::Wait) };
        let Some(payload) = FrameHead::parse(behind)? else { return Ok(Step::Wait) };
        if payload.is_command {
            // libzmq may send a heartbeat between two frames. It goes first, since the topic waits for the payload.
            let step = wire::judge_command(payload, behind)?;
            if step != Step::Wait {
                window.exchange(topic_bytes, payload.frame_bytes() as usize);
            }
            return Ok(step);
        }
        let is_reserved = topic.body(topic_frame).is_some_and(Mark::is_reserved);
        if payload.has_more || payload.body_bytes > self.message_bytes || is_reserved {
            return Ok(self.drop_message(topic, peers));
        }
        let frame_bytes = |frame: FrameHead| Backlog::frame_bytes(frame.body_bytes as usize);
        let held_bytes = frame_bytes(topic) + frame_bytes(payload);
        peers.backlog.add(held_bytes);
        self.message = Some(PassedMessage { held_bytes, began_at: now });
        peers.counters.message_passes(self.is_own);
        Ok(Step::Pass(topic.frame_bytes() + payload.frame_bytes()))
    }

    fn judge_subscription(
        &mut self,
        head: FrameHead,
        window: &mut Window<'_>,
        peers: &mut Peers,
        now: Duration,
    ) -> Result<Step, PeerFault> {
        let unread = window.unread();
        if !head.is_command && (self.drops_message || head.has_more) {
            return Ok(self.drop_frame(head));
        }
        let (adds, prefix_at) = match head.subscriber_frame(unread) {
            None => return Ok(Step::Wait),
            Some(SubscriberFrame::Other) if head.is_command => return wire::judge_command(head, unread),
            Some(SubscriberFrame::Other) => return Ok(Step::Drop(head.frame_bytes())),
            Some(SubscriberFrame::Subscription { adds, prefix_at }) => (adds, prefix_at),
        };
        let passes = match &mut self.phase {
            Phase::Subscriber(of) if head.frame_bytes() <= (prefix_at + MAX_TOPIC_BYTES) as u64 => {
                let Some(prefix) = head.body(unread).and_then(|_| unread.get(prefix_at..head.frame_bytes() as usize))
                else {
                    return Ok(Step::Wait);
                };
                if adds { peers.subscribe(of, prefix, now)? } else { peers.cancel(of, prefix, now)? }
            }
            Phase::Subscriber(_) => {
                peers.counters.refused_subscriptions.fetch_add(u64::from(adds), Ordering::Relaxed);
                false
            }
            Phase::PublishedTo { has_subscribed } if adds && !*has_subscribed => {
                *has_subscribed = true;
                window.replace(SUBSCRIBE_TO_EVERYTHING);
                return Ok(Step::Drop(head.frame_bytes() - SUBSCRIBE_TO_EVERYTHING.len() as u64));
            }
            _ => false,
        };
        Ok(if passes { Step::Pass(head.frame_bytes()) } else { Step::Drop(head.frame_bytes()) })
    }

    /// Drops a message of a publisher from its first frame on.
    fn drop_message(&mut self, topic: FrameHead, peers: &Peers) -> Step {
        peers.counters.dropped_messages.fetch_add(1, Ordering::Relaxed);
        self.drop_frame(topic)
    }

    /// Drops a frame, and the rest of its message.
    fn drop_frame(&mut self, head: FrameHead) -> Step {
        self.drops_message = head.has_more;
        Step::Drop(head.frame_bytes())
    }
}
