//! Tests of what arrives: at the hubs that the bus connects to, at subscribers that come while messages are posted, and at the
//! subscriber of `listen`.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, BusEvent, HubEndpoints, LinkStatus, NotConnected, Received, Subscriber};
use adapter_gateway::message::publish::Publish;

use super::{Hub, any_port, connecting, hub, number_in, receive, start, wait_for_subscriber};
use crate::support::net::dead_endpoint;
use crate::support::peer::cancel;
use crate::support::{
    Form, PATIENCE, RawPeer, bound_socket, eventually, handshake, socket, subscribe, temporary_endpoint,
};

/// One of them is there later than the other, which is served meanwhile.
#[test]
fn two_hubs_receive_every_message_once_at_the_pace_of_the_slower_one() {
    for slow_is_first in [false, true] {
        let (fast, slow_url) = (Hub::new(), Hub::new().url);
        let urls = if slow_is_first { [&slow_url, &fast.url] } else { [&fast.url, &slow_url] };
        let mut config = connecting(&urls.map(String::as_str));
        config.limits.queue_messages = NonZero::new(50).unwrap();
        config.pipe_messages = NonZero::new(10).unwrap();
        let running = start(config);
        assert_eq!(running.expect_connected(&fast).0.as_str(), fast.url);
        assert!(!running.publisher.reaches_all());
        running.publish(0, 0).unwrap();
        assert_eq!(number_in(&receive(&fast.socket, PATIENCE).unwrap()), 0);

        let slow = Hub::at(&slow_url, 10);
        assert_eq!(running.expect_connected(&slow).0.as_str(), slow_url);
        assert!(running.publisher.reaches_all());
        let accepted = running.publish_until_stalled(1, 8_192);
        for hub in [&slow, &fast] {
            for number in 1..accepted {
                assert_eq!(number_in(&receive(&hub.socket, PATIENCE).expect("lost")), number);
            }
            assert!(receive(&hub.socket, Duration::from_millis(50)).is_none());
        }
    }
}

/// Messages would go round. What the program compares at the start is the address as it is written.
#[test]
fn the_hub_of_the_bus_itself_is_not_connected() {
    let own = dead_endpoint();
    let hub = Some(HubEndpoints { publishers: own.parse().unwrap(), subscribers: any_port() });
    let running = start(BusConfig { hub, ..connecting(&[&own]) });
    let subscriber = socket(zmq::SUB);
    subscriber.connect(running.subscribers_side().as_str()).unwrap();
    wait_for_subscriber(&running.bus);
    let (event, _) = running.events.recv_timeout(PATIENCE).unwrap();
    assert_eq!(event, BusEvent::Link(own.parse().unwrap(), Err(NotConnected::Own)));
    (0..3).for_each(|number| running.publish(number, 0).unwrap());
    (0..3).for_each(|number| assert_eq!(number_in(&receive(&subscriber, PATIENCE).unwrap()), number));
    // Nothing is due at this endpoint any more.
    assert!(running.events.recv_timeout(Duration::from_millis(1_500)).is_err());
    assert!(receive(&subscriber, Duration::ZERO).is_none());
    assert_eq!(running.bus.stop(PATIENCE).hub.unwrap().forwarded, 0.into());
}

/// On a busy machine, to look the name up may take so long that the hub counts as silent first.
#[test]
fn a_hub_with_a_name_is_connected_as_soon_as_the_name_is_looked_up() {
    let hub = Hub::new();
    let url = hub.url.replace("127.0.0.1", "localhost");
    eventually("the first event is that it is connected", || {
        let first = start(connecting(&[&url])).events.recv();
        matches!(first, Ok((BusEvent::Link(_, Ok(())), _))).then_some(())
    });
}

/// The documents say so where they describe what encryption with CURVE would need.
#[test]
fn the_bundled_libzmq_has_no_curve() {
    assert_eq!(zmq::has("curve"), Some(false));
}

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
    let running = start(BusConfig { bind: vec![endpoint.parse().unwrap()], ..BusConfig::default() });
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
            running.publisher.publish(&topic, b"x".into()).unwrap();
            running.publisher.wake();
            let is_there = subscriber.is_readable_within(PATIENCE);
            is_over.store(!is_there, Ordering::Relaxed);
            assert!(is_there, "{topic} is lost");
            assert_eq!(subscriber.receive_message(), [topic.as_bytes(), b"x"]);
            subscriber.send_all(&cancel(Form::Command, topic.as_bytes()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn number(received: Option<Received>) -> u32 {
    match received {
        Some(Received::Message { payload, .. }) => number_in(&payload),
        other => panic!("{other:?} instead of a message"),
    }
}

#[test]
fn a_message_of_another_shape_is_reported() {
    let (socket, url) = bound_socket(zmq::PUB, "tcp://127.0.0.1:*");
    let mut subscriber = Subscriber::connect(&[url.parse().unwrap()], &[], |_, _| {}).unwrap();
    eventually("a message arrives", || {
        socket.send_multipart(["a", "b", "c"], 0).unwrap();
        let received = subscriber.recv(Some(Instant::now() + Duration::from_millis(5)));
        assert!(matches!(received, None | Some(Received::Malformed { frames: 3 })), "{received:?}");
        received
    });
}

/// The subscriber reads as slowly as a terminal.
#[test]
fn the_loss_of_a_hub_is_reported_before_its_last_message() {
    const MESSAGES: u32 = 20_000;
    let running = hub(MESSAGES as usize);
    let (sender, losses) = channel();
    let on_status = move |_: &_, status: &LinkStatus| {
        if status.is_err() {
            sender.send(()).unwrap();
        }
    };
    let mut subscriber = Subscriber::connect(&[running.subscribers_side().clone()], &[], on_status).unwrap();
    wait_for_subscriber(&running.bus);
    (0..MESSAGES).for_each(|number| running.publish(number, 0).unwrap());
    assert_eq!(number(subscriber.recv(Some(Instant::now() + PATIENCE))), 0);
    running.bus.stop(PATIENCE);
    let mut read = 1;
    while losses.try_recv().is_err() {
        assert_eq!(number(subscriber.recv(Some(Instant::now() + PATIENCE))), read);
        read += 1;
        thread::sleep(Duration::from_millis(1));
    }
    assert!(read < MESSAGES);
}
