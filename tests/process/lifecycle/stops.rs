//! Stops while libzmq is not done: they end in the drain time, and at once after a second signal.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::answer::Answer;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::lateness::Lateness;
use crate::support::peer::{Form, RawPeer, subscribe};
use crate::support::subscriber::{Message, hub_endpoints, socket, temporary_endpoint};

/// The longest time that a stop may take on an idle machine that is asked to end at once, or within a second.
const SOON: Duration = Duration::from_secs(5);

/// A drain time that no test waits for.
const LONG_DRAIN: &str = "600";

/// The number of subscriptions of a peer, each to a prefix of its own, and the length of each. Without a bound on what a
/// peer may subscribe to, libzmq needs seconds to remove these.
const SUBSCRIPTIONS: u32 = 20_000;
const PREFIX_BYTES: usize = 1_000;

/// Connects to the endpoint as a subscriber, and subscribes.
fn connect_with_subscriptions(endpoint: &str) -> RawPeer {
    let mut peer = RawPeer::speaking(endpoint, "SUB");
    for number in 0..SUBSCRIPTIONS {
        // The numbers are scattered, so that the prefixes differ from their first bytes on.
        let prefix = number.wrapping_mul(0x9e37_79b1).to_be_bytes().repeat(PREFIX_BYTES / 4);
        // The gateway may refuse so many subscriptions.
        if !peer.takes(&subscribe(Form::Message, &prefix)) {
            break;
        }
    }
    peer
}

/// Sends SIGTERM, and checks that the gateway ends soon, with status 0 and a last event. Returns how long it took.
fn stop_soon(gateway: &mut Gateway) -> Duration {
    let (lateness, asked) = (Lateness::watch(), Instant::now());
    gateway.signal(Signal::TERM);
    gateway.finish(0);
    let took = asked.elapsed();
    lateness.assert_took(took, SOON);
    gateway.wait_event("stopped");
    took
}

#[test]
fn subscriptions_do_not_delay_the_end() {
    let hub: &[&str] = &["--hub", "--hub-publishers", "ipc://*", "--hub-subscribers"];
    for option in [&["--bind"], hub] {
        let (_directory, endpoint) = temporary_endpoint();
        let arguments = option.iter().copied().chain([endpoint.as_str(), "--drain-timeout", "1"]);
        let mut gateway = Gateway::serve().bind("ipc://*").arguments(arguments).start();
        drop(connect_with_subscriptions(&endpoint));
        println!("{option:?}: {:?}", stop_soon(&mut gateway));
    }
}

/// Posts messages that wait in the embedded hub for a subscriber that does not read.
fn with_messages_in_the_hub(drain_timeout_s: &str) -> (Gateway, zmq::Socket, TempDir) {
    let (directory, [publishers, subscribers]) = hub_endpoints();
    let builder = Gateway::serve().only_hub(&publishers, &subscribers);
    let gateway = builder.arguments(["--drain-timeout", drain_timeout_s]).start_ready();
    let stalled = socket(zmq::SUB);
    stalled.set_rcvhwm(1).unwrap();
    stalled.connect(&subscribers).unwrap();
    let post = |message: &Message| -> Answer { gateway.post(message.body()) };
    eventually("a probe arrives", || {
        post(&Message::new("probe", "{}")).assert_accepted();
        (stalled.poll(zmq::POLLIN, 20).unwrap() > 0).then_some(())
    });
    let large = Message::new("large", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(100_000)));
    for _ in 0..100 {
        post(&large).assert_accepted();
    }
    (gateway, stalled, directory)
}

fn has_thread(gateway: &Gateway, name: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.id())).unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.into_iter().any(|comm| comm.trim_end() == name)
}

#[test]
fn a_second_signal_ends_the_stop_of_the_hub() {
    let (mut gateway, _stalled, directory) = with_messages_in_the_hub(LONG_DRAIN);
    gateway.begin_drain();
    eventually("the stop of the hub", || (!has_thread(&gateway, "worker")).then_some(()));
    assert!(gateway.is_running());
    println!("a second SIGTERM while the hub stops: {:?}", stop_soon(&mut gateway));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a socket is left behind");
}

#[test]
fn the_hub_stops_in_the_drain_time_whoever_does_not_read() {
    let (mut gateway, _stalled, _directory) = with_messages_in_the_hub("1");
    println!("SIGTERM with messages in the hub, --drain-timeout 1: {:?}", stop_soon(&mut gateway));
}
