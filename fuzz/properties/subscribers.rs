//! What several subscribers subscribe to and cancel, in any order, while they share one budget.

use std::array;
use std::collections::BTreeSet;
use std::sync::Arc;

use adapter_gateway::proto::budget::Budget;
use adapter_gateway::proto::zmtp::{InboundGuard, OWN_SUBSCRIPTION_BYTES, Origin, ZmtpLimits, subscription_cost_bytes};

use super::peers::handshake;

/// What the subscriptions may cost beyond each connection's own part: so little that short inputs use it up.
const SHARED_BYTES: usize = 5 * subscription_cost_bytes(32);

/// A subscriber, and what it is known to subscribe to.
struct Subscriber {
    guard: InboundGuard,
    kept: BTreeSet<Vec<u8>>,
}

impl Subscriber {
    fn connect(limits: &Arc<ZmtpLimits>) -> Self {
        let mut guard = InboundGuard::new(Origin::Accepted, Arc::clone(limits));
        let mut handshake = handshake("SUB");
        let arrived = handshake.len();
        assert_eq!(guard.filter(&mut handshake, arrived), Ok(arrived));
        Self { guard, kept: BTreeSet::new() }
    }

    /// Returns what the subscriptions cost beyond the connection's own part.
    fn shared_bytes(&self) -> usize {
        let cost_bytes: usize = self.kept.iter().map(|prefix| subscription_cost_bytes(prefix.len())).sum();
        cost_bytes.saturating_sub(OWN_SUBSCRIPTION_BYTES)
    }

    /// Returns what passes of a frame that comes in two pieces.
    fn send(&mut self, frame: &[u8], cut: usize) -> Vec<u8> {
        let (first, second) = frame.split_at(cut % (frame.len() + 1));
        let mut passed = Vec::new();
        for piece in [first, second] {
            let mut buffer = piece.to_vec();
            buffer.resize(piece.len() + self.guard.held_bytes(), 0xee);
            let length = self.guard.filter(&mut buffer, piece.len()).expect("a subscription ends no connection");
            passed.extend_from_slice(&buffer[..length]);
        }
        passed
    }
}

/// Each two bytes of the input are one step of one of three subscribers: who does what, and to which prefix. A frame
/// passes if it changes what libzmq must know, and if a plain sum of all costs allows it.
pub(crate) fn subscriptions(input: &[u8]) {
    let limits = ZmtpLimits { subscriptions: Budget::new(SHARED_BYTES), ..ZmtpLimits::new(0) };
    let limits = Arc::new(limits);
    let mut subscribers: [Subscriber; 3] = array::from_fn(|_| Subscriber::connect(&limits));
    for step in input.chunks_exact(2) {
        let (action, place) = (step[0], step[1]);
        let who = usize::from(action % 3);
        if action >= 240 {
            subscribers[who] = Subscriber::connect(&limits);
        } else {
            let prefix = vec![b'a' + (place >> 6); usize::from(place & 63)];
            let (adds, is_command) = (action & 4 == 0, action & 8 == 0);
            let changes = if adds {
                let others: usize =
                    (0..3).filter(|other| *other != who).map(|other| subscribers[other].shared_bytes()).sum();
                let kept = &mut subscribers[who].kept;
                let is_new = kept.insert(prefix.clone());
                let fits = others + subscribers[who].shared_bytes() <= SHARED_BYTES;
                if is_new && !fits {
                    subscribers[who].kept.remove(&prefix);
                }
                is_new && fits
            } else {
                subscribers[who].kept.remove(&prefix)
            };
            let frame = frame(adds, is_command, &prefix);
            let expected = if changes { frame.clone() } else { Vec::new() };
            assert_eq!(subscribers[who].send(&frame, usize::from(action >> 4) * 7), expected, "{step:?}");
        }
        let shared_bytes: usize = subscribers.iter().map(Subscriber::shared_bytes).sum();
        assert_eq!(limits.subscriptions.held_bytes(), shared_bytes);
    }
    drop(subscribers);
    assert_eq!(limits.subscriptions.held_bytes(), 0);
}

/// Returns the frame of a subscription or of a cancellation: a message of ZMTP 3.0, or a command of 3.1.
fn frame(adds: bool, is_command: bool, prefix: &[u8]) -> Vec<u8> {
    let (flags, mark): (u8, &[u8]) = match (is_command, adds) {
        (true, true) => (4, b"\x09SUBSCRIBE"),
        (true, false) => (4, b"\x06CANCEL"),
        (false, true) => (0, b"\x01"),
        (false, false) => (0, b"\x00"),
    };
    let body = [mark, prefix].concat();
    [&[flags, u8::try_from(body.len()).unwrap()], &body[..]].concat()
}
