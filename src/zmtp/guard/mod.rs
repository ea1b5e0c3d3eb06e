//! The state of one connection of the bus.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::frame::{COMMAND_BYTES, FRAME_HEAD_BYTES, FrameHead, PeerFault};
use super::handshake::{self, GREETING_BYTES, READY_BYTES, SocketRole};
use super::mark::MARK_FRAME_BYTES;
use super::peers::Peers;
use super::traffic::{PeerKind, Surroundings, Traffic, ZmtpLimits};
use super::window::{Step, Window};
use crate::limits::MAX_TOPIC_BYTES;

/// The most that [`InboundGuard::room_bytes`] returns: a topic frame, and a command that follows before the payload.
pub const HELD_BYTES: usize = 2 * FRAME_HEAD_BYTES + MAX_TOPIC_BYTES + COMMAND_BYTES as usize;

/// How a connection came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The peer connected to an endpoint that we bound.
    Accepted,
    /// We connected to the peer.
    Dialled,
}

/// Checks what one peer sends.
#[derive(Debug)]
pub struct InboundGuard {
    origin: Origin,
    limits: Arc<ZmtpLimits>,
    phase: Phase,
    /// What happens to the bytes that arrive next.
    step: Step,
    /// The bytes that cannot be judged before more arrive.
    held: Vec<u8>,
    /// What has been sent to the peer of our part of the handshake.
    sent: Sent,
    /// The peer is in this process.
    is_own: bool,
    /// libzmq has got the READY of the peer.
    is_seen: bool,
}

#[derive(Debug)]
enum Phase {
    Greeting { received: usize },
    Handshake,
    Traffic(Traffic),
}

/// Our part of a handshake.
#[derive(Clone, Copy, Debug)]
enum Sent {
    /// So many bytes of the greeting.
    Greeting(usize),
    /// The greeting and the READY, which told this role; `None` if it could not be read.
    Ready(Option<SocketRole>),
    /// Not all of it, and nothing more can be sent.
    Failed,
}

impl InboundGuard {
    /// Returns the guard of a new connection.
    #[must_use]
    pub fn new(origin: Origin, limits: Arc<ZmtpLimits>) -> Self {
        let phase = Phase::Greeting { received: 0 };
        Self {
            origin,
            limits,
            phase,
            step: Step::Pass(0),
            held: Vec::new(),
            sent: Sent::Greeting(0),
            is_own: false,
            is_seen: false,
        }
    }

    /// Returns how much longer than its input the output of the next call of [`InboundGuard::filter`] may be, at most
    /// [`HELD_BYTES`]: what the guard holds back, and the subscription that it adds behind a READY.
    #[must_use]
    pub fn room_bytes(&self) -> usize {
        self.held.len() + if matches!(self.phase, Phase::Handshake) { MARK_FRAME_BYTES } else { 0 }
    }

    /// Returns whether the peer is past its handshake.
    #[must_use]
    pub fn speaks(&self) -> bool {
        matches!(self.phase, Phase::Traffic(_))
    }

    /// Returns whether an accepted peer has sent its greeting, and not its READY.
    #[must_use]
    pub fn awaits_ready(&self) -> bool {
        self.origin == Origin::Accepted && matches!(self.phase, Phase::Handshake)
    }

    /// Takes note that the peer is in this process. As a publisher it has a place of its own.
    pub fn set_own(&mut self) {
        self.is_own = true;
    }

