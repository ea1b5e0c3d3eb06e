//! The end under load: whatever was answered with 200 is on the bus.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};

use rustix::process::Signal;

use crate::client::{Dialect, Tls, socket};
use crate::rig::{FINE, Rig};
use crate::support::gateway::Gateway;
use crate::support::http::{Client, Response};
use crate::support::poll_loop::POLL_INTERVAL;
use crate::support::request::Request;
use crate::support::subscriber::Message;

/// How many threads post, and after how many 200s the signal comes.
const CLIENTS: usize = 4;
const ACCEPTED_BEFORE_THE_SIGNAL: usize = 1000;

/// Messages on one connection, so that handshakes are a part of the load.
const PER_CONNECTION: usize = 20;

#[test]
fn every_200_under_load_is_on_the_bus_when_it_has_stopped() {
    for mut rig in Rig::each_way(&["--workers", "2"]) {
        let answered = load_until_it_stops(&mut rig.gateway, &rig.dialect);
        let stopped = rig.gateway.expect_stopped();
        let received: Vec<Message> = (0..stopped.published).map(|_| rig.bus.next()).collect();
        assert_eq!(rig.bus.next_within(POLL_INTERVAL), None, "more on the bus than it says it published");
        let distinct: BTreeSet<&Message> = received.iter().collect();
        assert_eq!(distinct.len(), received.len(), "published twice");
        let lost: Vec<_> = answered.iter().filter(|it| !distinct.contains(it)).collect();
        assert!(lost.is_empty(), "answered 200 and never published: {lost:?}");
        assert!(answered.len() >= ACCEPTED_BEFORE_THE_SIGNAL);
    }
}

#[test]
fn a_request_in_flight_is_answered_and_then_the_connection_ended() {
    for mut rig in Rig::each_way(&[]) {
        let late = Message::new("late", r#"{"in":"time"}"#);
        let request = rig.request(late.body()).field("Expect", "100-continue");
        let mut slow = rig.client();
        slow.send(request.head());
        assert_eq!(slow.response().status, 100, "its head is in");
        let mut idle = rig.client();
        rig.gateway.signal(Signal::TERM);
        idle.expect_close();
        slow.send(request.body());
        let response = slow.response();
        response.assert_accepted();
        assert!(response.closes(), "{response:?}");
        slow.expect_close();
        assert_eq!(rig.bus.next(), late);
        assert_eq!(rig.gateway.expect_stopped().accepted, 1);
    }
}

/// Where TLS is spoken, what has arrived of a request may be a part of a record, in which nobody can read.
#[test]
fn a_request_is_in_flight_from_the_first_byte_of_its_record() {
    for mut rig in Rig::each_way(&[]) {
        let mut cut: Vec<_> = [1, 4, 5, 6, 100]
            .into_iter()
            .flat_map(|come| [false, true].map(|again| (come, again)))
            .map(|(come, again)| {
                let mut client = rig.client();
                if again {
                    client.exchange(&rig.request(FINE)).assert_accepted();
                    rig.expect_fine();
                }
                let mut record = client.stream().records(&rig.request(FINE).bytes());
                let rest = record.split_off(come);
                client.stream().send_raw(&record);
                (client, rest)
            })
            .collect();
        let mut idle = rig.client();
        rig.gateway.signal(Signal::TERM);
        idle.expect_close();
        for (client, rest) in &mut cut {
            client.stream().send_raw(rest);
            let response = client.response();
            response.assert_accepted();
            assert!(response.closes(), "{response:?}");
            client.expect_close();
            rig.expect_fine();
        }
        rig.gateway.expect_stopped();
    }
}

/// No request is in flight before the handshake is done: whoever stalls there is not waited for.
#[test]
fn a_handshake_in_flight_does_not_hold_the_end_back() {
    let longer_than_any_wait = ["--drain-timeout", "120", "--head-timeout", "120"];
    for mut rig in Rig::each_way(&longer_than_any_wait) {
        let address = rig.gateway.address();
        let mut hello = rig.dialect.begin(address, "localhost").unwrap();
        let hello = hello.pending();
        let _stalled = [0, 1, 5, 6, hello.len() - 1, hello.len()].map(|come| {
            let mut stranger = socket(address).unwrap();
            stranger.write_all(&hello[..come]).unwrap();
            stranger
        });
        rig.gateway.signal(Signal::TERM);
        rig.gateway.expect_stopped();
    }
}

#[test]
fn a_record_that_does_not_end_holds_the_end_back_for_the_time_of_a_drain_at_most() {
    for mut rig in Rig::each_way(&["--drain-timeout", "1", "--head-timeout", "120"]) {
        let mut client = rig.client();
        let record = client.stream().records(&rig.request(FINE).bytes());
        client.stream().send_raw(&record[..record.len() - 1]);
        rig.gateway.signal(Signal::TERM);
        rig.gateway.expect_stopped();
    }
}

/// Posts from several threads, sends SIGTERM in the midst of it, and returns what got a 200.
fn load_until_it_stops(gateway: &mut Gateway, dialect: &Dialect) -> Vec<Message> {
    let (sender, answers) = channel();
    let (address, target) = (gateway.address(), gateway.target());
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (sender, target) = (sender.clone(), &target);
            scope.spawn(move || post_until_refused(address, dialect, target, client, &sender));
        }
        drop(sender);
        let mut answered: Vec<Message> = answers.iter().take(ACCEPTED_BEFORE_THE_SIGNAL).collect();
        gateway.signal(Signal::TERM);
        answered.extend(answers.iter());
        answered
    })
}

/// One client: a message after the other, on one connection after the other, as long as there is somebody to talk to.
fn post_until_refused(address: SocketAddr, dialect: &Dialect, target: &str, client: usize, answered: &Sender<Message>) {
    let mut number = 0;
    while let Ok(connection) = dialect.dial(address, "localhost") {
        let mut connection = Client::over(connection);
        for _ in 0..PER_CONNECTION {
            number += 1;
            let message = Message::new("load", &format!(r#"{{"client":{client},"number":{number}}}"#));
            connection.send(Request::post(target, message.body()).bytes());
            let Some(response) = answer(&mut connection) else { break };
            response.assert_accepted();
            answered.send(message).unwrap();
            if response.closes() {
                break;
            }
        }
    }
}

/// `None` where the connection ended instead. Silence is neither.
fn answer(connection: &mut Client<Tls>) -> Option<Response> {
    let answered = connection.try_response();
    answered.inspect_err(|error| assert_ne!(error.kind(), ErrorKind::WouldBlock, "no answer in time")).ok()
}
