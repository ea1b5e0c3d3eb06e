//! The stop: every message that was answered with 200 reaches the bus, and every request in flight gets an answer.

use rustix::process::Signal;

use crate::statuses::FINE;
use crate::support::fixture::Fixture;
use crate::support::gateway::Gateway;
use crate::support::http::Client;
use crate::support::load::{Load, Shape};
use crate::support::net::{free_address, refuses};
use crate::support::report::{assert_answered_during_a_stop, assert_nothing_is_lost_by_a_stop};
use crate::support::subscriber::{Message, Subscriber, temporary_endpoint};

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
        let response = client.response();
        response.assert_accepted();
        assert!(response.closes(), "{response:?}");
        client.expect_close();
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

/// The number of threads that post.
const CLIENTS: usize = 4;

/// The number of answers 200 after which the signal is sent.
const ACCEPTED_BEFORE_THE_SIGNAL: usize = 2000;

#[test]
fn every_message_answered_with_200_under_load_is_on_the_bus_after_the_stop() {
    let bus = Subscriber::bound();
    for workers in ["1", "2"] {
        let builder = Gateway::serve().listen(free_address()).connect(bus.endpoint());
        let mut gateway = builder.arguments(["--workers", workers]).start_connected();
        let address = gateway.address();
        let shape = Shape { clients: CLIENTS, padding: 0, pipeline: 1, per_connection: |_| usize::MAX };
        let load = Load::by(move || Client::try_connect(address), gateway.target(), shape);
        assert_nothing_is_lost_by_a_stop(&mut gateway, &bus, load, ACCEPTED_BEFORE_THE_SIGNAL);
    }
}

/// The subscriber connects to an endpoint of the gateway itself. There is no hub.
#[test]
fn messages_on_a_bound_endpoint_arrive_before_the_end() {
    let (_directory, endpoint) = temporary_endpoint();
    let mut gateway = Gateway::serve().bind(&endpoint).start();
    let bus = Subscriber::connected(&endpoint, "");
    bus.wait_until_subscribed(&gateway);
    let mut client = gateway.client();
    let message = |number: usize| Message::new("t", &format!(r#"{{"number":{number}}}"#));
    for number in 0..500 {
        client.exchange(&gateway.request(message(number).body())).assert_accepted();
    }
    gateway.terminate();
    for number in 0..500 {
        assert_eq!(bus.next(), message(number));
    }
}
