//! What subscribers subscribe to and cancel while they leave and come back: a plain list tells who wants a topic.

use std::collections::BTreeSet;

use adapter_gateway::zmtp::{PlaceSet, Subscriptions};

/// The places of the subscribers: the first one, the last one, and two on both sides of a word's border.
const PLACES: [u8; 4] = [0, 63, 64, 255];
/// The longest prefix in bytes, before it is repeated.
const PREFIX_BYTES: usize = 15;

type Entry = (u8, Vec<u8>);

/// A step is a byte that says who does what, a byte with the length of a prefix, and the prefix. The prefix is the
/// topic that is looked up afterwards, too, alone and with what follows in the input.
pub(crate) fn subscriptions(mut input: &[u8]) {
    let (mut subscriptions, mut entries) = (Subscriptions::default(), BTreeSet::new());
    for _ in 0..200 {
        let Some((&[action, length], rest)) = input.split_first_chunk() else { break };
        let (prefix, rest) = rest.split_at(rest.len().min(usize::from(length) & PREFIX_BYTES));
        input = rest;
        // Long prefixes have long labels in common.
        let prefix = prefix.repeat(if length & 0x80 == 0 { 1 } else { 64 });
        take(&mut subscriptions, &mut entries, action, &prefix);

        let distinct: BTreeSet<_> = entries.iter().map(|(_, prefix)| prefix.clone()).collect();
        assert_eq!(subscriptions.prefixes(), distinct.len());
        let most = usize::from(length >> 4);
        assert!(subscriptions.first(most).iter().eq(distinct.iter().take(most)));
        for topic in [&prefix, &[&prefix, &input[..input.len().min(PREFIX_BYTES)]].concat()] {
            let mut wanting = PlaceSet::default();
            for (place, _) in entries.iter().filter(|(_, prefix)| topic.starts_with(prefix)) {
                wanting.insert(*place);
            }
            assert_eq!(subscriptions.matching(topic), wanting, "{topic:?} of {entries:?}");
        }
    }
    PLACES.iter().for_each(|place| subscriptions.leave(*place));
    assert_eq!((subscriptions.prefixes(), subscriptions.first(1)), (0, Vec::new()));
}

fn take(subscriptions: &mut Subscriptions, entries: &mut BTreeSet<Entry>, action: u8, prefix: &[u8]) {
    let place = PLACES[usize::from(action & 3)];
    let entry = (place, prefix.to_vec());
    match action >> 2 & 7 {
        0..4 => {
            entries.insert(entry);
            assert!(subscriptions.subscribe(place, prefix));
        }
        4..7 => {
            entries.remove(&entry);
            subscriptions.cancel(place, prefix);
        }
        _ => {
            entries.retain(|(of, _)| *of != place);
            subscriptions.leave(place);
        }
    }
}
