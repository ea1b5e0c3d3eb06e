use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::zmtp::MAX_SUBSCRIBERS;

impl Subscriptions {
    /// Returns about how many bytes of memory the subscriptions take.
    fn held_bytes(&self) -> usize {
        let edge_bytes: usize =
            self.nodes.iter().map(|(_, node)| node.label.len() + size_of::<(u8, NodeNumber)>()).sum();
        self.nodes.capacity() * size_of::<Node>() + edge_bytes + self.total * size_of::<NodeNumber>()
    }

    /// Panics if the tree has a node that it does not need, or a wrong edge or count.
    fn check(&self) {
        let mut prefixes = 0;
        for (number, node) in &self.nodes {
            let number = number as NodeNumber;
            prefixes += usize::from(!node.subscribers.is_empty());
            assert!(node.children.is_sorted_by(|one, next| one.0 < next.0));
            for (byte, child) in &node.children {
                assert_eq!(
                    (self.nodes.get(*child as usize).unwrap().parent, node.child(*byte)),
                    (number, Some(*child))
                );
            }
            if number != ROOT {
                assert!(!node.subscribers.is_empty() || node.children.len() > 1, "{node:?}");
                assert!(
                    self.nodes.get(node.parent as usize).unwrap().children.iter().any(|(_, child)| *child == number)
                );
            }
        }
        let total = self.subscribers.values().map(BTreeSet::len).sum();
        assert_eq!((self.prefixes, self.total), (prefixes, total));
    }
}

fn subscriptions(of: &[(u8, &[u8])]) -> Subscriptions {
    let mut subscriptions = Subscriptions::default();
    for (place, prefix) in of {
        assert!(subscriptions.subscribe(*place, prefix));
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
    let subscriptions = subscriptions(&[(0, b""), (1, b"core/"), (2, b"core/exts"), (255, b"core/ext"), (4, b"\0")]);
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
        assert!(subscriptions.subscribe(0, prefix.as_bytes()));
    }
    subscriptions.to_string()
}

