//! Tests of what counts first: a subscription that has arrived, or a message that is posted after it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;

use adapter_gateway::bus::{Bus, BusConfig, BusEvent};
use adapter_gateway::message::publish::Publish;

use super::rig::PATIENCE;

/// The greeting and the READY of a subscriber of ZMTP 3.0 (RFC 23).
fn handshake() -> Vec<u8> {
    let mut greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL".to_vec();
    greeting.resize(64, 0);
    [&greeting, &b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB"[..]].concat()
}

fn subscribe(prefix: &str) -> Vec<u8> {
    [&[0, u8::try_from(1 + prefix.len()).unwrap(), 1], prefix.as_bytes()].concat()
}

/// The bus thread is held up between two turns, so what is sent meanwhile has surely arrived before what is posted.
#[test]
fn a_subscription_that_has_arrived_counts_before_what_is_posted_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = format!("ipc://{}/bus", directory.path().display());
    let (reached, is_reached) = channel();
    let (go_on, may_go_on) = channel();
    let config = BusConfig { bind: vec![endpoint.parse().unwrap()], ..BusConfig::default() };
    let bus = Bus::start(config, move |event| {
        if matches!(event, BusEvent::Unsubscribed { .. }) {
            reached.send(()).unwrap();
            may_go_on.recv_timeout(PATIENCE).unwrap();
        }
    })
    .unwrap();
    let publisher = bus.publisher();
    let post = |topic: &str| {
        publisher.publish(topic, b"x".into()).unwrap();
        publisher.wake();
    };
    let connect = || {
        let peer = UnixStream::connect(endpoint.strip_prefix("ipc://").unwrap()).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer
    };
    let mut subscriber = connect();
    subscriber.write_all(&handshake()).unwrap();
    let mut answer = vec![0; 64 + 2];
    subscriber.read_exact(&mut answer).unwrap();
    answer.resize(answer.len() + usize::from(answer[65]), 0);
    subscriber.read_exact(&mut answer[66..]).unwrap();

    // What one turn reads of a peer, and a peer that says everything at once.
    let many = (0..2_000).map(|number| subscribe(&format!("{number}"))).collect::<Vec<_>>().concat();
    for (number, is_new, before) in [(0, false, &[][..]), (1, false, &many), (2, true, &[])] {
        post(&format!("nobody/{number}"));
        is_reached.recv_timeout(PATIENCE).unwrap();
        if is_new {
            subscriber = connect();
            subscriber.write_all(&handshake()).unwrap();
        }
        let topic = format!("late/{number}");
        subscriber.write_all(&[before, &subscribe(&topic)].concat()).unwrap();
        post(&topic);
        go_on.send(()).unwrap();
        let expected = [&[1, u8::try_from(topic.len()).unwrap()], topic.as_bytes(), b"\0\x01x"].concat();
        let mut received = vec![0; if is_new { answer.len() } else { 0 } + expected.len()];
        subscriber.read_exact(&mut received).unwrap();
        assert!(received.ends_with(&expected), "{topic}");
    }
    assert_eq!(bus.counters().subscribers.unsubscribed, Some(3));
}
