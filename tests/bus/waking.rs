//! Tests that the bus thread sleeps while there is nothing to do.

use std::fs;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, Unavailable};
use adapter_gateway::proto::Publish;

use crate::rig::{Hub, PATIENCE, TOPIC, connecting, eventually};

/// Returns the number of voluntary context switches of the thread with this id. Each time the thread wakes up adds one.
fn switches(task: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary")).unwrap();
    line.rsplit('\t').next().unwrap().parse().unwrap()
}

/// Starts a bus. Returns it with the id of its thread, on which the callback runs.
fn start_watched(hub: &Hub, config: BusConfig) -> (Bus, String) {
    let (sender, ids) = channel();
    let bus = Bus::start(config, move |_| {
        let id = fs::read_link("/proc/thread-self").unwrap();
        sender.send(id.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
    })
    .unwrap();
    let started = Instant::now();
    loop {
        hub.socket.get_events().unwrap();
        if let Ok(id) = ids.recv_timeout(Duration::from_millis(1)) {
            return (bus, id);
        }
        assert!(started.elapsed() < PATIENCE);
    }
}

/// Returns how often the thread wakes up within 300 ms. The test sleeps because it counts over a span of time.
fn switches_in_300_ms(task: &str) -> u64 {
    let before = switches(task);
    thread::sleep(Duration::from_millis(300));
    switches(task) - before
}

#[test]
fn an_idle_thread_never_wakes_up() {
    let hub = Hub::new();
    let (bus, id) = start_watched(&hub, connecting(&[&hub.url]));
    bus.publisher().publish(TOPIC, b"x".into()).unwrap();
    bus.publisher().wake();
    hub.receive().unwrap();
    // On an idle machine it parks within a millisecond after its last message.
    eventually("the thread stays parked", || switches_in_300_ms(&id) == 0);
}

#[test]
fn a_stalled_thread_does_not_spin() {
    let hub = Hub::at("tcp://127.0.0.1:*", 1);
    let mut config = connecting(&[&hub.url]);
    (config.queue_messages, config.pipe_messages) = (100, 2);
    let (bus, id) = start_watched(&hub, config);
    let publisher = bus.publisher();
    eventually("the bus is stalled", || {
        for _ in 0..100 {
            let _ = publisher.publish(TOPIC, (&[0; 65_536]).into());
        }
        publisher.wake();
        publisher.available() == Err(Unavailable::Stalled)
    });
    // The thread looks for room every 100 ms.
    eventually("the thread waits for room", || switches_in_300_ms(&id) <= 5);
}
