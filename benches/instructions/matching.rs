//! The bus thread looks up who wants a topic.

use std::hint::black_box;

use adapter_gateway::terms::limits::MAX_TOPIC_BYTES;
use adapter_gateway::zmtp::{MAX_SUBSCRIBERS, PlaceSet, Subscriptions};
use gungraun::{library_benchmark, library_benchmark_group};

library_benchmark_group!(name = matches, benchmarks = [match_topic]);

/// A topic of 30 bytes.
const TOPIC: &[u8] = b"adapter/nodes/data/living-room";

#[library_benchmark(setup = subscribed)]
#[bench::prefixes_1000(thousand_prefixes(), TOPIC.to_vec(), 1)]
#[bench::prefixes_of_each_length(prefixes_of_each_length(), vec![b'a'; MAX_TOPIC_BYTES], MAX_SUBSCRIBERS)]
fn match_topic((subscriptions, topic): (Subscriptions, Vec<u8>)) -> (PlaceSet, Subscriptions, Vec<u8>) {
    (subscriptions.matching(black_box(&topic)), subscriptions, topic)
}

/// Lets a subscriber at each place in turn subscribe, and looks the topic up once.
fn subscribed(prefixes: Vec<Vec<u8>>, topic: Vec<u8>, wanted_by: usize) -> (Subscriptions, Vec<u8>) {
    let mut subscriptions = Subscriptions::default();
    for (prefix, place) in prefixes.into_iter().zip((0..=u8::MAX).cycle()) {
        assert!(subscriptions.subscribe(place, &prefix));
    }
    assert_eq!(subscriptions.matching(&topic).len(), wanted_by);
    (subscriptions, topic)
}

/// One of them is the topic.
fn thousand_prefixes() -> Vec<Vec<u8>> {
    let others = (1..1_000).map(|number| format!("adapter/nodes/data/{number}").into_bytes());
    others.chain([TOPIC.to_vec()]).collect()
}

fn prefixes_of_each_length() -> Vec<Vec<u8>> {
    (1..=MAX_TOPIC_BYTES).map(|length| vec![b'a'; length]).collect()
}
