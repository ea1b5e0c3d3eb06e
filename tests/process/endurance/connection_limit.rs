//! More clients than connections are allowed: the connected clients are served, and the others wait.

use super::{assert_idle, take_all_descriptors};
use crate::support::*;

const NO_ANSWER_TIMEOUT: Duration = Duration::from_millis(300);

/// Connects a client and sends a request, whether the gateway accepts the connection or not.
fn connect_and_request(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway.address());
    assert!(client.try_send(gateway.request(FINE).bytes()));
    client
}

/// Waits up to `timeout` for an answer. Returns whether it came.
fn is_answered(client: &mut Client, timeout: Duration) -> bool {
    let mut answer = [0; 12];
    let bytes = client.read(&mut answer, timeout).expect("the connection stays open");
    assert!(bytes == 0 || &answer == b"HTTP/1.1 200");
    bytes > 0
}

fn assert_none_answered<'c>(clients: impl IntoIterator<Item = &'c mut Client>) {
    std::thread::sleep(NO_ANSWER_TIMEOUT);
    assert!(!clients.into_iter().any(|client| is_answered(client, Duration::from_millis(1))));
}

fn wait_answered(client: &mut Client) {
    wait_until("an answer", || is_answered(client, NO_ANSWER_TIMEOUT));
}

#[test]
fn with_max_connections_5_the_sixth_client_waits_until_another_leaves() {
    let mut gateway = Gateway::serve().arguments(["--max-connections", "5"]).start();
    let mut connected: Vec<_> = (0..5).map(|_| gateway.served_client()).collect();
    let (mut sixth, mut seventh) = (connect_and_request(&gateway), connect_and_request(&gateway));
    assert_none_answered([&mut sixth, &mut seventh]);
    assert_idle(&gateway, "while two clients wait");
    gateway.serve_each(&mut connected);
    connected.pop();
    wait_answered(&mut sixth);
    assert_none_answered([&mut seventh]);
    // Clients that leave while they wait take no place.
    (0..20).for_each(|_| connect_and_request(&gateway).reset());
    connected.pop();
    wait_answered(&mut seventh);
    let mut last = connect_and_request(&gateway);
    assert_none_answered([&mut last]);
    connected.pop();
    wait_answered(&mut last);
    drop((last, connected, sixth, seventh));
    gateway.wait_count("connections", 0);
}

#[test]
fn connections_are_limited_below_the_limit_of_descriptors() {
    // Each further worker has descriptors of its own, which no connection can use.
    for (workers, limit) in [("1", 88), ("9", 32)] {
        let mut gateway = Gateway::serve().after("ulimit -n 160").arguments(["--workers", workers]).start();
        let mut connected: Vec<_> = (0..limit).map(|_| gateway.served_client()).collect();
        let mut others: Vec<_> = (0..16).map(|_| connect_and_request(&gateway)).collect();
        assert_none_answered(&mut others);
        gateway.serve_each(&mut connected);
        assert_idle(&gateway, "while other clients wait");
        connected.truncate(limit - others.len());
        others.iter_mut().for_each(wait_answered);
        let stderr = gateway.stop().stderr;
        let expected = format!("at most {limit} connections, since the limit of descriptors is 160");
        assert!(stderr.contains(&expected), "{stderr}");
        assert!(!stderr.contains("cannot accept"), "{stderr}");
    }
}

/// The limit of connections cannot foresee that the limit of descriptors is lowered later, or that the whole system has
/// no descriptor left.
#[test]
fn without_free_descriptors_the_gateway_pauses_says_so_once_and_serves_again() {
    let mut gateway = Gateway::serve().start();
    let (mut connected, former_limit) = take_all_descriptors(&gateway);
    let mut others: Vec<_> = (0..5).map(|_| connect_and_request(&gateway)).collect();
    assert_none_answered(&mut others);
    assert_idle(&gateway, "while no descriptor is free");
    gateway.serve_each(&mut connected);
    connected.pop();
    wait_answered(&mut others[0]);
    limit_descriptors(gateway.id(), former_limit);
    others[1..].iter_mut().for_each(wait_answered);
    let stderr = gateway.stop().stderr;
    let count = stderr.lines().filter(|line| line.contains("cannot accept connections for now")).count();
    assert!((1..=2).contains(&count), "there must be one line for each shortage: {stderr}");
}
