//! Tests of what the hubs get that the bus connects to.

use std::num::NonZero;
use std::time::Duration;

use adapter_gateway::bus::{BusConfig, BusEvent, HubEndpoints, NotConnected};

use super::rig::{Hub, any_port, connecting, number_in, receive, start, wait_for_subscriber};
use crate::support::net::dead_endpoint;
use crate::support::{PATIENCE, eventually, socket};

/// One of them is there later than the other, which is served meanwhile.
#[test]
fn two_hubs_receive_every_message_once_at_the_pace_of_the_slower_one() {
    for slow_is_first in [false, true] {
        let (fast, slow) = (Hub::new(), Hub::new());
        let slow_url = slow.url.clone();
        drop(slow);
        let urls = if slow_is_first { [&slow_url, &fast.url] } else { [&fast.url, &slow_url] };
        let mut config = connecting(&urls.map(String::as_str));
        config.limits.queue_messages = NonZero::new(50).unwrap();
        config.pipe_messages = NonZero::new(10).unwrap();
        let running = start(config);
        assert_eq!(running.expect_connected(&fast).0.as_str(), fast.url);
        assert!(!running.publisher.reaches_all());
        running.publish(0);
        assert_eq!(number_in(&fast.receive().unwrap()), 0);

        let slow = Hub::at(&slow_url, 10);
        assert_eq!(running.expect_connected(&slow).0.as_str(), slow_url);
        assert!(running.publisher.reaches_all());
        let accepted = running.publish_until_stalled(1, 8_192);
        for hub in [&slow, &fast] {
            for number in 1..accepted {
                assert_eq!(number_in(&hub.receive().expect("lost")), number);
            }
            assert!(receive(&hub.socket, Duration::from_millis(50)).is_none());
        }
    }
}

/// Messages would go round. What the program compares at the start is the address as it is written.
#[test]
fn the_hub_of_the_bus_itself_is_not_connected() {
    let own = dead_endpoint();
    let hub = Some(HubEndpoints { publishers: own.parse().unwrap(), subscribers: any_port() });
    let running = start(BusConfig { hub, ..connecting(&[&own]) });
    let subscriber = socket(zmq::SUB);
    subscriber.set_subscribe(b"").unwrap();
    subscriber.connect(running.subscribers_side().as_str()).unwrap();
    wait_for_subscriber(&running.bus);
    let (event, _) = running.events.recv_timeout(PATIENCE).unwrap();
    assert_eq!(event, BusEvent::Link(own.parse().unwrap(), Err(NotConnected::Own)));
    (0..3).for_each(|number| running.publish(number));
    (0..3).for_each(|number| assert_eq!(number_in(&receive(&subscriber, PATIENCE).unwrap()), number));
    // Nothing is due at this endpoint any more.
    assert!(running.events.recv_timeout(Duration::from_millis(1_500)).is_err());
    assert!(receive(&subscriber, Duration::ZERO).is_none());
    assert_eq!(running.bus.stop(PATIENCE).hub.unwrap().forwarded, 0.into());
}

/// On a busy machine, to look the name up may take so long that the hub counts as silent first.
#[test]
fn a_hub_with_a_name_is_connected_as_soon_as_the_name_is_looked_up() {
    let hub = Hub::new();
    let url = hub.url.replace("127.0.0.1", "localhost");
    eventually("the first event is that it is connected", || {
        let first = start(connecting(&[&url])).events.recv();
        matches!(first, Ok((BusEvent::Link(_, Ok(())), _))).then_some(())
    });
}

/// The documents say so where they describe what encryption with CURVE would need.
#[test]
fn the_bundled_libzmq_has_no_curve() {
    assert_eq!(zmq::has("curve"), Some(false));
}
