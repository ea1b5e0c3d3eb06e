//! Tests of what the hubs get that the bus connects to.

use std::num::NonZero;
use std::time::Duration;

use adapter_gateway::bus::BusEvent;

use super::rig::{Hub, connecting, number_in, receive, start};
use crate::support::eventually;

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
