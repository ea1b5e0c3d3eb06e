//! What several subscribers subscribe to and cancel, in any order, while they leave, come back, and are forgotten by
//! libzmq some time later. A plain model of libzmq's trie tells what it holds.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use adapter_gateway::zmtp::{
    CONNECTION_SLOTS, FIRST_SLOTS, GREETING_BYTES, InboundGuard, MARK_FRAME_BYTES, Mark, Origin, PeerFault, Peers,
    SHARED_SLOTS,
};

use super::peers::{handshake, slots_of};

/// Subscribers at the same time, and places for them: one that comes back at once may find none.
const SUBSCRIBERS: usize = 3;
const PLACES: usize = 5;
/// The number of the socket.
const SOCKET: u16 = 9;

/// A connected subscriber, and what it subscribes to.
struct Subscriber {
    guard: InboundGuard,
    place: u8,
    kept: BTreeSet<Vec<u8>>,
    /// The slots that it has added to the trie.
    slots: usize,
}

/// What libzmq holds, and what the guards say that it holds.
struct World {
    peers: Peers,
    subscribers: [Option<Subscriber>; SUBSCRIBERS],
    /// The places and subscriptions of those that have left and are not forgotten.
    left: VecDeque<(u8, BTreeSet<Vec<u8>>)>,
}

impl World {
    fn kept(&self) -> impl Iterator<Item = &BTreeSet<Vec<u8>>> {
        let present = self.subscribers.iter().flatten().map(|subscriber| &subscriber.kept);
        present.chain(self.left.iter().map(|(_, kept)| kept))
    }

    fn slots(&self) -> usize {
        slots_of(self.kept().flatten().map(Vec::as_slice))
    }

    fn come(&mut self, who: usize) {
        let mut guard = InboundGuard::new(Origin::Accepted, 0);
        (0..2).for_each(|_| guard.on_sent(Some(&[0; GREETING_BYTES])));
        let mut buffer = handshake("SUB");
        let received = buffer.len();
        buffer.resize(received + MARK_FRAME_BYTES, 0);
        let passed = guard.filter(&mut buffer, received, &mut self.peers, Duration::ZERO);
        let taken: BTreeSet<u8> =
            self.subscribers.iter().flatten().map(|it| it.place).chain(self.left.iter().map(|it| it.0)).collect();
        let Some(place) = (0..PLACES as u8).find(|place| !taken.contains(place)) else {
            return assert_eq!(passed, Err(PeerFault::NoPlace));
        };
        assert_eq!(passed, Ok(buffer.len()));
        assert!(buffer.ends_with(&Mark { socket: SOCKET, place }.frame()));
        self.subscribers[who] = Some(Subscriber { guard, place, kept: BTreeSet::new(), slots: 0 });
    }

    fn leave(&mut self, who: usize) {
        if let Some(subscriber) = self.subscribers[who].take() {
            subscriber.guard.leave(&mut self.peers);
            self.left.push_back((subscriber.place, subscriber.kept));
        }
    }

    fn forget(&mut self) {
        if let Some((place, _)) = self.left.pop_front() {
            self.peers.forget(Mark { socket: SOCKET, place });
        }
    }

    /// Subscribes or cancels. The frame passes if it changes what libzmq holds, and if the bounds permit it.
    fn change(&mut self, who: usize, adds: bool, prefix: &[u8], frame: &[u8], cut: usize) {
        let before = self.slots();
        let held = self.kept().map(BTreeSet::len).sum::<usize>();
        let Some(subscriber) = &mut self.subscribers[who] else { return };
        let was_first = subscriber.kept.is_empty();
        let mut changes = if adds { subscriber.kept.insert(prefix.to_vec()) } else { subscriber.kept.remove(prefix) };
        let after = self.slots();
        let subscriber = self.subscribers[who].as_mut().expect("it is there");
        if adds && changes {
            let grown = after - before;
            let fits = after <= SHARED_SLOTS && subscriber.slots + grown <= CONNECTION_SLOTS;
            changes = fits || (was_first && grown <= FIRST_SLOTS);
            if changes {
                subscriber.slots += grown;
            } else {
                subscriber.kept.remove(prefix);
            }
        } else if changes {
            subscriber.slots = subscriber.slots.saturating_sub(before - after);
        }
        let expected = if changes { frame } else { &[] };
        assert_eq!(send(&mut subscriber.guard, &mut self.peers, frame, cut), expected, "{prefix:?} after {held}");
    }
}

/// Returns what passes of a frame that comes in two pieces.
fn send(guard: &mut InboundGuard, peers: &mut Peers, frame: &[u8], cut: usize) -> Vec<u8> {
    let (first, second) = frame.split_at(cut % (frame.len() + 1));
    let mut passed = Vec::new();
    for piece in [first, second] {
        let mut buffer = piece.to_vec();
        buffer.resize(piece.len() + guard.room_bytes(), 0xee);
        let length = guard.filter(&mut buffer, piece.len(), peers, Duration::ZERO);
        passed.extend_from_slice(&buffer[..length.expect("so few changes end no connection")]);
    }
    passed
}

/// Each two bytes of the input are one step of one of three subscribers: who does what, and to which prefix.
pub(crate) fn subscriptions(input: &[u8]) {
    let subscribers = [const { None }; SUBSCRIBERS];
    let mut world = World {
        peers: Peers::new(SOCKET, PLACES, 0, Arc::default(), Arc::default()),
        subscribers,
        left: VecDeque::new(),
    };
    (0..SUBSCRIBERS).for_each(|who| world.come(who));
    for step in input.chunks_exact(2).take(200) {
        let (action, place) = (step[0], step[1]);
        let who = usize::from(action % 3);
        match action {
            248.. => world.forget(),
            236.. => {
                world.leave(who);
                world.come(who);
            }
            _ => {
                let prefix = vec![place; usize::from(place & 63) * 16];
                let (adds, is_command) = (action & 4 == 0, action & 8 == 0);
                let frame = frame(adds, is_command, &prefix);
                world.change(who, adds, &prefix, &frame, usize::from(action >> 4) * 7);
            }
        }
        assert_eq!(world.peers.slots(), world.slots());
        assert_eq!(world.peers.subscriptions(), world.kept().map(BTreeSet::len).sum::<usize>());
    }
    (0..SUBSCRIBERS).for_each(|who| world.leave(who));
    while !world.left.is_empty() {
        world.forget();
    }
    assert_eq!((world.peers.slots(), world.peers.subscriptions()), (0, 0));
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
    match u8::try_from(body.len()) {
        Ok(length) => [&[flags, length], &body[..]].concat(),
        Err(_) => [&[flags | 2][..], &(body.len() as u64).to_be_bytes(), &body].concat(),
    }
}
