//! Stops while libzmq is not done: they end in the drain time, and at once after a second signal.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::answer::Answer;
use crate::support::gateway::{Builder, Gateway};
use crate::support::lateness::Lateness;
use crate::support::net::refuses;
use crate::support::subscriber::{Message, ipc_endpoint};
use crate::support::{PATIENCE, eventually};

/// The longest time that a stop may take on an idle machine that is asked to end at once, or within a second.
const SOON: Duration = Duration::from_secs(5);

/// A drain time that no test waits for.
const LONG_DRAIN: &str = "600";

/// The number of subscriptions of a peer, each to a prefix of its own, and the length of each. Without a bound on what a
/// peer may subscribe to, libzmq needs seconds to remove these.
const SUBSCRIPTIONS: u32 = 20_000;
const PREFIX_BYTES: usize = 1_000;

/// Connects to the endpoint as a subscriber that libzmq accepts (ZMTP 3.0 with the NULL mechanism), and subscribes.
fn connect_with_subscriptions(path: &std::path::Path) -> UnixStream {
    let mut peer = UnixStream::connect(path).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut greeting = [0; 64];
    greeting[..16].copy_from_slice(b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL");
    peer.write_all(&greeting).unwrap();
    peer.read_exact(&mut greeting).unwrap();
    peer.write_all(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB").unwrap();
    let mut header = [0; 2];
    peer.read_exact(&mut header).unwrap();
    peer.read_exact(&mut vec![0; header[1].into()]).unwrap();
    for number in 0..SUBSCRIPTIONS {
        // A long frame: its flags, its length, and a subscription.
        let mut frame = vec![2];
        frame.extend((PREFIX_BYTES as u64 + 1).to_be_bytes());
        frame.push(1);
        // The numbers are scattered, so that the prefixes differ from their first bytes on.
        frame.extend(number.wrapping_mul(0x9e37_79b1).to_be_bytes().iter().cycle().take(PREFIX_BYTES));
        // The gateway may refuse so many subscriptions.
        if peer.write_all(&frame).is_err() {
            break;
        }
    }
    peer
}

/// Sends SIGTERM, and checks that the gateway ends soon, with status 0 and a last event. Returns how long it took.
fn stop_soon(gateway: &mut Gateway) -> Duration {
    let (lateness, asked) = (Lateness::watch(), Instant::now());
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit(), 0);
    let took = asked.elapsed();
    lateness.assert_took(took, SOON);
    gateway.wait_event("stopped");
    took
}

#[test]
fn subscriptions_do_not_delay_the_end() {
    let hub: &[&str] = &["--hub", "--hub-publishers", "ipc://*", "--hub-subscribers"];
    for option in [&["--bind"], hub] {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = ipc_endpoint(&directory);
        let arguments = option.iter().copied().chain([endpoint.as_str(), "--drain-timeout", "1"]);
        let mut gateway = Gateway::serve().bind("ipc://*").arguments(arguments).start();
        drop(connect_with_subscriptions(&directory.path().join("bus")));
        println!("{option:?}: {:?}", stop_soon(&mut gateway));
    }
}

/// Posts messages that wait in the embedded hub for a subscriber that does not read.
fn with_messages_in_the_hub(builder: Builder) -> (Gateway, zmq::Socket, [tempfile::TempDir; 2]) {
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [publishers, subscribers] = directories.each_ref().map(ipc_endpoint);
    let hub = ["--hub", "--hub-publishers", &publishers, "--hub-subscribers", &subscribers];
    let mut gateway = builder.arguments(hub).start();
    gateway.wait_event("ready");
    let stalled = zmq::Context::new().socket(zmq::SUB).unwrap();
    stalled.set_rcvhwm(1).unwrap();
    stalled.set_linger(0).unwrap();
    stalled.set_rcvtimeo(PATIENCE.as_millis().try_into().unwrap()).unwrap();
    stalled.set_subscribe(b"").unwrap();
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
    (gateway, stalled, directories)
}

fn has_thread(gateway: &Gateway, name: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.id())).unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.into_iter().any(|comm| comm.trim_end() == name)
}

#[test]
fn a_second_signal_ends_the_stop_of_the_hub() {
    let (mut gateway, _stalled, directories) =
        with_messages_in_the_hub(Gateway::serve().arguments(["--drain-timeout", LONG_DRAIN]));
    let address = gateway.address();
    gateway.signal(Signal::TERM);
    eventually("the drain", || refuses(address).then_some(()));
    eventually("the stop of the hub", || (!has_thread(&gateway, "worker")).then_some(()));
    assert!(gateway.is_running());
    println!("a second SIGTERM while the hub stops: {:?}", stop_soon(&mut gateway));
    for directory in directories {
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a socket is left behind");
    }
}

#[test]
fn the_hub_stops_in_the_drain_time_whoever_does_not_read() {
    let (mut gateway, _stalled, _directories) =
        with_messages_in_the_hub(Gateway::serve().arguments(["--drain-timeout", "1"]));
    println!("SIGTERM with messages in the hub, --drain-timeout 1: {:?}", stop_soon(&mut gateway));
}