#[test]
fn the_log_is_bounded_and_escaped() {
    let (long, cut) = ("é".repeat(51), "é".repeat(50));
    assert_eq!(shown(&["", "a\n\x1b\"", &long]), format!(r#"3: "", "a\n\u{{1b}}\"", "{cut}…""#));

    let names: Vec<_> = (0..SHOWN_PREFIXES + 5).map(|number| number.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert!(shown(&names).ends_with(", and 5 more"), "{}", shown(&names));
    assert!(shown(&names[..SHOWN_PREFIXES]).ends_with(r#", "9""#));
}

#[test]
fn a_prefix_counts_once_for_a_subscriber_and_once_in_the_number_of_prefixes() {
    let mut subscriptions = subscriptions(&[(0, b"a"), (1, b"a"), (1, b"")]);
    assert!(subscriptions.subscribe(0, b"a"));
    assert_eq!((subscriptions.total, subscriptions.first(9)), (3, vec![b"".to_vec(), b"a".to_vec()]));
    [&b"a"[..], b"a", b"ab"].iter().for_each(|prefix| subscriptions.cancel(0, prefix));
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
        accepted.push(prefixes.filter(|it| subscriptions.subscribe(place, &it.to_be_bytes())).count());
    }
    assert_eq!(accepted, [&[CONNECTION_PREFIXES; 4][..], &[1; 2]].concat());
    assert_eq!(subscriptions.prefixes(), CONNECTION_PREFIXES);
    assert!(subscriptions.subscribe(0, &[0, 0]), "a known one is no new one");
    subscriptions.leave(1);
    assert!(subscriptions.subscribe(last, &[0, 1]));
    assert!(!subscriptions.subscribe(0, &[9; 9]));
    (0..=CONNECTION_PREFIXES as u16).for_each(|it| _ = subscriptions.subscribe(last, &it.to_be_bytes()));
    assert_eq!(subscriptions.total, SHARED_PREFIXES);
}

#[test]
fn no_prefix_is_longer_than_a_topic() {
    let (mut subscriptions, prefix) = (Subscriptions::default(), [b't'; MAX_TOPIC_BYTES + 1]);
    assert!(!subscriptions.subscribe(0, &prefix));
    assert!(subscriptions.subscribe(0, &prefix[1..]));
    assert!(!subscriptions.subscribe(0, &prefix));
    subscriptions.cancel(0, &prefix);
    assert_eq!(subscriptions.prefixes(), 1);
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
            assert!(subscriptions.subscribe(number as u8 % 4, &kind(number)));
        }
        let of_all = subscriptions.held_bytes() * (SHARED_PREFIXES / CONNECTION_PREFIXES);
        assert!(of_all < 30_000_000, "{of_all}");
        (0..4).for_each(|place| subscriptions.leave(place));
        subscriptions.check();
        assert!(subscriptions.held_bytes() < 1_000, "{}", subscriptions.held_bytes());
    }
}

#[test]
fn a_tree_has_a_node_for_each_prefix_and_one_where_several_part() {
    for (prefixes, nodes) in [
        (&[][..], 1),
        (&[&b""[..]], 1),
        (&[b"abc"], 2),
        (&[b"abc", b"abc"], 2),
        (&[b"abc", b"ab"], 3),
        (&[b"ab", b"abc"], 3),
        (&[b"abc", b"abd"], 4),
        (&[b"abc", b"abd", b"ab"], 4),
        (&[b"abc", b"a", b"abd"], 5),
        (&[b"a", b"b", b"c"], 4),
        (&[b"\0\xff", b"\0\0", b"\xff"], 5),
    ] {
        let mut subscriptions = Subscriptions::default();
        prefixes.iter().for_each(|prefix| assert!(subscriptions.subscribe(0, prefix)));
        subscriptions.check();
        assert_eq!(subscriptions.nodes.len(), nodes, "{prefixes:?}");
    }
}

#[test]
fn a_number_leads_to_its_prefix_whatever_is_split_and_joined() {
    let prefixes = [&b"abcdef"[..], b"abcxyz", b"abc", b"", b"abcdefgh", b"a", b"abcd"];
    let mut subscriptions = Subscriptions::default();
    let numbers = prefixes.map(|prefix| {
        assert!(subscriptions.subscribe(0, prefix));
        subscriptions.find(prefix).0
    });
    for (removed, last) in prefixes.iter().enumerate() {
        for (prefix, number) in prefixes.iter().zip(numbers).skip(removed) {
            assert_eq!(subscriptions.find(prefix), (number, &[][..]));
        }
        subscriptions.cancel(0, last);
        subscriptions.check();
    }
    assert_eq!(subscriptions.nodes.len(), 1);
}

#[test]
fn the_end_of_a_prefix_removes_what_stands_for_no_other() {
    let mut subscriptions = subscriptions(&[(0, b"abcd"), (0, b"abxy"), (0, b"ab"), (1, b"abcd")]);
    for (place, prefix, nodes) in [(0, &b"abcd"[..], 4), (0, b"ab", 4), (1, b"abcd", 2), (0, b"abxy", 1)] {
        subscriptions.cancel(place, prefix);
        subscriptions.check();
        assert_eq!(subscriptions.nodes.len(), nodes);
    }
}

#[test]
fn memory_comes_back() {
    let mut subscriptions = Subscriptions::default();
    let empty_bytes = subscriptions.held_bytes();
    (0..4_096_u16).for_each(|number| assert!(subscriptions.subscribe(0, &number.to_be_bytes().repeat(500))));
    assert!(subscriptions.held_bytes() > 4_000_000);
    subscriptions.leave(0);
    subscriptions.check();
    assert!(subscriptions.held_bytes() <= empty_bytes);
    assert_eq!(subscriptions.nodes.get(ROOT as usize).unwrap().children.capacity(), 0);
}

/// Short prefixes of few bytes, so that many are beginnings of each other.
fn prefix() -> impl Strategy<Value = Vec<u8>> {
    vec(prop::sample::select(&[0, b'a', b'b', 255][..]), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// `tests/library/properties/subscribers.rs` compares what each step returns, and who wants a topic after it.
    #[test]
    fn any_steps_leave_a_tree_of_no_more_than_it_needs(
        steps in vec((0..12, prop::sample::select(&[0, 1, 64, 255][..]), prefix()), 0..120),
    ) {
        let mut subscriptions = Subscriptions::default();
        for (action, place, prefix) in steps {
            match action {
                0..6 => prop_assert!(subscriptions.subscribe(place, &prefix)),
                6..11 => subscriptions.cancel(place, &prefix),
                _ => subscriptions.leave(place),
            }
            subscriptions.check();
        }
    }
}
