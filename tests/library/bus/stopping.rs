//! Tests that a stop hands over what was accepted, and keeps its deadline.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, Unavailable};
use adapter_gateway::message::publish::Publish;

use super::rig::{Hub, PATIENCE, Running, TOPIC, connecting, eventually, number_in, receive, start};
use crate::lateness::Lateness;

#[test]
fn stop_under_load_delivers_everything_accepted() {
    let hub = Hub::new();
    let running = start(connecting(&[&hub.url]));
    running.expect_connected(&hub);
    let Running { bus, publisher, .. } = running;
    let receiver = thread::spawn(move || {
        let mut count = 0u64;
        while receive(&hub.socket, Duration::from_secs(1)).is_some() {
            count += 1;
        }
        count
    });
    let producers: Vec<_> = (0..3)
        .map(|_| {
            let publisher = publisher.clone();
            thread::spawn(move || {
                let mut accepted = 0u64;
                loop {
                    match publisher.publish(TOPIC, (&[7; 100]).into()) {
                        Ok(()) => accepted += 1,
                        Err(Unavailable::Stopping) => return accepted,
                        Err(_) => thread::yield_now(),
                    }
                    publisher.wake();
                }
            })
        })
        .collect();
    eventually("the bus is under load", || bus.counters().published > 20_000);
    let totals = bus.stop(PATIENCE);
    let accepted: u64 = producers.into_iter().map(|producer| producer.join().unwrap()).sum();
    assert_eq!((totals.accepted, totals.published, totals.queue.depth), (accepted, accepted, 0));
    assert_eq!(receiver.join().unwrap(), accepted);
}

#[test]
fn stop_with_a_stalled_subscriber_keeps_its_deadline_and_counts_the_undelivered() {
    const DEADLINE: Duration = Duration::from_millis(300);
    let hub = Hub::at("tcp://127.0.0.1:*", 1);
    let mut config = connecting(&[&hub.url]);
    config.queue_messages = 50;
    config.pipe_messages = 1;
    let running = start(config);
    running.expect_connected(&hub);
    let (accepted, _) = running.publish_until_refused(0, 65_536);
    let (lateness, started) = (Lateness::watch(), Instant::now());
    let totals = running.bus.stop(DEADLINE);
    lateness.assert_took(started.elapsed(), DEADLINE + Duration::from_millis(300));
    assert_eq!((totals.accepted, totals.published), (u64::from(accepted), totals.accepted - totals.queue.depth));
    // The queue held 50 messages, and the kernel may have taken some of them late.
    assert!((1..=50).contains(&totals.queue.depth), "{totals:?}");
    // What is counted as undelivered does not arrive. libzmq drops what is in its pipe at the deadline.
    let mut received = 0;
    while let Some(payload) = receive(&hub.socket, Duration::from_millis(500)) {
        assert_eq!(number_in(&payload), received);
        received += 1;
    }
    assert!(received > 0 && u64::from(received) <= totals.published, "{received} of {totals:?}");
    assert_eq!(running.publisher.publish(TOPIC, b"".into()), Err(Unavailable::Stopping));
}

#[test]
fn stop_without_any_hub_is_immediate() {
    let running = start(connecting(&["tcp://127.0.0.1:9"]));
    let (lateness, started) = (Lateness::watch(), Instant::now());
    let totals = running.bus.stop(PATIENCE);
    lateness.assert_took(started.elapsed(), Duration::from_secs(1));
    assert_eq!((totals.accepted, totals.queue.depth), (0, 0));
}

#[test]
fn a_bus_that_is_dropped_gives_its_port_back() {
    let bind = |endpoint: &str| BusConfig { bind: vec![endpoint.parse().unwrap()], ..BusConfig::default() };
    let bus = Bus::start(bind("tcp://127.0.0.1:*"), |_| {}).unwrap();
    let endpoint = bus.counters().endpoints[0].endpoint.clone();
    drop(bus);
    let started = Instant::now();
    while let Err(error) = Bus::start(bind(endpoint.as_str()), |_| {}) {
        assert!(started.elapsed() < PATIENCE, "{error}");
        thread::yield_now();
    }
}

/// A thread that never comes back stands for one that waits for libzmq.
#[test]
fn a_bus_whose_thread_never_ends_is_left_behind() {
    const DEADLINE: Duration = Duration::from_millis(300);
    let hub = Hub::new();
    let (entered, called) = channel();
    let (_never, wait) = channel::<()>();
    let bus = Bus::start(connecting(&[&hub.url]), move |_event| {
        entered.send(()).unwrap();
        assert!(wait.recv().is_err());
    });
    let bus = bus.unwrap();
    eventually("the callback", || {
        hub.socket.get_events().unwrap();
        called.try_recv().is_ok()
    });
    let publisher = bus.publisher();
    publisher.publish(TOPIC, b"{}".into()).unwrap();
    let started = Instant::now();
    let totals = bus.stop(DEADLINE);
    assert_eq!((totals.accepted, totals.published, totals.queue.depth), (1, 0, 1));
    drop(bus);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    assert_eq!(publisher.publish(TOPIC, b"{}".into()), Err(Unavailable::Stopping));
}
