//! What libzmq keeps for the peers of one socket, and bounds on it: subscriptions, and the messages of publishers.
//!
//! libzmq keeps the subscriptions of a socket in one trie: a node for each byte, and in each node an array from its
//! lowest to its highest child. For each peer that leaves, it walks over all slots of all arrays, at some 40 ns each, and
//! nobody is served meanwhile. So the number of slots is what is bounded. This counts them exactly: they follow from the
//! set of prefixes.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::MAX_TOPIC_BYTES;

/// The slots of the trie beyond which only [first subscriptions](FIRST_SLOTS) pass. A walk over them takes some 1 ms.
pub const SHARED_SLOTS: usize = 24 * 1024;
/// The slots that one connection may add: half of all, so that one peer leaves room for others.
pub const CONNECTION_SLOTS: usize = SHARED_SLOTS / 2;
/// The most slots of a subscription that passes although [`SHARED_SLOTS`] are used up, because it is the only one of its
/// connection. With [`MAX_SUBSCRIBERS`](super::MAX_SUBSCRIBERS), all of them are 56 Ki, so the trie has at most 80 Ki.
pub const FIRST_SLOTS: usize = 224;
/// The subscriptions of one connection: fewer than it may make at once, so that too many end no connection. An adapter has
/// some hundred. libzmq and the ledger take some 200 bytes for each.
pub const CONNECTION_PREFIXES: usize = 4_800;
/// The subscriptions of all connections of a socket, without the first one of each.
pub const SHARED_PREFIXES: usize = 4 * CONNECTION_PREFIXES;

/// The prefixes that libzmq has, and by how many connections.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    holders: BTreeMap<Arc<[u8]>, u32>,
    /// The slots of libzmq's trie.
    pub(super) slots: usize,
    /// The number of subscriptions of all connections.
    pub(super) subscriptions: usize,
}

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    prefixes: HashSet<Arc<[u8]>>,
    /// The slots that they have added to the trie.
    slots: usize,
}

/// What becomes of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addition {
    /// libzmq must see it.
    Passes,
    /// The connection has it already, and libzmq counts no repetitions.
    Known,
    /// A bound is reached.
    Refused,
}

impl Ledger {
    /// Keeps a subscription of a connection if the bounds permit it.
    pub(super) fn add(&mut self, of: &mut Subscriptions, prefix: &[u8]) -> Addition {
        if of.prefixes.contains(prefix) {
            return Addition::Known;
        }
        let known = self.holders.get_key_value(prefix).map(|(key, _)| Arc::clone(key));
        let slots = if known.is_some() { 0 } else { self.growth(prefix) };
        let is_within_bounds = self.slots + slots <= SHARED_SLOTS
            && of.slots + slots <= CONNECTION_SLOTS
            && of.prefixes.len() < CONNECTION_PREFIXES
            && self.subscriptions < SHARED_PREFIXES;
        let is_first = of.prefixes.is_empty() && slots <= FIRST_SLOTS;
        if !is_within_bounds && !is_first {
            return Addition::Refused;
        }
        let key = known.unwrap_or_else(|| prefix.into());
        *self.holders.entry(Arc::clone(&key)).or_default() += 1;
        self.slots += slots;
        self.subscriptions += 1;
        of.slots += slots;
        of.prefixes.insert(key);
        Addition::Passes
    }

    /// Forgets a subscription of a connection. Returns whether the connection had it, so that libzmq must see the end.
    pub(super) fn remove(&mut self, of: &mut Subscriptions, prefix: &[u8]) -> bool {
        let was_kept = of.prefixes.remove(prefix);
        if was_kept {
            let slots = self.release(prefix);
            of.slots = of.slots.saturating_sub(slots);
        }
        was_kept
    }

    /// Forgets all subscriptions of a connection.
    pub(super) fn remove_all(&mut self, of: Subscriptions) {
        for prefix in of.prefixes {
            self.release(&prefix);
        }
    }

    /// Takes note that one connection has no longer this prefix. Returns the slots that are gone.
    fn release(&mut self, prefix: &[u8]) -> usize {
        let Some(holders) = self.holders.get_mut(prefix) else {
            debug_assert!(false, "what a connection has is in the ledger");
            return 0;
        };
        *holders -= 1;
        self.subscriptions -= 1;
        if *holders > 0 {
            return 0;
        }
        self.holders.remove(prefix);
        let slots = self.growth(prefix);
        self.slots -= slots;
        slots
    }

