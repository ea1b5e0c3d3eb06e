//! The stop: every request in flight gets an answer. `delivery::stopping` has what becomes of the messages.

use rustix::process::Signal;

use crate::support::{FINE, Fixture, Gateway, assert_answered_during_a_stop, free_address, refuses};

#[test]
fn a_request_in_flight_is_answered_and_then_its_connection_is_closed() {
    let Fixture { mut gateway, subscriber: bus } = Fixture::of(Gateway::serve().listen(free_address()));
    let idle = gateway.served_client();
    bus.next();

    let slow = gateway.client();
    assert_answered_during_a_stop(&gateway, &bus, [idle, slow], || {
        assert!(refuses(gateway.address()), "the drain has begun");
    });
    assert_eq!(gateway.expect_stopped().accepted, 2);
}

/// It does not matter whether the gateway had read that byte before the signal: here it finds both when it continues.
#[test]
fn a_request_whose_first_byte_came_before_the_signal_is_answered() {
    let mut gateway = Gateway::serve().start();
    let request = gateway.request(FINE);
    let mut clients: Vec<_> = (0..50).map(|_| gateway.client()).collect();
    clients.iter_mut().for_each(|client| client.exchange(&request).assert_accepted());
    let mut idle = clients.pop().unwrap();
    let bytes = request.bytes();
    let cut = |number| bytes.split_at(1 + number % (bytes.len() - 1));
    let (begun, rest): (Vec<_>, Vec<_>) = (0..clients.len()).map(cut).unzip();
    gateway.signal(Signal::STOP);
    clients.iter_mut().zip(begun).for_each(|(client, begun)| client.send(begun));
    gateway.signal(Signal::TERM);
    gateway.signal(Signal::CONT);
    idle.expect_close();
    for (mut client, rest) in clients.into_iter().zip(rest) {
        client.send(rest);
        client.expect_last(200);
    }
    gateway.expect_stopped();
}

#[test]
fn a_client_that_never_finishes_its_request_does_not_delay_the_end() {
    let mut gateway = Gateway::serve().arguments(["--drain-timeout", "1"]).start();
    let request = gateway.request(FINE).field("Expect", "100-continue");
    let mut slow = gateway.client();
    slow.send(request.head());
    assert_eq!(slow.response().status, 100);
    assert_eq!(gateway.terminate().accepted, 0);
}
