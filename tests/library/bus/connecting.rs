//! Tests when a hub counts as connected.

use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, BusEvent, Received, Subscriber};
use adapter_gateway::message::publish::Publish;

use super::rig::{Hub, PATIENCE, connecting, eventually, number_in, start};

#[test]
fn the_first_message_after_connected_arrives() {
    for number in 0..50 {
        let hub = Hub::new();
        let running = start(connecting(&[&hub.url]));
        assert_eq!(running.expect_connected(&hub).as_str(), hub.url);
        assert_eq!(running.publisher.available(), Ok(()));
        running.publish(number);
        assert_eq!(number_in(&hub.receive().unwrap()), number);
    }
}

#[test]
fn a_hub_over_ipc_receives_messages() {
    let directory = tempfile::tempdir().unwrap();
    let hub = Hub::at(&format!("ipc://{}/hub", directory.path().display()), 0);
    let running = start(connecting(&[&hub.url]));
    running.expect_connected(&hub);
    running.publish(7);
    assert_eq!(number_in(&hub.receive().unwrap()), 7);
}

/// A libzmq that was built without TCP keep-alive accepts its options without an error, so the kernel is asked.
#[test]
fn the_kernel_probes_a_silent_connection() {
    let hub = Hub::new();
    let running = start(connecting(&[&hub.url]));
    running.expect_connected(&hub);
    let port: u16 = hub.url.rsplit(':').next().unwrap().parse().unwrap();
    let to_hub = format!("0100007F:{port:04X}");
    eventually("the connection has a keep-alive timer", || {
        // The second field is the peer and the fifth the timer; 02 is keep-alive (proc_net_tcp.rst of the kernel).
        let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
        connections.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
            fields.get(2).is_some_and(|peer| *peer == to_hub)
                && fields.get(5).is_some_and(|timer| timer.starts_with("02:"))
        })
    });
}

#[test]
fn a_hub_without_a_subscription_counts_as_connected_after_the_grace() {
    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let url = socket.get_last_endpoint().unwrap().unwrap();
    let started = Instant::now();
    let running = start(connecting(&[&url]));
    let event = running.events.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("Connected did not come: {error}"));
    assert!(matches!(event, BusEvent::Connected { .. }), "{event:?}");
    assert!(started.elapsed() >= Duration::from_millis(250));
    running.publish(1); // libzmq drops it, since nobody has subscribed
    eventually("the message is published", || running.bus.counters().published == 1);
}

#[test]
fn a_hub_is_served_while_another_is_down() {
    let (up, down) = (Hub::new(), Hub::new());
    let down_url = down.url.clone();
    drop(down);
    let running = start(connecting(&[&down_url, &up.url]));
    assert_eq!(running.expect_connected(&up).as_str(), up.url);
    assert!(!running.publisher.reaches_all());
    running.publish(1);
    assert_eq!(number_in(&up.receive().unwrap()), 1);

    let down = Hub::at(&down_url, 0);
    assert_eq!(running.expect_connected(&down).as_str(), down_url);
    assert!(running.publisher.reaches_all());
    for number in 2..1_000 {
        running.publish(number);
    }
    for number in 2..1_000 {
        assert_eq!(number_in(&up.receive().unwrap()), number);
        assert_eq!(number_in(&down.receive().unwrap()), number);
    }
}

#[test]
fn the_subscribers_of_every_bound_endpoint_receive_messages() {
    let directory = tempfile::tempdir().unwrap();
    let [first, last] = ["first", "last"].map(|name| format!("ipc://{}/{name}", directory.path().display()));
    let bind = [&*first, "tcp://127.0.0.1:*", &*last].map(|endpoint| endpoint.parse().unwrap()).to_vec();
    let running = start(BusConfig { bind, ..BusConfig::default() });
    let counters = || running.bus.counters().subscribers;
    let endpoints = running.bus.counters().endpoints.into_iter().map(|counters| counters.endpoint);
    // The bus counts distinct topic prefixes.
    let mut subscribers: Vec<_> = endpoints
        .zip(["a", "ad", "ada"])
        .map(|(endpoint, topic)| Subscriber::connect(&[endpoint], &[topic.to_owned()]).unwrap())
        .collect();
    eventually("all have subscribed", || counters().subscriptions == Some(3));
    running.publish(1);
    for subscriber in &mut subscribers {
        let Some(Received::Message { payload, .. }) = subscriber.recv(PATIENCE) else { panic!("no message") };
        assert_eq!(number_in(&payload), 1);
    }
    for _ in 0..2 {
        running.publisher.publish("core/exts/operate", b"{}".into()).unwrap();
    }
    running.publisher.wake();
    eventually("the other messages are sent", || running.bus.counters().published == 3);
    assert_eq!(counters().unsubscribed, Some(2));
}

#[test]
fn the_error_of_a_port_in_use_names_the_endpoint() {
    let first = Hub::new();
    let bind = vec![first.url.parse().unwrap()];
    let error = Bus::start(BusConfig { bind, ..BusConfig::default() }, |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&first.url) && text.contains("in use"), "{text}");
}

#[test]
fn the_error_of_an_unknown_interface_says_so() {
    let bind = vec!["tcp://nowhere0:16103".parse().unwrap()];
    let error = Bus::start(BusConfig { bind, ..BusConfig::default() }, |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("tcp://nowhere0:16103") && text.contains("no interface"), "{text}");
}

/// The documents say so where they describe what encryption with CURVE would need.
#[test]
fn the_bundled_libzmq_has_no_curve() {
    assert_eq!(zmq::has("curve"), Some(false));
}
