//! Strangers at the ports of the bus: they connect and are silent. HTTP is served meanwhile, and subscribers afterwards.

use std::time::Duration;

use crate::endurance::assert_idle;
use crate::statuses::FINE;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::net::dead_endpoint;
use crate::support::peer::RawPeer;
use crate::support::subscriber::{Message, Subscriber, ipc_endpoint};
use crate::support::usage::{descriptors, highest_descriptor, limit_descriptors, raise_descriptors};

/// More than the limit of descriptors permits.
const STRANGERS: usize = 320;

/// Connects strangers that send nothing.
fn connect_strangers(endpoint: &str) -> Vec<RawPeer> {
    (0..STRANGERS).map(|_| RawPeer::connect(endpoint)).collect()
}

/// Checks that HTTP answers at once and that no thread loops, while strangers are connected and after they have left.
fn serves_beside(mut strangers: Vec<RawPeer>, gateway: &Gateway) {
    let last = strangers.last_mut().unwrap();
    eventually("the last stranger is greeted or refused", || last.is_readable_within(Duration::ZERO).then_some(()));
    let mut clients: Vec<_> = (0..20).map(|_| gateway.client()).collect();
    gateway.serve_each(&mut clients);
    assert!(!last.is_ended(), "HTTP answered only after the last stranger had left");
    assert_idle(gateway, "while strangers are connected");
    for stranger in &mut strangers {
        stranger.read_to_end();
    }
    gateway.post(FINE).assert_accepted();
}

#[test]
fn silent_strangers_at_a_bound_endpoint_hold_nothing_up() {
    raise_descriptors();
    let endpoint = dead_endpoint();
    let mut gateway = Gateway::serve().bind(&endpoint).after("ulimit -n 300").start();
    let strangers = connect_strangers(&endpoint);
    serves_beside(strangers, &gateway);
    gateway.expect_log("the bus ends the oldest connection that does not speak");
    assert!(gateway.stats()["peers"]["refused"].as_u64().unwrap() > 0);
    Subscriber::connected(&endpoint, "").wait_until_subscribed(&gateway);
    gateway.terminate();
}

#[test]
fn one_peer_more_than_the_bound_is_refused() {
    const PEERS: usize = 256;
    raise_descriptors();
    let endpoint = dead_endpoint();
    let mut gateway = Gateway::serve().bind(&endpoint).start();
    let context = zmq::Context::new();
    let mut peers: Vec<_> = (0..PEERS).map(|_| context.socket(zmq::SUB).unwrap()).collect();
    for (number, peer) in peers.iter().enumerate() {
        peer.set_subscribe(number.to_string().as_bytes()).unwrap();
        peer.connect(&endpoint).unwrap();
    }
    eventually("all peers are connected", || (gateway.stats()["subscriptions"] == PEERS).then_some(()));
    let newcomer = context.socket(zmq::SUB).unwrap();
    newcomer.set_subscribe(b"newcomer").unwrap();
    newcomer.connect(&endpoint).unwrap();
    eventually("the newcomer is refused", || (gateway.stats()["peers"]["refused"] != 0).then_some(()));
    gateway.expect_log("the bus refuses peers: as many as it may have are connected");
    assert_eq!(gateway.stats()["subscriptions"], PEERS);
    drop(peers.pop());
    // libzmq tries again until there is a place.
    eventually("a place is free", || {
        gateway.post(Message::new("newcomer", "{}").body()).assert_accepted();
        (newcomer.poll(zmq::POLLIN, 50).unwrap() > 0).then_some(())
    });
    gateway.terminate();
}

#[test]
fn silent_strangers_at_both_sides_of_the_hub_hold_nothing_up() {
    raise_descriptors();
    let sides = [dead_endpoint(), dead_endpoint()];
    let mut gateway = Gateway::serve().only_hub(&sides[0], &sides[1]).after("ulimit -n 300").start_ready();
    for endpoint in &sides {
        serves_beside(connect_strangers(endpoint), &gateway);
    }
    let subscriber = Subscriber::connected(&sides[1], "");
    subscriber.wait_until_subscribed(&gateway);
    let publisher = zmq::Context::new().socket(zmq::PUB).unwrap();
    publisher.connect(&sides[0]).unwrap();
    eventually("the message of another publisher", || {
        publisher.send_multipart(["topic", "{}"], 0).unwrap();
        subscriber.next_within(Duration::from_millis(20))
    });
    gateway.signal(rustix::process::Signal::TERM);
    gateway.finish(0);
}

#[test]
fn strangers_that_speak_http_are_disconnected_and_the_log_says_it_once() {
    let endpoint = dead_endpoint();
    let gateway = Gateway::serve().bind(&endpoint).start();
    for _ in 0..5 {
        let mut stranger = RawPeer::connect(&endpoint);
        stranger.send_all(b"GET / HTTP/1.1\r\n\r\n");
        stranger.read_to_end();
    }
    gateway.expect_log("does not speak ZMTP 3");
    assert_eq!(gateway.log().matches("does not speak ZMTP 3").count(), 1);
}

/// The bound on peers cannot foresee that the limit of descriptors is lowered later, or that the whole system has no
/// descriptor left. libzmq itself would end the process at an ipc endpoint, and loop at a tcp endpoint.
#[test]
fn without_free_descriptors_strangers_are_refused_and_others_served() {
    raise_descriptors();
    let directory = tempfile::tempdir().unwrap();
    let (endpoint, path) = (dead_endpoint(), ipc_endpoint(&directory));
    let mut gateway = Gateway::serve().bind(&endpoint).bind(&path).start();
    let subscriber = Subscriber::connected(&endpoint, "");
    subscriber.wait_until_subscribed(&gateway);
    // The first client stands for at least one request, also where no number below the highest is free.
    let mut clients = vec![gateway.client()];
    clients[0].exchange(&gateway.request(FINE)).assert_accepted();
    subscriber.next();
    let limit = highest_descriptor(gateway.id()) + 1;
    clients.extend((descriptors(gateway.id())..limit).map(|_| gateway.client()));
    for client in &mut clients {
        client.exchange(&gateway.request(FINE)).assert_accepted();
        subscriber.next();
    }
    let former_limit = limit_descriptors(gateway.id(), limit as u64);
    for _ in 0..5 {
        let strangers = [&endpoint, &endpoint, &path].map(|endpoint| RawPeer::connect(endpoint));
        for mut stranger in strangers {
            stranger.read_to_end();
        }
    }
    assert_idle(&gateway, "while no descriptor is free");
    clients[0].exchange(&gateway.request(Message::new("t", r#"{"n":1}"#).body())).assert_accepted();
    assert_eq!(subscriber.next(), Message::new("t", r#"{"n":1}"#));
    limit_descriptors(gateway.id(), former_limit);
    let later = Subscriber::connected(&path, "");
    later.wait_until_subscribed(&gateway);
    gateway.terminate();
}
