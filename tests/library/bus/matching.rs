//! Tests of what counts first: a subscription that has arrived, or a message that is posted after it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use adapter_gateway::bus::{Bus, BusConfig, BusEvent};
use adapter_gateway::message::publish::Publish;

use crate::support::peer::cancel;
use crate::support::{Form, PATIENCE, RawPeer, handshake, subscribe, temporary_endpoint};

/// The bus thread is held up between two turns, so what is sent meanwhile has surely arrived before what is posted.
#[test]
fn a_subscription_that_has_arrived_counts_before_what_is_posted_after_it() {
    let (_directory, endpoint) = temporary_endpoint();
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
    let mut subscriber = RawPeer::speaking(&endpoint, "SUB");
    let subscribe = |prefix: &str| subscribe(Form::Message, prefix.as_bytes());

    // What one turn reads of a peer, and a peer that says everything at once.
    let many: Vec<_> = (0..2_000).flat_map(|number| subscribe(&number.to_string())).collect();
    for (number, is_new, before) in [(0, false, &[][..]), (1, false, &many), (2, true, &[])] {
        post(&format!("nobody/{number}"));
        is_reached.recv_timeout(PATIENCE).unwrap();
        if is_new {
            subscriber = RawPeer::connect(&endpoint);
            subscriber.send_all(&handshake("SUB").concat());
        }
        let topic = format!("late/{number}");
        subscriber.send_all(&[before, &subscribe(&topic)].concat());
        post(&topic);
        go_on.send(()).unwrap();
        if is_new {
            subscriber.receive_greeting();
        }
        assert_eq!(subscriber.receive_message(), [topic.as_bytes(), b"x"]);
    }
    assert_eq!(bus.counters().subscribers.unsubscribed, Some(3));
}

/// A peer that never rests wakes the thread out of its wait, so that some messages are posted between what the wait has
/// told of and what is taken behind it.
#[test]
fn a_subscription_that_arrives_while_the_thread_waits_counts_too() {
    let (_directory, endpoint) = temporary_endpoint();
    let config = BusConfig { bind: vec![endpoint.parse().unwrap()], ..BusConfig::default() };
    let bus = Bus::start(config, |_| {}).unwrap();
    let publisher = bus.publisher();
    let (mut subscriber, mut restless) = (RawPeer::speaking(&endpoint, "SUB"), RawPeer::speaking(&endpoint, "SUB"));
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                restless.round_trip();
            }
        });
        for number in 0..40_000_u32 {
            let topic = number.to_string();
            subscriber.send_all(&subscribe(Form::Command, topic.as_bytes()));
            publisher.publish(&topic, b"x".into()).unwrap();
            publisher.wake();
            let is_there = subscriber.is_readable_within(PATIENCE);
            is_over.store(!is_there, Ordering::Relaxed);
            assert!(is_there, "{topic} is lost");
            assert_eq!(subscriber.receive_message(), [topic.as_bytes(), b"x"]);
            subscriber.send_all(&cancel(Form::Command, topic.as_bytes()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
