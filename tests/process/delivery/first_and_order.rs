//! The first message after a start or a reconnect, and the order of all messages.

use super::hub_process::{Deployment, HubKind, HubProcess};
use crate::support::gateway::Gateway;
use crate::support::load::message;
use crate::support::subscriber::Message;

const TIMES: usize = 20;

fn first(number: usize) -> Message {
    Message::new("first", &format!(r#"{{"number":{number}}}"#))
}

#[test]
fn the_first_message_after_a_start_arrives() {
    let (endpoints, _hub, subscriber) = HubProcess::start_with_subscriber(HubKind::Gated);
    for number in 0..TIMES {
        let gateway = Gateway::serve().connect(&endpoints.publishers).start_connected();
        gateway.post(first(number).body()).assert_accepted();
        assert_eq!(subscriber.next(), first(number));
    }
}

#[test]
fn the_first_message_after_a_reconnect_arrives() {
    let mut deployment = Deployment::with(HubKind::Gated, []);
    for number in 0..TIMES {
        deployment.lose_hub();
        assert_eq!(deployment.gateway.post(first(number).body()).status, 503, "no message is accepted without the hub");
        deployment.restart_hub();
        deployment.gateway.wait_connected();
        deployment.gateway.post(first(number).body()).assert_accepted();
        assert_eq!(deployment.subscriber.next(), first(number));
    }
}

/// Messages of one connection are published in the order of its requests, with one worker and with two, while other
/// connections post too.
#[test]
fn pipelined_requests_keep_their_order() {
    const CONNECTIONS: usize = 4;
    const REQUESTS: usize = 500;
    for workers in ["1", "2"] {
        let deployment = Deployment::with(HubKind::Gated, ["--workers", workers]);
        std::thread::scope(|scope| {
            for client in 0..CONNECTIONS {
                let mut connection = deployment.gateway.client();
                let requests =
                    (0..REQUESTS).map(|number| deployment.gateway.request(message(client, number, "").body()));
                let requests: Vec<u8> = requests.flat_map(|request| request.bytes()).collect();
                scope.spawn(move || {
                    connection.send(requests);
                    (0..REQUESTS).for_each(|_| connection.response().assert_accepted());
                });
            }
        });
        let mut next = [0; CONNECTIONS];
        for _ in 0..CONNECTIONS * REQUESTS {
            let (client, number) = crate::support::report::client_and_number(&deployment.subscriber.next());
            assert_eq!(number, next[client], "client {client}");
            next[client] += 1;
        }
        assert_eq!(next, [REQUESTS; CONNECTIONS]);
    }
}
