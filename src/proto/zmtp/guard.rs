//! The state of one connection of the bus.

use std::sync::Arc;
use std::time::Duration;

use super::frame::{COMMAND_BYTES, FRAME_HEAD_BYTES, FrameHead, Violation};
use super::handshake::{self, GREETING_BYTES, READY_BYTES, SocketRole};
use super::mark::MARK_FRAME_BYTES;
use super::peers::Peers;
use super::traffic::{PeerKind, Surroundings, Traffic, ZmtpLimits};
use super::window::{Step, Window};
use crate::proto::message::MAX_TOPIC_BYTES;

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
        Self { origin, limits, phase, step: Step::Pass(0), held: Vec::new(), sent: Sent::Greeting(0), is_own: false }
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
                peers.remove_subscriber(subscriber);
            }
            Phase::Traffic(Traffic { peer: PeerKind::Publisher { is_own: false }, .. }) => peers.remove_publisher(),
            _ => {}
        }
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
    ) -> Result<usize, Violation> {
        let held_bytes = self.held.len();
        let Some(arrived) = buffer.get_mut(..held_bytes + received) else {
            debug_assert!(false, "the caller leaves room for the held bytes");
            return Err(Violation::Frame);
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
                return Ok(window.kept());
            }
            self.step = self.judge(&mut window, &mut around)?;
            if self.step == Step::Wait {
                self.held.extend_from_slice(window.unread());
                debug_assert!(self.held.len() <= HELD_BYTES, "only the beginning of a message waits");
                self.step = Step::Pass(0);
                return Ok(window.kept());
            }
        }
    }

    /// Decides about the unread bytes, of which there is at least one.
    fn judge(&mut self, window: &mut Window<'_>, around: &mut Surroundings<'_>) -> Result<Step, Violation> {
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

    fn judge_ready(&mut self, window: &mut Window<'_>, peers: &mut Peers) -> Result<Step, Violation> {
        let unread = window.unread();
        let Some(head) = FrameHead::parse(unread)? else { return Ok(Step::Wait) };
        if !head.is_command || head.body_bytes > READY_BYTES {
            return Err(Violation::Handshake);
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
            return Err(Violation::Handshake);
        }
        let mut passed_bytes = head.frame_bytes();
        let peer = match (self.origin, role) {
            (Origin::Accepted, SocketRole::Publishes) => {
                if !self.is_own {
                    peers.add_publisher()?;
                }
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

#[cfg(test)]
mod tests {
    use super::super::mark::Mark;
    use super::*;

    const PUBLISHER: &[u8] = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB";
    const SUBSCRIBER: &[u8] = b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04XSUB";

    /// The READY that our socket sends to a peer that sends this one.
    fn answer_to(ready: &[u8]) -> &'static [u8] {
        if ready == PUBLISHER { SUBSCRIBER } else { PUBLISHER }
    }

    /// Returns the guard of a peer whose greeting has passed. Payloads have at most 4 bytes.
    fn after_greeting(origin: Origin) -> InboundGuard {
        let mut guard = InboundGuard::new(origin, Arc::new(ZmtpLimits::new(4)));
        let mut greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".to_vec();
        greeting.resize(GREETING_BYTES, 0);
        assert_eq!(filter(&mut guard, &greeting).as_deref(), Ok(&greeting[..]));
        guard
    }

    /// Returns the guard of a peer whose handshake has passed.
    fn after_handshake(origin: Origin, ready: &[u8]) -> InboundGuard {
        let mut guard = after_greeting(origin);
        guard.on_sent(Some(&[0; GREETING_BYTES]));
        guard.on_sent(Some(answer_to(ready)));
        let is_marked = origin == Origin::Accepted && ready == SUBSCRIBER;
        let mark = if is_marked { &Mark { socket: 7, place: 0 }.frame()[..] } else { &[] };
        assert_eq!(filter(&mut guard, ready), Ok([ready, mark].concat()));
        guard
    }

    /// Returns a long frame.
    fn long(flags: u8, body: &[u8]) -> Vec<u8> {
        [&[flags | 2][..], &(body.len() as u64).to_be_bytes(), body].concat()
    }

    #[test]
    fn only_a_command_within_its_bound_is_read_as_ready() {
        let ready = |bytes: u64| {
            let body = b"\x05READY\x0bSocket-Type\0\0\0\x03PUB\x01X";
            let value_bytes = bytes as usize - body.len() - 4;
            [&body[..], &(value_bytes as u32).to_be_bytes(), &vec![b'v'; value_bytes]].concat()
        };
        let judge = |frame: &[u8]| filter(&mut after_greeting(Origin::Accepted), frame).map(|passed| passed.len());
        let most = long(4, &ready(READY_BYTES));
        assert_eq!(judge(&most), Ok(most.len()));
        assert_eq!(judge(&long(4, &ready(READY_BYTES + 1))), Err(Violation::Handshake));
        assert_eq!(judge(&long(0, &ready(READY_BYTES))), Err(Violation::Handshake));
        // The beginning of a command that is too long is not waited for.
        assert_eq!(judge(&long(4, &ready(READY_BYTES + 1))[..9]), Err(Violation::Handshake));
    }

    #[test]
    fn a_subscription_passes_up_to_its_bound() {
        for (prefix_bytes, passes) in [(MAX_TOPIC_BYTES, true), (MAX_TOPIC_BYTES + 1, false)] {
            let prefix = vec![b'p'; prefix_bytes];
            for frame in [long(0, &[b"\x01", &prefix[..]].concat()), long(4, &[b"\x09SUBSCRIBE", &prefix[..]].concat())]
            {
                let passed = filter(&mut after_handshake(Origin::Accepted, SUBSCRIBER), &frame).unwrap();
                assert_eq!(passed == frame, passes, "{prefix_bytes} bytes");
                assert!(passes || passed.is_empty());
            }
        }
    }

    /// The peers of a test are the only ones.
    fn filter(guard: &mut InboundGuard, bytes: &[u8]) -> Result<Vec<u8>, Violation> {
        filter_among(guard, bytes, &mut Peers::new(7, 1, 1))
    }

    fn filter_among(guard: &mut InboundGuard, bytes: &[u8], peers: &mut Peers) -> Result<Vec<u8>, Violation> {
        let mut buffer = bytes.to_vec();
        buffer.resize(bytes.len() + guard.room_bytes(), 0);
        let passed = guard.filter(&mut buffer, bytes.len(), peers, Duration::ZERO)?;
        buffer.truncate(passed);
        Ok(buffer)
    }

    /// A case: what it is, what the peer sends, and what passes.
    type Case = (&'static str, &'static [u8], &'static [u8]);

    fn passes(origin: Origin, ready: &[u8], cases: &[Case]) {
        for (what, sent, expected) in cases {
            let passed = filter(&mut after_handshake(origin, ready), sent);
            assert_eq!(passed.as_deref(), Ok(*expected), "{what}");
        }
    }

    #[test]
    fn of_a_publisher_only_messages_of_two_frames_within_the_bounds_pass() {
        let message = b"\x01\x01t\x00\x01p";
        passes(
            Origin::Accepted,
            PUBLISHER,
            &[
                ("two frames", message, message),
                ("an empty payload", b"\x01\x01t\x00\x00", b"\x01\x01t\x00\x00"),
                ("a payload of 4 bytes", b"\x01\x01t\x00\x044444", b"\x01\x01t\x00\x044444"),
                ("a payload of 5 bytes", b"\x01\x01t\x00\x0555555\x01\x01t\x00\x01p", message),
                ("one frame", b"\x00\x01t\x01\x01t\x00\x01p", message),
                ("three frames", b"\x01\x01t\x01\x01p\x00\x01p\x01\x01t\x00\x01p", message),
                ("a payload that has not arrived", b"\x01\x01t", b""),
                ("a part of a payload", b"\x01\x01t\x00\x02p", b"\x01\x01t\x00\x02p"),
                ("a heartbeat inside", b"\x01\x01t\x04\x05\x04PONG\x00\x01p", b"\x04\x05\x04PONG\x01\x01t\x00\x01p"),
                ("a subscription", b"\x04\x0a\x09SUBSCRIBE\x01\x01t\x00\x01p", message),
                ("a topic that begins as a mark", b"\x01\x06\0\xffpeer\x00\x01p\x01\x01t\x00\x01p", message),
            ],
        );
    }

    #[test]
    fn of_a_subscriber_only_new_subscriptions_and_their_cancellations_pass() {
        passes(
            Origin::Accepted,
            SUBSCRIBER,
            &[
                ("a message", b"\x00\x02\x01a\x00\x02\x00a", b"\x00\x02\x01a\x00\x02\x00a"),
                ("a command", b"\x04\x0b\x09SUBSCRIBEa", b"\x04\x0b\x09SUBSCRIBEa"),
                ("a repetition in the other form", b"\x04\x0b\x09SUBSCRIBEa\x00\x02\x01a", b"\x04\x0b\x09SUBSCRIBEa"),
                ("a cancellation of nothing", b"\x04\x07\x06CANCEL", b""),
                ("another message", b"\x00\x01\x02\x00\x00", b""),
                ("a message of two frames", b"\x01\x02\x01a\x00\x02\x01b\x00\x02\x01c", b"\x00\x02\x01c"),
                ("a long one", b"\x02\0\0\0\0\0\0\x04\x02\x01", b""),
            ],
        );
    }

    #[test]
    fn of_a_hub_that_is_published_to_the_first_subscription_passes_as_one_to_everything() {
        passes(
            Origin::Dialled,
            SUBSCRIBER,
            &[
                ("a cancellation, then two messages", b"\x00\x01\x00\x00\x02\x01a\x00\x02\x01b", b"\x00\x01\x01"),
                ("a command", b"\x04\x0b\x09SUBSCRIBEa", b"\x00\x01\x01"),
                ("the beginning of a long one", b"\x02\0\0\0\0\x7f\0\0\0\x01abc", b"\x00\x01\x01"),
            ],
        );
    }

    #[test]
    fn of_a_hub_that_is_subscribed_to_every_message_passes() {
        let frames = b"\x00\x01a\x01\x01a\x01\x01b\x00\x09123456789";
        passes(Origin::Dialled, PUBLISHER, &[("1 and 3 frames", frames, frames)]);
    }

    #[test]
    fn a_ready_is_read_after_ours_was_sent_and_only_of_the_other_role() {
        for (own, ready, end) in [
            (Some(PUBLISHER), SUBSCRIBER, Ok(SUBSCRIBER.len() + MARK_FRAME_BYTES)),
            (Some(SUBSCRIBER), PUBLISHER, Ok(PUBLISHER.len())),
            (Some(SUBSCRIBER), SUBSCRIBER, Err(Violation::Handshake)),
            (Some(PUBLISHER), PUBLISHER, Err(Violation::Handshake)),
            (None, PUBLISHER, Err(Violation::Handshake)),
            (None, SUBSCRIBER, Err(Violation::Handshake)),
        ] {
            let mut guard = after_greeting(Origin::Accepted);
            assert!(guard.must_wait());
            guard.on_sent(Some(&[0; 10]));
            guard.on_sent(Some(&[0; 54]));
            assert!(guard.must_wait());
            guard.on_sent(own);
            assert!(!guard.must_wait());
            assert_eq!(filter(&mut guard, ready).map(|passed| passed.len()), end, "{own:?} {ready:?}");
            assert_eq!(guard.speaks(), end.is_ok());
        }
        assert!(!after_greeting(Origin::Dialled).must_wait());
    }

    #[test]
    fn what_follows_a_ready_follows_the_mark() {
        let mut guard = after_greeting(Origin::Accepted);
        guard.on_sent(Some(&[0; GREETING_BYTES]));
        guard.on_sent(Some(PUBLISHER));
        let sent = [SUBSCRIBER, b"\x00\x02\x01a"].concat();
        let mark = Mark { socket: 7, place: 0 }.frame();
        assert_eq!(filter(&mut guard, &sent), Ok([SUBSCRIBER, &mark, b"\x00\x02\x01a"].concat()));
    }

    #[test]
    fn a_peer_without_a_place_is_disconnected_and_one_that_leaves_frees_its_place() {
        let mut peers = Peers::new(7, 1, 1);
        for ready in [PUBLISHER, SUBSCRIBER] {
            let [mut first, mut second, mut third] = std::array::from_fn(|_| after_greeting(Origin::Accepted));
            assert!(filter_among(&mut first, ready, &mut peers).is_ok());
            let mut own = after_greeting(Origin::Accepted);
            own.set_own();
            assert_eq!(filter_among(&mut own, ready, &mut peers).is_ok(), ready == PUBLISHER);
            own.leave(&mut peers);
            assert_eq!(filter_among(&mut second, ready, &mut peers), Err(Violation::NoPlace));
            second.leave(&mut peers);
            first.leave(&mut peers);
            if ready == SUBSCRIBER {
                // libzmq has forgotten the subscriber.
                peers.forget(Mark { socket: 7, place: 0 });
            }
            assert!(filter_among(&mut third, ready, &mut peers).is_ok());
        }
    }

    #[test]
    fn a_dropped_message_is_not_held() {
        let mut guard = after_handshake(Origin::Accepted, PUBLISHER);
        assert_eq!(filter(&mut guard, b"\x01\x01t\x02\0\0\0\0\x7f\0\0\0"), Ok(Vec::new()));
        for _ in 0..100 {
            assert_eq!(filter(&mut guard, &[0; 8_192]), Ok(Vec::new()));
            assert_eq!(guard.room_bytes(), 0);
        }
    }

    #[test]
    fn the_most_is_held_where_a_command_interrupts_the_longest_message() {
        let mut guard = after_handshake(Origin::Accepted, PUBLISHER);
        let topic = [&b"\x03\0\0\0\0\0\0\x04\x00"[..], &[b't'; MAX_TOPIC_BYTES]].concat();
        let command = [&b"\x06\0\0\0\0\0\0\x02\x00\x04PONG"[..], &[0; COMMAND_BYTES as usize - 5]].concat();
        let sent = [&topic[..], &command].concat();
        assert_eq!(sent.len(), HELD_BYTES);
        assert_eq!(filter(&mut guard, &sent[..sent.len() - 1]), Ok(Vec::new()));
        assert_eq!(guard.room_bytes(), HELD_BYTES - 1);
        assert_eq!(filter(&mut guard, &[0]), Ok(command));
        assert_eq!(filter(&mut guard, b"\x00\x00"), Ok([&topic[..], b"\x00\x00"].concat()));
    }
}