    /// Returns how many slots a prefix adds that is not here.
    fn growth(&self, prefix: &[u8]) -> usize {
        let before = self.holders.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(prefix))).next_back();
        let behind = self.holders.range::<[u8], _>((Bound::Excluded(prefix), Bound::Unbounded)).next();
        let common = |other: Option<(&Arc<[u8]>, _)>| {
            other.map_or(0, |(other, _)| other.iter().zip(prefix).take_while(|(one, other)| one == other).count())
        };
        let shared_bytes = common(before).max(common(behind));
        let (path, rest) = prefix.split_at(shared_bytes);
        // The node of `path` is there. It gets another child, and a chain of nodes hangs from that.
        let Some((&child, chain)) = rest.split_first() else { return 0 };
        let (old_slots, new_slots) = match self.children(path) {
            Some((lowest, highest)) => {
                (usize::from(highest - lowest) + 1, usize::from(highest.max(child) - lowest.min(child)) + 1)
            }
            None => (0, 1),
        };
        new_slots - old_slots + chain.len()
    }

    /// Returns the lowest and the highest byte that follow `path` in the prefixes.
    fn children(&self, path: &[u8]) -> Option<(u8, u8)> {
        // No prefix is longer than a topic, so all prefixes that begin with `path` stand before this.
        let end = [path, &[u8::MAX; MAX_TOPIC_BYTES + 1]].concat();
        let longer = self.holders.range::<[u8], _>((Bound::Excluded(path), Bound::Excluded(&end[..])));
        let mut children = longer.filter_map(|(prefix, _)| prefix.get(path.len()).copied());
        let lowest = children.next()?;
        Some((lowest, children.next_back().unwrap_or(lowest)))
    }
}

/// What a hub holds for the publishers of other processes, in bytes. The link of this process to its own hub is held back
/// at twice as much, so that what others send takes nothing from it.
pub const BACKLOG_BYTES: usize = 64 << 20;

/// What libzmq keeps for a publisher until the hub has read all that it sent: the two directions of a pipe, each with a
/// block of 256 messages of 64 bytes, and the objects around them.
pub const PUBLISHER_BYTES: usize = 48 * 1024;

/// What libzmq and the allocator need for a frame beside its content: 64 bytes in a pipe, and the head of content on the
/// heap.
const FRAME_BYTES: usize = 128;

/// The bytes that a hub holds for its publishers. The thread that reads from them adds, and the hub's thread removes.
#[derive(Debug, Default)]
pub struct Backlog {
    bytes: AtomicUsize,
}

impl Backlog {
    /// Returns what counts for a frame with so much content.
    #[must_use]
    pub const fn frame_bytes(content_bytes: usize) -> usize {
        FRAME_BYTES.saturating_add(content_bytes)
    }

    /// Returns the bytes that are held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Returns whether nothing more may be read from a publisher.
    #[must_use]
    pub fn is_full(&self, is_own: bool) -> bool {
        self.bytes() >= if is_own { 2 * BACKLOG_BYTES } else { BACKLOG_BYTES }
    }

    /// Returns whether so little is held that publishers are read again.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.bytes() <= BACKLOG_BYTES / 2
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Removes bytes. Returns whether there is room again, and was none before.
    pub fn remove(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        debug_assert!(before >= bytes, "{before} bytes without the {bytes} added before");
        before > BACKLOG_BYTES / 2 && before - bytes <= BACKLOG_BYTES / 2
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Counts the slots of the trie of these prefixes in the plain way.
    fn slots_of(prefixes: &BTreeSet<Vec<u8>>) -> usize {
        let mut children: BTreeMap<&[u8], BTreeSet<u8>> = BTreeMap::new();
        for prefix in prefixes {
            for (at, byte) in prefix.iter().enumerate() {
                children.entry(&prefix[..at]).or_default().insert(*byte);
            }
        }
        children.values().map(|bytes| usize::from(bytes.last().unwrap() - bytes.first().unwrap()) + 1).sum()
    }

    #[test]
    fn the_slots_are_those_of_the_trie() {
        for (prefixes, slots) in [
            (&[&b""[..]][..], 0),
            (&[b"abc"], 3),
            (&[b"abc", b"ab", b"a", b""], 3),
            (&[b"abc", b"abd"], 4),
            (&[b"abc", b"abz"], 26),
            (&[b"\0", b"\xff"], 256),
            (&[b"\xff\xff", b"\xff\xff\xff", b"\xff\0"], 258),
            (&[b"a", b"c", b"b1"], 4),
        ] {
            let (mut ledger, mut of) = (Ledger::default(), Subscriptions::default());
            for prefix in prefixes {
                assert_eq!(ledger.add(&mut of, prefix), Addition::Passes);
            }
            assert_eq!(ledger.slots, slots, "{prefixes:?}");
        }
    }

    #[test]
    fn any_sequence_counts_as_in_a_plain_trie() {
        let mut random = 1_u32;
        let mut next = move || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            usize::try_from(random >> 16).unwrap()
        };
        let mut ledger = Ledger::default();
        let mut peers: [Subscriptions; 3] = std::array::from_fn(|_| Subscriptions::default());
        let mut kept: [BTreeSet<Vec<u8>>; 3] = std::array::from_fn(|_| BTreeSet::new());
        for _ in 0..5_000 {
            let who = next() % 3;
            let prefix: Vec<u8> = (0..next() % 5).map(|_| [0, 1, b'a', 254, 255][next() % 5]).collect();
            match next() % 40 {
                0 => {
                    ledger.remove_all(std::mem::take(&mut peers[who]));
                    kept[who].clear();
                }
                1..25 => {
                    let addition = ledger.add(&mut peers[who], &prefix);
                    assert_eq!(addition == Addition::Passes, kept[who].insert(prefix));
                }
                _ => assert_eq!(ledger.remove(&mut peers[who], &prefix), kept[who].remove(&prefix)),
            }
            assert_eq!(ledger.slots, slots_of(&kept.iter().flatten().cloned().collect()));
            assert_eq!(ledger.subscriptions, kept.iter().map(BTreeSet::len).sum::<usize>());
        }
        peers.into_iter().for_each(|of| ledger.remove_all(of));
        assert_eq!((ledger.slots, ledger.subscriptions, ledger.holders.len()), (0, 0, 0));
    }

