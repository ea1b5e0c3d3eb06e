//! Who wants a topic: what the subscribers of all bound endpoints subscribe to, within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::place_set::PlaceSet;
use super::prefix_tree::{NodeNumber, PrefixTree};
use crate::terms::limits::MAX_TOPIC_BYTES;

/// Most prefixes of one subscriber. An adapter has some hundred. Besides its bytes, a prefix takes some 200 bytes.
pub const CONNECTION_PREFIXES: usize = 4_800;

/// Most prefixes of all subscribers together, where one that several have counts several times, and the first one of
/// each does not count. Prefixes of the greatest length take some 25 MB.
pub const SHARED_PREFIXES: usize = 4 * CONNECTION_PREFIXES;

/// The most prefixes that the log shows, and the most characters of each.
const SHOWN_PREFIXES: usize = 20;
const SHOWN_CHARS: usize = 64;

/// A subscription is beyond [`MAX_TOPIC_BYTES`], [`CONNECTION_PREFIXES`] or [`SHARED_PREFIXES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionFault;

/// What the subscribers at all places subscribe to. The same prefix twice of one subscriber counts once, and one
/// cancellation removes it, as in libzmq's XPUB socket.
#[derive(Debug, Default)]
pub struct Subscriptions {
    tree: PrefixTree,
    /// The nodes of the prefixes of each subscriber. An empty set takes no memory of its own.
    subscribers: BTreeMap<u8, BTreeSet<NodeNumber>>,
    /// The sum of the lengths of these sets.
    total: usize,
}

impl Subscriptions {
    /// Subscribes the subscriber at `place` to all topics that begin with `prefix`. Returns whether it did not
    /// subscribe to that prefix yet. Whatever others subscribe to, its first prefix is accepted.
    ///
    /// # Errors
    /// Returns a fault, and changes nothing, if the prefix is beyond a bound.
    pub fn subscribe(&mut self, place: u8, prefix: &[u8]) -> Result<bool, SubscriptionFault> {
        let found = self.tree.find(prefix);
        let of = self.subscribers.entry(place).or_default();
        if found.1.is_empty() && of.contains(&found.0) {
            return Ok(false);
        }
        let is_within_bounds = of.len() < CONNECTION_PREFIXES && self.total < SHARED_PREFIXES;
        if prefix.len() > MAX_TOPIC_BYTES || !is_within_bounds && !of.is_empty() {
            return Err(SubscriptionFault);
        }
        of.insert(self.tree.insert(place, found));
        self.total += 1;
        Ok(true)
    }

    /// Ends a subscription. Returns whether the subscriber at `place` had it.
    pub fn cancel(&mut self, place: u8, prefix: &[u8]) -> bool {
        let (number, rest) = self.tree.find(prefix);
        let has = rest.is_empty() && self.subscribers.get_mut(&place).is_some_and(|of| of.remove(&number));
        if has {
            self.tree.remove(place, number);
            self.total -= 1;
        }
        has
    }

    /// Ends all subscriptions of the subscriber at `place`, and costs work for these alone.
    pub fn leave(&mut self, place: u8) {
        let of = self.subscribers.remove(&place).unwrap_or_default();
        self.total -= of.len();
        of.into_iter().for_each(|number| self.tree.remove(place, number));
    }

    /// Returns who subscribes to a beginning of the topic.
    pub fn matching(&self, topic: &[u8]) -> PlaceSet {
        self.tree.matching(topic)
    }

    /// Returns whether somebody asks for the topic by a beginning of it. Who takes everything, as a person who looks
    /// does, asks for no topic.
    pub fn ask_for(&self, topic: &[u8]) -> bool {
        self.tree.names(topic)
    }

    /// Returns whether somebody subscribes to everything.
    pub fn have_everything(&self) -> bool {
        !self.matching(b"").is_empty()
    }

    /// Returns the number of prefixes, where one that several subscribers have counts once.
    pub fn prefixes(&self) -> usize {
        self.tree.prefixes
    }

    /// Returns about how many bytes of memory the subscriptions take.
    pub fn held_bytes(&self) -> usize {
        self.tree.held_bytes() + self.total * size_of::<NodeNumber>()
    }

    /// Returns the first `most` prefixes in ascending order, each once.
    pub fn first(&self, most: usize) -> Vec<Vec<u8>> {
        self.tree.first(most)
    }
}

