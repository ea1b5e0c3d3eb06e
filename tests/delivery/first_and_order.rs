//! The very first message, and the order of all.

use crate::helper::{HubProcess, Kind, Place};
use crate::hub_faults::Site;
use crate::load::message;
use crate::support::gateway::Gateway;
use crate::support::subscriber::{Message, Subscriber};

const TIMES: usize = 20;

fn first(number: usize) -> Message {
    Message::new("first", &format!(r#"{{"number":{number}}}"#))
}

#[test]
fn the_first_message_after_each_of_twenty_starts_arrives() {
    let place = Place::free();
    let hub = HubProcess::start(Kind::Gated, &place);
    let subscriber = Subscriber::connected(&place.subscribers, "");
    hub.wait_open();
    for number in 0..TIMES {
        let mut gateway = Gateway::serve().connect(&place.publishers).start();
        gateway.wait_connected();
        gateway.post(first(number).body()).assert_accepted();
        assert_eq!(subscriber.next(), first(number));
    }
}

#[test]
fn the_first_message_after_each_of_twenty_reconnects_arrives() {
    let mut site = Site::with(Kind::Gated, []);
    for number in 0..TIMES {
        site.hub.take().unwrap().kill();
        site.gateway.wait_for("disconnected", |event| event["state"] == "disconnected");
        assert_eq!(site.gateway.post(first(number).body()).status, 503, "nothing is promised meanwhile");
        site.restart_hub();
        site.gateway.wait_connected();
        site.gateway.post(first(number).body()).assert_accepted();
        assert_eq!(site.subscriber.next(), first(number));
    }
}

/// Messages of one connection reach the bus in the order of its requests, whatever other connections do, with one
/// worker and with two.
#[test]
fn pipelined_requests_keep_their_order() {
    const CONNECTIONS: usize = 4;
    const REQUESTS: usize = 500;
    for workers in ["1", "2"] {
        let site = Site::with(Kind::Gated, ["--workers", workers]);
        std::thread::scope(|scope| {
            for client in 0..CONNECTIONS {
                let mut connection = site.gateway.client();
                let requests = (0..REQUESTS).map(|number| site.gateway.request(message(client, number, "").body()));
                let requests: Vec<u8> = requests.flat_map(|request| request.bytes()).collect();
                scope.spawn(move || {
                    connection.send(requests);
                    (0..REQUESTS).for_each(|_| connection.response().assert_accepted());
                });
            }
        });
        let mut next = [0; CONNECTIONS];
        for _ in 0..CONNECTIONS * REQUESTS {
            let (client, number) = crate::tally::numbers(&site.subscriber.next());
            assert_eq!(number, next[client], "client {client}");
            next[client] += 1;
        }
        assert_eq!(next, [REQUESTS; CONNECTIONS]);
    }
}
