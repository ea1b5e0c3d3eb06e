//! Tests that the thread of the bus sleeps while there is nothing to do, and only then.

use std::num::NonZero;
use std::path::Path;
use std::thread;
use std::time::Duration;

use adapter_gateway::bus::{Bus, BusConfig, Endpoint, HubEndpoints, Subscriber, Unavailable};
use adapter_gateway::message::publish::Publish;

use super::rig::{Hub, TOPIC, any_port, connecting, start, subscribed, wait_for_subscriber};
use crate::support::eventually;
use crate::support::usage::{sleeps, voluntary_switches};

/// Returns whether the thread wakes up at most so often within 300 ms, and waits each time that the test looks. A
/// thread that never waits has no voluntary switches. The test sleeps because it counts over a span of time.
fn rests(task: &Path, most_switches: u64) -> bool {
    let before = voluntary_switches(task);
    let waits = (0..10).all(|_| {
        thread::sleep(Duration::from_millis(30));
        sleeps(task)
    });
    waits && voluntary_switches(task) - before <= most_switches
}

#[test]
fn an_idle_thread_never_wakes_up() {
    let hub = Hub::new();
    let running = start(connecting(&[&hub.url]));
    let (_, task) = running.expect_connected(&hub);
    running.publish(0);
    hub.receive().unwrap();
    // On an idle machine it parks within a millisecond after its last message.
    eventually("the thread stays parked", || rests(&task, 0).then_some(()));
}

/// The subscriber that does not read is a hub that the bus connects to, or one of the hub that it runs. In the second
/// case, the other end of the dialled endpoint takes everything. The thread looks for room every 100 ms.
#[test]
fn a_stalled_thread_does_not_spin() {
    for is_dialled in [true, false] {
        let dialled = Hub::at("tcp://127.0.0.1:*", if is_dialled { 1 } else { 0 });
        let mut config = connecting(&[&dialled.url]);
        config.limits.queue_messages = NonZero::new(100).unwrap();
        config.pipe_messages = NonZero::new(2).unwrap();
        config.hub = (!is_dialled).then(|| HubEndpoints { publishers: any_port(), subscribers: any_port() });
        let running = start(config);
        let (_, task) = running.expect_connected(&dialled);
        let (publisher, stalled) = (&running.publisher, subscribed(1));
        if !is_dialled {
            stalled.connect(running.subscribers_side().as_str()).unwrap();
            wait_for_subscriber(&running.bus);
        }
        eventually("the bus is stalled", || {
            let _ = publisher.publish(TOPIC, (&[0; 65_536]).into());
            publisher.wake();
            (publisher.available() == Err(Unavailable::Stalled)).then_some(())
        });
        eventually("the thread waits for room", || rests(&task, 5).then_some(()));
    }
}

/// The bus thread looks for messages between two batches of subscriptions. It counts those of all bound endpoints.
#[test]
fn no_subscription_is_left_unread() {
    const PREFIXES: usize = 4_500;
    let prefixes: Vec<_> = (0..PREFIXES).map(|number| number.to_string()).collect();
    // The thread may read them as they come, so there are several attempts.
    for _ in 0..5 {
        let bind = vec![any_port(), any_port()];
        let bus = Bus::start(BusConfig { bind, ..BusConfig::default() }, |_| {}).unwrap();
        // Half of the prefixes of the second one are new.
        let parts = [&prefixes[..PREFIXES / 2], &prefixes[PREFIXES / 4..]];
        let connect = |(endpoint, part): (&Endpoint, &&[String])| {
            Subscriber::connect(std::slice::from_ref(endpoint), part, |_, _| {}).unwrap()
        };
        let _subscribers: Vec<_> = bus.bound().iter().zip(&parts).map(connect).collect();
        eventually("all subscriptions are counted", || {
            (bus.counters().subscribers.subscriptions == Some(PREFIXES as u64)).then_some(())
        });
    }
}
