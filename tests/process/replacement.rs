//! A gateway is replaced by another one on the same listening socket, under load: no client sees a failure, and every
//! message that was answered with 200 is published once, to each hub.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::load::Shape;
use crate::support::shared_listener::{LONG_DRAIN, Shared};
use crate::support::*;

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
    builder.arguments(LONG_DRAIN).start_ready()
}

#[test]
fn twenty_replacements_under_load_fail_no_request() {
    for shared in Shared::both().map(Arc::new) {
        let bus = Subscriber::bound();
        let mut gateway = start(&shared, &bus);
        // Some clients keep their connection as long as it lasts, and the others have one for each request.
        let per_connection = |client| if client < CLIENTS { usize::MAX } else { 1 };
        let shape = Shape { clients: 2 * CLIENTS, padding: 0, pipeline: 1, per_connection };
        let connecting = Arc::clone(&shared);
        let load = Load::by(move || Ok(connecting.connect()), gateway.target(), shape);
        for _ in 0..REPLACEMENTS {
            load.wait_for_many(ANSWERS, "200s", Instant::now(), accepted);
            let next = start(&shared, &bus);
            gateway.signal(Signal::TERM);
            std::mem::replace(&mut gateway, next).expect_stopped();
        }
        let answers = load.finish();
        gateway.terminate();

        let received: Vec<Message> = (0..answers.len()).map(|_| bus.next()).collect();
        assert_eq!(bus.next_within(POLL_INTERVAL), None, "more was published");
        let report = DeliveryReport::in_any_order(&answers, &received);
        report.assert_nothing_lost();
        assert!(report.refused.is_empty(), "a request failed: {report}");
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
