//! Tests of what the hubs get that the bus connects to.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread;
use std::time::Duration;

use adapter_gateway::bus::Unavailable;
use adapter_gateway::message::publish::Publish;

use super::rig::{Hub, Running, TOPIC, connecting, number_in, receive, start};
use crate::support::{PATIENCE, eventually};

/// Four producers publish as fast as they can until the bus stops.
#[test]
fn the_messages_of_each_producer_arrive_in_order_and_a_stop_loses_none() {
    const PRODUCERS: u32 = 4;
    let hub = Hub::new();
    let running = start(connecting(&[&hub.url]));
    running.expect_connected(&hub);
    let Running { bus, publisher, .. } = running;
    let receiving = thread::spawn(move || {
        let mut next = BTreeMap::new();
        while let Some(payload) = receive(&hub.socket, Duration::from_secs(1)) {
            let tagged = number_in(&payload);
            let expected = next.entry(tagged >> 24).or_insert(0);
            assert_eq!(tagged & 0xff_ffff, *expected);
            *expected += 1;
        }
        next
    });
    let producing = [0, 1, 2, 3].map(|producer: u32| {
        let publisher = publisher.clone();
        thread::spawn(move || {
            let mut accepted = 0;
            loop {
                match publisher.publish(TOPIC, (&(producer << 24 | accepted).to_le_bytes()).into()) {
                    Ok(()) => accepted += 1,
                    Err(Unavailable::Stopping) => return accepted,
                    Err(_) => thread::yield_now(),
                }
                publisher.wake();
            }
        })
    });
    eventually("the bus is under load", || (bus.counters().published > 50_000 * u64::from(PRODUCERS)).then_some(()));
    let totals = bus.stop(PATIENCE);
    let accepted: BTreeMap<_, _> = (0..).zip(producing.map(|producing| producing.join().unwrap())).collect();
    let sum = accepted.values().map(|accepted| u64::from(*accepted)).sum();
    assert_eq!((totals.accepted, totals.published, totals.queue.depth), (sum, sum, 0));
    assert_eq!(receiving.join().unwrap(), accepted);
}

/// One of them is there later than the other, which is served meanwhile.
#[test]
fn two_hubs_receive_every_message_once_at_the_pace_of_the_slower_one() {
    for slow_is_first in [false, true] {
        let (fast, slow) = (Hub::new(), Hub::new());
        let slow_url = slow.url.clone();
        drop(slow);
        let urls = if slow_is_first { [&slow_url, &fast.url] } else { [&fast.url, &slow_url] };
        let mut config = connecting(&urls.map(String::as_str));
        config.limits.queue_messages = NonZero::new(50).unwrap();
        config.pipe_messages = NonZero::new(10).unwrap();
        let running = start(config);
        assert_eq!(running.expect_connected(&fast).as_str(), fast.url);
        assert!(!running.publisher.reaches_all());
        running.publish(0);
        assert_eq!(number_in(&fast.receive().unwrap()), 0);

        let slow = Hub::at(&slow_url, 10);
        assert_eq!(running.expect_connected(&slow).as_str(), slow_url);
        assert!(running.publisher.reaches_all());
        let accepted = running.publish_until_stalled(1, 8_192);
        for hub in [&slow, &fast] {
            for number in 1..accepted {
                assert_eq!(number_in(&hub.receive().expect("lost")), number);
            }
            assert!(receive(&hub.socket, Duration::from_millis(50)).is_none());
        }
    }
}

/// The documents say so where they describe what encryption with CURVE would need.
#[test]
fn the_bundled_libzmq_has_no_curve() {
    assert_eq!(zmq::has("curve"), Some(false));
}
