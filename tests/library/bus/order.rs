//! Tests that every message arrives once and in order.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::BusConfig;
use adapter_gateway::message::publish::Publish;

use super::rig::{Hub, PATIENCE, TOPIC, connecting, eventually, number_in, receive, start};

#[test]
fn the_messages_of_each_producer_arrive_in_order_and_none_is_lost() {
    const EACH: u32 = 50_000;
    let hub = Hub::new();
    let running = start(connecting(&[&hub.url]));
    running.expect_connected(&hub);
    thread::scope(|scope| {
        for producer in 0..4 {
            let publisher = running.publisher.clone();
            scope.spawn(move || {
                for number in 0..EACH {
                    let payload = (producer << 24 | number).to_le_bytes();
                    while publisher.publish(TOPIC, (&payload).into()).is_err() {
                        publisher.wake();
                        thread::yield_now();
                    }
                    publisher.wake();
                }
            });
        }
        let mut next = HashMap::new();
        for _ in 0..4 * EACH {
            let tagged = number_in(&hub.receive().expect("lost"));
            let expected = next.entry(tagged >> 24).or_insert(0);
            assert_eq!(tagged & 0xff_ffff, *expected);
            *expected += 1;
        }
    });
    let totals = running.bus.stop(PATIENCE);
    assert_eq!((totals.accepted, totals.published), (200_000, 200_000));
}

#[test]
fn two_hubs_receive_every_message_once_at_the_pace_of_the_slower_one() {
    for slow_is_first in [false, true] {
        let (fast, slow) = (Hub::new(), Hub::at("tcp://127.0.0.1:*", 10));
        let urls = if slow_is_first { [&slow.url, &fast.url] } else { [&fast.url, &slow.url] };
        let mut config = connecting(&urls.map(String::as_str));
        config.queue_messages = 50;
        config.pipe_messages = 10;
        let running = start(config);
        let both = [running.expect_connected_of(&[&fast, &slow]), running.expect_connected_of(&[&fast, &slow])];
        assert_ne!(both[0], both[1]);
        let (accepted, _) = running.publish_until_refused(0, 8_192);
        for number in 0..accepted {
            assert_eq!(number_in(&slow.receive().expect("lost")), number);
        }
        for number in 0..accepted {
            assert_eq!(number_in(&fast.receive().expect("lost")), number);
        }
        assert!(receive(&fast.socket, Duration::from_millis(50)).is_none());
        assert!(receive(&slow.socket, Duration::from_millis(50)).is_none());
    }
}

#[test]
fn a_late_subscriber_of_a_bound_endpoint_receives_what_follows() {
    let bind = vec!["tcp://127.0.0.1:*".parse().unwrap()];
    let running = start(BusConfig { bind, ..BusConfig::default() });
    assert_eq!(running.publisher.available(), Ok(()));
    running.publish(0); // nobody has subscribed yet
    eventually("the message is published", || running.bus.counters().published == 1);

    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.set_subscribe(TOPIC.as_bytes()).unwrap();
    let url = running.bus.counters().endpoints[0].endpoint.clone();
    socket.connect(url.as_str()).unwrap();
    let started = Instant::now();
    let mut number = 1;
    let first = loop {
        running.publish(number);
        if let Some(payload) = receive(&socket, Duration::from_millis(5)) {
            break number_in(&payload);
        }
        number += 1;
        assert!(started.elapsed() < PATIENCE);
    };
    for following in first + 1..=number {
        assert_eq!(number_in(&receive(&socket, PATIENCE).unwrap()), following);
    }
}
