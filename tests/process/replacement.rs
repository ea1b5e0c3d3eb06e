//! A gateway is replaced by another one on the same listening socket, under load: no client sees a failure, and every
//! message that was answered with 200 is published once, to each hub.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::gateway::Gateway;
use crate::support::poll_loop::POLL_INTERVAL;
use crate::support::request::Request;
use crate::support::shared_listener::{LONG_DRAIN, Shared};
use crate::support::subscriber::{Message, Subscriber};

/// How often the gateway is replaced.
const REPLACEMENTS: usize = 20;

/// Answers between two replacements, at least.
const ANSWERS: usize = 200;

/// How often to start a gateway until one has its hubs connected within a second.
const ATTEMPTS: usize = 5;

/// The number of clients of each kind.
const CLIENTS: usize = 3;

fn start(shared: &Shared, bus: &Subscriber) -> Gateway {
    let builder = Gateway::serve().inherit(&shared.descriptor()).connect(bus.endpoint());
    let mut gateway = builder.arguments(LONG_DRAIN).start();
    gateway.wait_event("ready");
    gateway
}

#[test]
fn twenty_replacements_under_load_fail_no_request() {
    for shared in Shared::both() {
        let bus = Subscriber::bound();
        let mut gateway = start(&shared, &bus);
        let (sender, answers) = channel();
        let (over, target) = (AtomicBool::new(false), gateway.target());
        let answered: Vec<Message> = std::thread::scope(|scope| {
            for client in 0..2 * CLIENTS {
                let (sender, over, shared, target) = (sender.clone(), &over, &shared, &target);
                scope.spawn(move || post(shared, target, client, over, &sender));
            }
            drop(sender);
            let mut answered = Vec::new();
            for _ in 0..REPLACEMENTS {
                answered.extend(answers.iter().take(ANSWERS));
                let next = start(&shared, &bus);
                gateway.signal(Signal::TERM);
                std::mem::replace(&mut gateway, next).expect_stopped();
            }
            over.store(true, Ordering::Relaxed);
            answered.extend(answers.iter());
            answered
        });
        gateway.terminate();

        assert!(answered.len() >= REPLACEMENTS * ANSWERS);
        let mut published: BTreeMap<Message, usize> = BTreeMap::new();
        for _ in 0..answered.len() {
            *published.entry(bus.next()).or_default() += 1;
        }
        let not_once: Vec<_> = answered.iter().filter(|message| published.get(message) != Some(&1)).collect();
        assert!(not_once.is_empty(), "answered with 200 and not published once: {not_once:?}");
        assert_eq!(bus.next_within(POLL_INTERVAL), None, "more was published");
    }
}

#[test]
fn no_hub_misses_what_a_new_gateway_accepts() {
    for shared in Shared::both() {
        let (soon, late) = (Subscriber::bound(), Subscriber::bound_by_name());
        for attempt in 0..ATTEMPTS {
            let message = Message::new("load", &format!(r#"{{"attempt":{attempt}}}"#));
            let mut client = shared.connect();
            let started = Instant::now();
            let builder = Gateway::serve().inherit(&shared.descriptor()).connect(soon.endpoint());
            let mut gateway = builder.connect(late.endpoint()).start();
            client.exchange(&gateway.request(message.body())).assert_accepted();
            // After a second, the gateway waits for no hub. A slow machine may need longer.
            let waited_for_hubs = started.elapsed() < Duration::from_secs(1);
            assert_eq!(soon.next(), message);
            if waited_for_hubs {
                while late.next() != message {}
                break;
            }
            gateway.terminate();
        }
    }
}

/// Posts one message after the other until it is over, on one connection as long as it lasts, or with a connection for
/// each request. Panics if a request fails.
fn post(shared: &Shared, target: &str, client: usize, over: &AtomicBool, answered: &Sender<Message>) {
    let is_kept = client < CLIENTS;
    let mut connection = None;
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        number += 1;
        let message = Message::new("load", &format!(r#"{{"client":{client},"number":{number}}}"#));
        let mut current = connection.take().unwrap_or_else(|| shared.connect());
        let response = current.exchange(&Request::post(target, message.body()));
        response.assert_accepted();
        answered.send(message).unwrap();
        if is_kept && !response.closes() {
            connection = Some(current);
        }
    }
}
