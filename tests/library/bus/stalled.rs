//! Tests that a subscriber that does not read stops the publishers, and loses nothing.

use adapter_gateway::bus::Unavailable;
use adapter_gateway::message::publish::Publish;

use super::rig::{Hub, PATIENCE, connecting, eventually, number_in, start};

#[test]
fn a_stalled_subscriber_stops_the_publisher_and_loses_nothing() {
    let hub = Hub::at("tcp://127.0.0.1:*", 10);
    let mut config = connecting(&[&hub.url]);
    config.queue_messages = 100;
    config.pipe_messages = 10;
    let running = start(config);
    running.expect_connected(&hub);
    let (accepted, why) = running.publish_until_refused(0, 8_192);
    assert_eq!(why, Unavailable::Stalled);
    assert_eq!(running.publisher.available(), Err(Unavailable::Stalled));
    let counters = running.bus.counters();
    assert_eq!((counters.queue.depth, counters.queue.high_water), (100, 100));
    assert!(counters.queue.pipe_full >= 1);

    for number in 0..accepted {
        assert_eq!(number_in(&hub.receive().expect("lost")), number);
    }
    eventually("there is room again", || running.publisher.available().is_ok());
    running.publish(accepted);
    assert_eq!(number_in(&hub.receive().unwrap()), accepted);
    let totals = running.bus.stop(PATIENCE);
    assert_eq!((totals.published, totals.queue.depth), (u64::from(accepted) + 1, 0));
}

#[test]
fn the_queue_is_bounded_in_bytes() {
    const MIB: usize = 1 << 20;
    let hub = Hub::at("tcp://127.0.0.1:*", 1);
    let mut config = connecting(&[&hub.url]);
    config.queue_bytes = 8 * MIB;
    config.pipe_messages = 1;
    let running = start(config);
    running.expect_connected(&hub);
    let (_, why) = running.publish_until_refused(0, MIB);
    assert_eq!(why, Unavailable::Stalled);
    let counters = running.bus.counters();
    assert!(counters.queue.bytes <= 8 * MIB && counters.queue.depth == 7, "{counters:?}");
}
