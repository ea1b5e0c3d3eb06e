//! Tests that the bus notices a lost hub, and serves a hub that comes back.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{BusEvent, Unavailable};
use adapter_gateway::message::publish::Publish;

use super::rig::{Hub, PATIENCE, TOPIC, connecting, number_in, start};
use crate::lateness::Lateness;

/// The greeting of ZMTP 3.0 with the mechanism NULL.
const GREETING: [u8; 64] = {
    let mut greeting = [0; 64];
    greeting.split_at_mut(16).0.copy_from_slice(b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL");
    greeting
};

#[test]
fn a_hub_that_comes_back_is_served_again() {
    let hub = Hub::new();
    let url = hub.url.clone();
    let running = start(connecting(&[&url]));
    running.expect_connected(&hub);
    running.publish(1);
    assert_eq!(number_in(&hub.receive().unwrap()), 1);
    drop(hub);
    // Messages that are accepted before the loss is noticed arrive at the next hub, except for those that the kernel
    // has accepted for the dead hub. So nothing is published before the loss is noticed.
    running.expect_disconnected();
    assert_eq!(running.publisher.available(), Err(Unavailable::NotConnected));
    assert_eq!(running.publisher.publish(TOPIC, b"x".into()), Err(Unavailable::NotConnected));

    let (lateness, back_since) = (Lateness::watch(), Instant::now());
    let hub = Hub::at(&url, 0);
    running.expect_connected(&hub);
    lateness.assert_took(back_since.elapsed(), Duration::from_secs(2));
    running.publish(2);
    assert_eq!(number_in(&hub.receive().unwrap()), 2);
    assert_eq!(running.bus.counters().endpoints[0].reconnects, 1);
}

#[test]
fn messages_that_wait_for_a_stalled_hub_survive_its_death() {
    let hub = Hub::at("tcp://127.0.0.1:*", 10);
    let url = hub.url.clone();
    let mut config = connecting(&[&url]);
    config.queue_messages = 100;
    config.pipe_messages = 50;
    let running = start(config);
    running.expect_connected(&hub);
    let (accepted, _) = running.publish_until_refused(0, 8_192);
    drop(hub);
    running.expect_disconnected();

    let hub = Hub::at(&url, 0);
    running.expect_connected(&hub);
    let first = number_in(&hub.receive().unwrap());
    for number in first + 1..accepted {
        assert_eq!(number_in(&hub.receive().expect("lost")), number);
    }
    // The queue held 100 messages. Of the 50 in the pipe, at least the half above its low-water mark arrived too.
    assert!(accepted - first >= 100 + 25, "{first} of {accepted}");
}

#[test]
fn other_hubs_are_served_while_one_is_lost() {
    const MESSAGES: u32 = 1_000;
    let (lost, served) = (Hub::new(), Hub::new());
    let mut config = connecting(&[&lost.url, &served.url]);
    config.pipe_messages = 10;
    let running = start(config);
    for _ in 0..2 {
        running.expect_connected_of(&[&lost, &served]);
    }
    drop(lost);
    running.expect_disconnected();
    for number in 0..MESSAGES {
        running.publish(number);
    }
    for number in 0..MESSAGES {
        assert_eq!(number_in(&served.receive().expect("lost")), number);
    }
}

#[test]
fn a_peer_that_closes_each_connection_is_reported_once() {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", peer.local_addr().unwrap());
    let running = start(connecting(&[&url]));
    for _ in 0..5 {
        let (mut connection, _) = peer.accept().unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.write_all(&GREETING).unwrap();
        connection.write_all(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB").unwrap();
        // The handshake of the other side has ended.
        connection.read_exact(&mut [0; 64 + 2 + 25]).unwrap();
    }
    drop(peer);
    let hub = Hub::at(&url, 0);
    let mut reasons = Vec::new();
    let started = Instant::now();
    loop {
        hub.socket.get_events().unwrap();
        match running.events.recv_timeout(Duration::from_millis(1)) {
            Ok(BusEvent::Connected { .. }) => break,
            Ok(BusEvent::Disconnected { reason, .. }) => reasons.push(reason),
            Ok(event @ (BusEvent::LostSubscriber(_) | BusEvent::Unsubscribed { .. })) => {
                panic!("{event:?} instead of Connected")
            }
            Err(_) => assert!(started.elapsed() < PATIENCE, "never connected"),
        }
    }
    assert!(!reasons.is_empty());
    assert!(reasons.windows(2).all(|both| both[0] != both[1]), "{reasons:?}");
}

/// A program that is no hub listens on the port first. libzmq never connects to such an endpoint again by itself.
#[test]
fn the_bus_connects_again_after_a_protocol_error() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", stranger.local_addr().unwrap());
    let running = start(connecting(&[&url]));
    let (mut connection, _) = stranger.accept().unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    // The frame after the greeting is no handshake command.
    connection.write_all(&GREETING).unwrap();
    connection.write_all(b"\x04\x05\x04JUNK").unwrap();
    let mut sink = Vec::new();
    let _ = connection.read_to_end(&mut sink);
    drop((connection, stranger));

    let hub = Hub::at(&url, 0);
    running.expect_connected(&hub);
    running.publish(1);
    assert_eq!(number_in(&hub.receive().unwrap()), 1);
}