/// Lists the prefixes for the log, escaped and cut.
impl fmt::Display for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.prefixes();
        write!(f, "{total}")?;
        for (number, prefix) in self.first(SHOWN_PREFIXES).iter().enumerate() {
            let prefix = String::from_utf8_lossy(prefix);
            let shown: String = prefix.chars().take(SHOWN_CHARS).collect();
            let cut = if shown.len() < prefix.len() { "…" } else { "" };
            let separator = if number == 0 { ": " } else { ", " };
            write!(f, "{separator}\"{}{cut}\"", shown.escape_debug())?;
        }
        if total > SHOWN_PREFIXES {
            write!(f, ", and {} more", total - SHOWN_PREFIXES)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::zmtp::MAX_SUBSCRIBERS;

    fn subscriptions(of: &[(u8, &[u8])]) -> Subscriptions {
        let mut subscriptions = Subscriptions::default();
        for (place, prefix) in of {
            assert_eq!(subscriptions.subscribe(*place, prefix), Ok(true));
        }
        subscriptions
    }

    fn places(set: PlaceSet) -> Vec<u8> {
        set.iter().collect()
    }

    #[test]
    fn who_takes_everything_asks_for_no_topic() {
        let mut subscriptions = subscriptions(&[(0, b""), (1, b"core/"), (0, b"core/exts")]);
        for (topic, asked) in [(&b"core/exts/x"[..], true), (b"core/", true), (b"core", false), (b"", false)] {
            assert_eq!(subscriptions.ask_for(topic), asked, "{topic:?}");
        }
        assert!(subscriptions.have_everything());
        subscriptions.leave(0);
        assert!(!subscriptions.have_everything() && subscriptions.ask_for(b"core/x"));
    }

    #[test]
    fn a_topic_goes_to_those_that_subscribe_to_a_beginning_of_it() {
        let subscriptions =
            subscriptions(&[(0, b""), (1, b"core/"), (2, b"core/exts"), (255, b"core/ext"), (4, b"\0")]);
        for (topic, wanted_by) in [
            (&b""[..], &[0][..]),
            (b"c", &[0]),
            (b"core", &[0]),
            (b"core/", &[0, 1]),
            (b"core/ext", &[0, 1, 255]),
            (b"core/exts/operate", &[0, 1, 2, 255]),
            (b"core/nodes", &[0, 1]),
            (b"\0\0", &[0, 4]),
            (b"\xff", &[0]),
        ] {
            assert_eq!(places(subscriptions.matching(topic)), wanted_by, "{topic:?}");
        }
    }

    fn shown(prefixes: &[&str]) -> String {
        let mut subscriptions = Subscriptions::default();
        for prefix in prefixes {
            assert!(subscriptions.subscribe(0, prefix.as_bytes()).unwrap());
        }
        subscriptions.to_string()
    }

    #[test]
    fn the_log_is_bounded_and_escaped() {
        let long = "é".repeat(SHOWN_CHARS + 1);
        let cut = "é".repeat(SHOWN_CHARS);
        assert_eq!(shown(&["", "a\n\x1b\"", &long]), format!(r#"3: "", "a\n\u{{1b}}\"", "{cut}…""#));

        let names: Vec<_> = (0..SHOWN_PREFIXES + 5).map(|number| number.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert!(shown(&names).ends_with(", and 5 more"), "{}", shown(&names));
        assert!(shown(&names[..SHOWN_PREFIXES]).ends_with(r#", "9""#));
    }

    #[test]
    fn a_prefix_counts_once_for_a_subscriber_and_once_in_the_number_of_prefixes() {
        let mut subscriptions = subscriptions(&[(0, b"a"), (1, b"a"), (1, b"")]);
        assert_eq!(subscriptions.subscribe(0, b"a"), Ok(false));
        assert_eq!((subscriptions.prefixes(), subscriptions.first(9)), (2, vec![b"".to_vec(), b"a".to_vec()]));
        assert!(subscriptions.cancel(0, b"a") && !subscriptions.cancel(0, b"a") && !subscriptions.cancel(0, b"ab"));
        assert_eq!((subscriptions.prefixes(), places(subscriptions.matching(b"a"))), (2, vec![1]));
        subscriptions.leave(1);
        subscriptions.leave(9);
        assert_eq!((subscriptions.prefixes(), subscriptions.total), (0, 0));
    }

    #[test]
    fn the_first_prefixes_are_in_order_and_not_more_than_asked_for() {
        let subscriptions = subscriptions(&[(0, b"b"), (1, b"abc"), (1, b"\xff"), (2, b"abd"), (2, b"a"), (3, b"")]);
        let all = [&b""[..], b"a", b"abc", b"abd", b"b", b"\xff"];
        for most in 0..8 {
            assert_eq!(subscriptions.first(most), all[..most.min(all.len())]);
        }
    }

    #[test]
    fn prefixes_are_bounded_for_each_subscriber_and_for_all_and_each_has_a_first_one() {
        let mut subscriptions = Subscriptions::default();
        let last = (MAX_SUBSCRIBERS - 1) as u8;
        let mut accepted = Vec::new();
        for place in (0..5).chain([last]) {
            let prefixes = 0..=CONNECTION_PREFIXES as u16;
            accepted.push(prefixes.filter(|it| subscriptions.subscribe(place, &it.to_be_bytes()) == Ok(true)).count());
        }
        assert_eq!(accepted, [&[CONNECTION_PREFIXES; 4][..], &[1; 2]].concat());
        assert_eq!(subscriptions.prefixes(), CONNECTION_PREFIXES);
        assert_eq!(subscriptions.subscribe(0, &[0, 0]), Ok(false), "a known one is no new one");
        subscriptions.leave(1);
        assert_eq!(subscriptions.subscribe(last, &[0, 1]), Ok(true));
        assert_eq!(subscriptions.subscribe(0, &[9; 9]), Err(SubscriptionFault));
    }

    #[test]
    fn no_prefix_is_longer_than_a_topic() {
        let (mut subscriptions, prefix) = (Subscriptions::default(), [b't'; MAX_TOPIC_BYTES + 1]);
        assert_eq!(subscriptions.subscribe(0, &prefix), Err(SubscriptionFault));
        assert_eq!(subscriptions.subscribe(0, &prefix[1..]), Ok(true));
        assert_eq!(subscriptions.subscribe(0, &prefix), Err(SubscriptionFault));
        assert!(!subscriptions.cancel(0, &prefix) && subscriptions.cancel(0, &prefix[1..]));
    }

    #[test]
    fn memory_is_bounded_for_prefixes_of_any_kind_and_comes_back() {
        let mut random = 1_u32;
        let mut next = move || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        };
        let noise: Vec<u8> = (0..1_024 * 64).map(|_| next()).collect();
        let at = |number: usize| number * 3 % (1_023 * 64);
        // Random ones, ones with a long common beginning, and ones that are beginnings of each other.
        let kinds: [&dyn Fn(usize) -> Vec<u8>; 3] = [
            &|number| noise[at(number)..][..1_024].to_vec(),
            &|number| [&noise[..1_020], &(number as u32).to_be_bytes()].concat(),
            &|number| [&noise[number / 1_024..][..1], &noise[..number % 1_024]].concat(),
        ];
        for kind in kinds {
            let mut subscriptions = Subscriptions::default();
            for number in 0..CONNECTION_PREFIXES {
                assert!(subscriptions.subscribe(number as u8 % 4, &kind(number)).is_ok());
            }
            let of_all = subscriptions.held_bytes() * (SHARED_PREFIXES / CONNECTION_PREFIXES);
            assert!(of_all < 30_000_000, "{of_all}");
            (0..4).for_each(|place| subscriptions.leave(place));
            subscriptions.tree.check();
            assert!(subscriptions.held_bytes() < 1_000, "{}", subscriptions.held_bytes());
        }
    }

    /// One step of a subscriber.
    #[derive(Clone, Debug)]
    enum Step {
        Subscribe(u8, Vec<u8>),
        Cancel(u8, Vec<u8>),
        Leave(u8),
    }

    /// Short prefixes of few bytes, so that many are beginnings of each other.
    fn prefix() -> impl Strategy<Value = Vec<u8>> {
        vec(prop::sample::select(&[0, b'a', b'b', 255][..]), 0..6)
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = || prop::sample::select(&[0, 1, 64, 255][..]);
        prop_oneof![
            6 => (place(), prefix()).prop_map(|(place, prefix)| Step::Subscribe(place, prefix)),
            5 => (place(), prefix()).prop_map(|(place, prefix)| Step::Cancel(place, prefix)),
            1 => place().prop_map(Step::Leave),
        ]
    }

    /// Takes a step in a plain model, and returns whether it changed something.
    fn take(model: &mut Vec<(u8, Vec<u8>)>, step: &Step) -> bool {
        let before = model.len();
        match step {
            Step::Subscribe(place, prefix) => {
                let new = (*place, prefix.clone());
                if !model.contains(&new) {
                    model.push(new);
                }
            }
            Step::Cancel(place, prefix) => model.retain(|(of, kept)| (of, kept) != (place, prefix)),
            Step::Leave(place) => model.retain(|(of, _)| of != place),
        }
        model.len() != before
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_steps_have_the_result_of_a_plain_list(steps in vec(step(), 0..120), topics in vec(prefix(), 8)) {
            let (mut subscriptions, mut model) = (Subscriptions::default(), Vec::new());
            for step in &steps {
                let changes = take(&mut model, step);
                match step {
                    Step::Subscribe(place, prefix) => {
                        prop_assert_eq!(subscriptions.subscribe(*place, prefix), Ok(changes));
                    }
                    Step::Cancel(place, prefix) => prop_assert_eq!(subscriptions.cancel(*place, prefix), changes),
                    Step::Leave(place) => subscriptions.leave(*place),
                }
                subscriptions.tree.check();
                let prefixes: BTreeSet<_> = model.iter().map(|(_, prefix)| prefix.clone()).collect();
                prop_assert_eq!((subscriptions.prefixes(), subscriptions.total), (prefixes.len(), model.len()));
                prop_assert_eq!(subscriptions.first(usize::MAX), Vec::from_iter(prefixes));
                for topic in &topics {
                    let wanting = model.iter().filter(|(_, prefix)| topic.starts_with(prefix)).map(|(place, _)| *place);
                    let wanting: BTreeSet<_> = wanting.collect();
                    prop_assert_eq!(places(subscriptions.matching(topic)), Vec::from_iter(wanting));
                }
            }
        }
    }
}