    /// Returns whether nothing may be read from the peer yet. libzmq takes a subscription behind the READY of a peer
    /// only after it has sent its own, which it does before it reads again.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        self.awaits_ready() && matches!(self.sent, Sent::Greeting(_))
    }

    /// Takes note of the bytes that are sent to the peer; `None` if nothing more can be sent.
    pub fn on_sent(&mut self, bytes: Option<&[u8]>) {
        let Sent::Greeting(sent) = self.sent else { return };
        self.sent = match bytes {
            Some(ready) if sent >= GREETING_BYTES => Sent::Ready(handshake::parse_sent_ready(ready)),
            Some(greeting) => Sent::Greeting(sent + greeting.len()),
            None => Sent::Failed,
        };
    }

    /// Gives up the place of a connection that is closed.
    pub fn leave(self, peers: &mut Peers) {
        match self.phase {
            Phase::Traffic(Traffic { peer: PeerKind::Subscriber(subscriber), .. }) => {
                let mark = peers.remove_subscriber(subscriber);
                // libzmq reports no mark that it never got.
                if !self.is_seen {
                    peers.forget(mark);
                }
            }
            Phase::Traffic(Traffic { peer: PeerKind::Publisher { is_own }, message, .. }) => {
                // libzmq drops a message that is not complete.
                if let Some(message) = message.filter(|_| self.step.is_unfinished()) {
                    peers.backlog().remove(message.held_bytes);
                    self.limits.counters.message_is_incomplete(is_own);
                }
                peers.remove_publisher(is_own);
            }
            _ => {}
        }
    }

    /// Returns whether the peer is a publisher that connected to us.
    #[must_use]
    pub fn publishes(&self) -> bool {
        matches!(self.phase, Phase::Traffic(Traffic { peer: PeerKind::Publisher { .. }, .. }))
    }

    /// Returns whether the peer is a subscriber that connected to us.
    #[must_use]
    pub fn subscribes(&self) -> bool {
        matches!(self.phase, Phase::Traffic(Traffic { peer: PeerKind::Subscriber(_), .. }))
    }

    /// Returns since when a message of a publisher has not been complete. All of it counts as held.
    #[must_use]
    pub fn unfinished_since(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Traffic(Traffic { message: Some(message), .. }) if self.step.is_unfinished() => {
                Some(message.began_at)
            }
            _ => None,
        }
    }

    /// Returns whether nothing may be read from the peer, because the hub holds as much for publishers as it may.
    #[must_use]
    pub fn is_paused(&self, peers: &Peers) -> bool {
        self.publishes() && !self.step.is_unfinished() && peers.backlog().is_full(self.is_own)
    }

    /// Takes the first `received` bytes of `buffer`, which come from the peer at this time, and replaces them by what may
    /// pass. Returns how many bytes that is. The buffer must have room for [`InboundGuard::room_bytes`] more.
    ///
    /// # Errors
    /// Returns an error if the peer does not speak ZMTP 3 or is beyond a bound. The connection must end.
    pub fn filter(
        &mut self,
        buffer: &mut [u8],
        received: usize,
        peers: &mut Peers,
        now: Duration,
    ) -> Result<usize, PeerFault> {
        let held_bytes = self.held.len();
        let Some(arrived) = buffer.get_mut(..held_bytes + received) else {
            debug_assert!(false, "the caller leaves room for the held bytes");
            return Err(PeerFault::Frame);
        };
        if held_bytes > 0 {
            arrived.copy_within(..received, held_bytes);
            arrived.iter_mut().zip(self.held.drain(..)).for_each(|(place, byte)| *place = byte);
        }
        let limits = Arc::clone(&self.limits);
        let mut around = Surroundings { limits: &limits, peers, now };
        let mut window = Window::new(buffer, held_bytes + received);
        loop {
            self.step = window.advance(self.step);
            if window.unread().is_empty() {
                self.is_seen = self.speaks();
                return Ok(window.kept());
            }
            self.step = self.judge(&mut window, &mut around)?;
            if self.step == Step::Wait {
                self.held.extend_from_slice(window.unread());
                debug_assert!(self.held.len() <= HELD_BYTES, "only the beginning of a message waits");
                self.step = Step::Pass(0);
                self.is_seen = self.speaks();
                return Ok(window.kept());
            }
        }
    }

    /// Decides about the unread bytes, of which there is at least one.
    fn judge(&mut self, window: &mut Window<'_>, around: &mut Surroundings<'_>) -> Result<Step, PeerFault> {
        match &mut self.phase {
            Phase::Greeting { received } => {
                // The greeting is never held back, because libzmq reads it in parts of exact lengths.
                let left = GREETING_BYTES - *received;
                let arrived_bytes = left.min(window.unread().len());
                handshake::check_greeting(*received, window.unread().get(..arrived_bytes).unwrap_or_default())?;
                *received += arrived_bytes;
                if arrived_bytes == left {
                    self.phase = Phase::Handshake;
                }
                Ok(Step::Pass(arrived_bytes as u64))
            }
            Phase::Handshake => self.judge_ready(window, around.peers),
            Phase::Traffic(traffic) => traffic.judge(window, around),
        }
    }

    fn judge_ready(&mut self, window: &mut Window<'_>, peers: &mut Peers) -> Result<Step, PeerFault> {
        let unread = window.unread();
        let Some(head) = FrameHead::parse(unread)? else { return Ok(Step::Wait) };
        if !head.is_command || head.body_bytes > READY_BYTES {
            return Err(PeerFault::Handshake);
        }
        let Some(body) = head.body(unread) else { return Ok(Step::Wait) };
        let role = handshake::parse_ready(body)?;
        // libzmq refuses a peer of the same role, and one that it could not send its READY to. It would never report the
        // mark of such a peer.
        let is_refused = match self.sent {
            Sent::Greeting(_) => false,
            Sent::Ready(own) => own == Some(role),
            Sent::Failed => true,
        };
        if self.origin == Origin::Accepted && is_refused {
            return Err(PeerFault::Handshake);
        }
        let mut passed_bytes = head.frame_bytes();
        let peer = match (self.origin, role) {
            (Origin::Accepted, SocketRole::Publishes) => {
                peers.add_publisher(self.is_own)?;
                PeerKind::Publisher { is_own: self.is_own }
            }
            (Origin::Accepted, SocketRole::Subscribes) => {
                let (subscriber, mark) = peers.add_subscriber()?;
                window.insert(head.frame_bytes() as usize, &mark.frame());
                passed_bytes += MARK_FRAME_BYTES as u64;
                PeerKind::Subscriber(subscriber)
            }
            (Origin::Dialled, SocketRole::Publishes) => PeerKind::SubscribedTo,
            (Origin::Dialled, SocketRole::Subscribes) => PeerKind::PublishedTo { has_subscribed: false },
        };
        self.phase = Phase::Traffic(Traffic::new(peer));
        Ok(Step::Pass(passed_bytes))
    }
}
