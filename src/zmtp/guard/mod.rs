//! The state of one connection of the bus.

#[cfg(test)]
mod tests;
mod traffic;

use std::time::Duration;

use super::peers::{MARK_FRAME_BYTES, Peers, SubscribingPeer};
use super::window::{Step, Window};
use super::wire::{self, COMMAND_BYTES, FRAME_HEAD_BYTES, GREETING_BYTES, PeerFault, SocketRole};
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
    /// How the connection came about.
    pub origin: Origin,
    /// Longest payload frame of a publisher that connected to us.
    message_bytes: u64,
    phase: Phase,
    /// What happens to the bytes that arrive next.
    step: Step,
    /// The bytes that cannot be judged before more arrive.
    held: Vec<u8>,
    /// What has been sent to the peer of our part of the handshake.
    sent: Sent,
    /// The peer is in this process.
    is_own: bool,
    /// libzmq has got the READY of a peer that connected to us.
    is_seen: bool,
    /// The frames of a message are dropped up to its last one.
    drops_message: bool,
    /// The message of a publisher that began to pass last.
    message: Option<PassedMessage>,
}

/// What the peer may send next.
#[derive(Debug)]
enum Phase {
    /// The greeting, of which so many bytes have arrived.
    Greeting(usize),
    /// READY.
    Handshake,
    /// Messages of two frames, from a publisher that connected to us.
    Publisher,
    /// Subscriptions within bounds, from a subscriber that connected to us.
    Subscriber(SubscribingPeer),
    /// Subscriptions, of which only the first counts, because the hub that we publish to filters by itself.
    PublishedTo { has_subscribed: bool },
    /// Messages of any kind: we chose the hub that we subscribe to.
    SubscribedTo,
}

/// A message whose beginning has passed.
#[derive(Clone, Copy, Debug)]
struct PassedMessage {
    /// What counts as held of it.
    held_bytes: usize,
    began_at: Duration,
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
    /// Returns the guard of a new connection. Payload frames of a publisher that connects to us have at most
    /// `message_bytes`.
    #[must_use]
    pub fn new(origin: Origin, message_bytes: u64) -> Self {
        Self {
            origin,
            message_bytes,
            phase: Phase::Greeting(0),
            step: Step::Pass(0),
            held: Vec::new(),
            sent: Sent::Greeting(0),
            is_own: false,
            is_seen: false,
            drops_message: false,
            message: None,
        }
    }

    /// Returns how much longer than its input the output of the next call of [`InboundGuard::filter`] may be, at most
    /// [`HELD_BYTES`]: what the guard holds back, and the subscription that it adds behind a READY.
    #[must_use]
    pub fn room_bytes(&self) -> usize {
        self.held.len() + if matches!(self.phase, Phase::Handshake) { MARK_FRAME_BYTES } else { 0 }
    }

    /// Returns the role of a peer that connected to us, or `None` before it is past its handshake.
    #[must_use]
    pub fn role(&self) -> Option<SocketRole> {
        match self.phase {
            Phase::Publisher => Some(SocketRole::Publishes),
            Phase::Subscriber(_) => Some(SocketRole::Subscribes),
            _ => None,
        }
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
            Some(ready) if sent >= GREETING_BYTES => {
                let parsed = wire::parse_ready(ready).ok().flatten();
                Sent::Ready(parsed.and_then(|(socket_type, _)| SocketRole::of_type(socket_type)))
            }
            Some(greeting) => Sent::Greeting(sent + greeting.len()),
            None => Sent::Failed,
        };
    }

    /// Gives up the place of a connection that is closed.
    pub fn leave(self, peers: &mut Peers) {
        let unfinished = self.unfinished().copied();
        match self.phase {
            Phase::Subscriber(subscriber) => {
                let mark = peers.remove_subscriber(subscriber);
                // libzmq reports no mark that it never got.
                if !self.is_seen {
                    peers.forget(mark);
                }
            }
            Phase::Publisher => {
                // libzmq drops a message that is not complete.
                if let Some(message) = unfinished {
                    peers.backlog.remove(message.held_bytes);
                    peers.counters.message_is_incomplete(self.is_own);
                }
                peers.remove_publisher(self.is_own);
            }
            _ => {}
        }
    }

    /// Returns since when a message of a publisher has not been complete. All of it counts as held.
    #[must_use]
    pub fn unfinished_since(&self) -> Option<Duration> {
        self.unfinished().map(|message| message.began_at)
    }

    fn unfinished(&self) -> Option<&PassedMessage> {
        self.message.as_ref().filter(|_| self.step.is_unfinished())
    }

    /// Returns whether nothing may be read from the peer, because the hub holds as much for publishers as it may.
    #[must_use]
    pub fn is_paused(&self, peers: &Peers) -> bool {
        matches!(self.phase, Phase::Publisher) && !self.step.is_unfinished() && peers.backlog.is_full(self.is_own)
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
        let mut window = Window::new(buffer, held_bytes + received);
        loop {
            self.step = window.advance(self.step);
            if window.unread().is_empty() {
                break;
            }
            self.step = self.judge(&mut window, peers, now)?;
            if self.step == Step::Wait {
                self.held.extend_from_slice(window.unread());
                debug_assert!(self.held.len() <= HELD_BYTES, "only the beginning of a message waits");
                self.step = Step::Pass(0);
                break;
            }
        }
        self.is_seen = self.role().is_some();
        Ok(window.kept())
    }

    /// Decides about the unread bytes, of which there is at least one.
    fn judge(&mut self, window: &mut Window<'_>, peers: &mut Peers, now: Duration) -> Result<Step, PeerFault> {
        match &mut self.phase {
            Phase::Greeting(received) => {
                // The greeting is never held back, because libzmq reads it in parts of exact lengths.
                let left = GREETING_BYTES - *received;
                let arrived_bytes = left.min(window.unread().len());
                wire::check_greeting(*received, window.unread().get(..arrived_bytes).unwrap_or_default())?;
                *received += arrived_bytes;
                if arrived_bytes == left {
                    self.phase = Phase::Handshake;
                }
                Ok(Step::Pass(arrived_bytes as u64))
            }
            Phase::Handshake => self.judge_ready(window, peers),
            _ => self.judge_traffic(window, peers, now),
        }
    }

    fn judge_ready(&mut self, window: &mut Window<'_>, peers: &mut Peers) -> Result<Step, PeerFault> {
        let Some((socket_type, mut passed_bytes)) = wire::parse_ready(window.unread())? else { return Ok(Step::Wait) };
        let role = SocketRole::of_type(socket_type).ok_or(PeerFault::Handshake)?;
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
        self.phase = match (self.origin, role) {
            (Origin::Accepted, SocketRole::Publishes) => {
                peers.add_publisher(self.is_own)?;
                Phase::Publisher
            }
            (Origin::Accepted, SocketRole::Subscribes) => {
                let (subscriber, mark) = peers.add_subscriber()?;
                window.insert(passed_bytes, &mark.frame());
                passed_bytes += MARK_FRAME_BYTES;
                Phase::Subscriber(subscriber)
            }
            (Origin::Dialled, SocketRole::Publishes) => Phase::SubscribedTo,
            (Origin::Dialled, SocketRole::Subscribes) => Phase::PublishedTo { has_subscribed: false },
        };
        Ok(Step::Pass(passed_bytes as u64))
    }
}