    /// Subscribes to random prefixes of 1,000 bytes until one is refused. Returns how many passed.
    fn fill(ledger: &mut Ledger, of: &mut Subscriptions, seed: u8) -> usize {
        let prefix = |number: usize| {
            let mut prefix = vec![seed; 1_000];
            prefix[..8].copy_from_slice(&number.to_be_bytes());
            prefix
        };
        (0..).take_while(|number| ledger.add(of, &prefix(*number)) == Addition::Passes).count()
    }

    #[test]
    fn one_connection_leaves_room_for_others_and_each_has_a_first_subscription() {
        let mut ledger = Ledger::default();
        let [mut first, mut second, mut third] = std::array::from_fn(|_| Subscriptions::default());
        assert!(fill(&mut ledger, &mut first, 1) > 10);
        assert!(ledger.slots <= CONNECTION_SLOTS);
        assert!(fill(&mut ledger, &mut second, 2) > 10);
        assert!((SHARED_SLOTS - 2_000..=SHARED_SLOTS).contains(&ledger.slots));
        while ledger.slots < SHARED_SLOTS {
            let number = ledger.slots.to_string();
            assert_eq!(ledger.add(&mut third, number.as_bytes()), Addition::Passes);
        }
        let [mut late, mut greedy] = std::array::from_fn(|_| Subscriptions::default());
        assert_eq!(ledger.add(&mut late, b"core/exts/operate"), Addition::Passes);
        assert_eq!(ledger.add(&mut late, b"core/nodes/operate"), Addition::Refused);
        assert_eq!(ledger.add(&mut greedy, &[b'x'; FIRST_SLOTS + 1]), Addition::Refused);
        ledger.remove_all(first);
        assert_eq!(ledger.add(&mut late, b"core/nodes/operate"), Addition::Passes);
    }

    #[test]
    fn the_number_of_subscriptions_is_bounded_also_where_they_are_shared() {
        let mut ledger = Ledger::default();
        let mut peers: Vec<_> = (0..6).map(|_| Subscriptions::default()).collect();
        for of in &mut peers {
            for number in 0..=CONNECTION_PREFIXES as u16 {
                let _ = ledger.add(of, &number.to_be_bytes());
            }
        }
        let kept: Vec<_> = peers.iter().map(|of| of.prefixes.len()).collect();
        assert_eq!(kept, [&[CONNECTION_PREFIXES; 4][..], &[1; 2]].concat());
    }

    #[test]
    fn room_comes_once_half_of_the_bound_is_free_and_is_told_once() {
        let backlog = Backlog::default();
        backlog.add(BACKLOG_BYTES - 1);
        assert!(!backlog.is_full(false));
        backlog.add(1);
        assert!(backlog.is_full(false) && !backlog.is_full(true) && !backlog.has_room());
        assert!(!backlog.remove(BACKLOG_BYTES / 2 - 1));
        assert!(backlog.remove(1) && backlog.has_room());
        assert!(!backlog.remove(1));
        backlog.add(2 * BACKLOG_BYTES);
        assert!(backlog.is_full(true));
    }

    #[test]
    fn a_publisher_counts_for_the_pipe_that_libzmq_keeps_for_it() {
        const { assert!(PUBLISHER_BYTES > 256 * 64 * 2) };
    }
}
