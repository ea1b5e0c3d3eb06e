//! Hubs that are processes of their own: this very test binary, started again with a task.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use adapter_gateway::bus::Hub;
use rustix::process::Signal;

use crate::support::PATIENCE;
use crate::support::net::free_address;
use crate::support::process::Process;

/// Holds the task, which is `KIND PUBLISHERS SUBSCRIBERS`.
const TASK: &str = "ADAPTER_GATEWAY_TEST_TASK";
/// How long a gated hub that is asked to end goes on passing messages on.
const LAST_MESSAGES: Duration = Duration::from_millis(200);
/// Messages that a gated hub takes from a publisher ahead of passing them on.
pub(crate) const HUB_MESSAGES: usize = 256;

/// What kind of hub.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Opens its publishers' side only when somebody has subscribed. After a restart, a hub without this takes messages
    /// that no subscriber is back for, and nothing about the gateway could be read off what arrives.
    Gated,
    /// The product's own.
    Embedded,
}

/// Where a hub is; it may go and come back.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) publishers: String,
    pub(crate) subscribers: String,
}

/// A running hub; killed when dropped.
pub(crate) struct HubProcess {
    process: Process,
}

impl Place {
    pub(crate) fn free() -> Self {
        Self { publishers: format!("tcp://{}", free_address()), subscribers: format!("tcp://{}", free_address()) }
    }
}

impl HubProcess {
    /// Returns once subscribers may connect.
    pub(crate) fn start(kind: Kind, place: &Place) -> Self {
        Self::start_as(Command::new(std::env::current_exe().unwrap()), kind, place)
    }

    /// The same in a network namespace.
    pub(crate) fn start_in(namespace: &str, kind: Kind, place: &Place) -> Self {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(std::env::current_exe().unwrap());
        Self::start_as(command, kind, place)
    }

    fn start_as(mut command: Command, kind: Kind, place: &Place) -> Self {
        command.args(["--exact", "helper::does_its_task", "--nocapture", "--test-threads=1"]);
        command.env(TASK, format!("{kind:?} {} {}", place.publishers, place.subscribers));
        // Its end ends the helper too: none outlives the tests.
        command.stdin(Stdio::piped());
        let hub = Self { process: Process::spawn(&mut command) };
        hub.wait_for("subscribers may come");
        hub
    }

    /// Returns the moment from which publishers can connect. A gated hub waits for a subscriber first.
    pub(crate) fn wait_open(&self) -> Instant {
        self.wait_for("publishers may come");
        Instant::now()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// SIGKILL, and returns when it is gone.
    pub(crate) fn kill(mut self) {
        self.process.end();
    }

    /// Asks it to end, and returns when it has.
    pub(crate) fn end(mut self) {
        self.process.close_stdin();
        assert!(self.process.wait_exit(PATIENCE).success());
    }

    fn wait_for(&self, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = self.process.next_line(deadline).unwrap_or_else(|| panic!("ended before: {what}"));
            if line.trim_end().ends_with(what) {
                return;
            }
        }
    }
}

/// No test of its own: what the helper process runs. Does nothing in a run of the tests.
#[test]
fn does_its_task() {
    let Ok(task) = std::env::var(TASK) else { return };
    let [kind, publishers, subscribers] = task.split(' ').collect::<Vec<_>>().try_into().unwrap();
    match kind {
        "Gated" => run_gated(publishers, subscribers),
        "Embedded" => run_embedded(publishers, subscribers),
        _ => panic!("{task}"),
    }
}

fn run_embedded(publishers: &str, subscribers: &str) {
    let hub = Hub::start(&publishers.parse().unwrap(), &subscribers.parse().unwrap()).unwrap();
    println!("\nsubscribers may come");
    println!("publishers may come");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    hub.stop(Duration::from_secs(1));
}

fn run_gated(publishers: &str, subscribers: &str) {
    let context = zmq::Context::new();
    let downstream = context.socket(zmq::XPUB).unwrap();
    downstream.set_sndhwm(0).unwrap(); // drops nothing: what is lost is lost elsewhere
    downstream.set_linger(1_000).unwrap();
    downstream.bind(subscribers).unwrap();
    println!("\nsubscribers may come");

    let upstream = context.socket(zmq::XSUB).unwrap();
    upstream.set_rcvhwm(HUB_MESSAGES.try_into().unwrap()).unwrap();
    upstream.set_linger(0).unwrap();
    upstream.send(&b"\x01"[..], 0).unwrap();
    let mut open = false;
    let mut end_at = None;
    while end_at.is_none_or(|end_at| Instant::now() < end_at) {
        let mut items = [
            upstream.as_poll_item(zmq::POLLIN),
            downstream.as_poll_item(zmq::POLLIN),
            zmq::PollItem::from_fd(0, zmq::POLLIN),
        ];
        // Without stdin once it has ended, since it would be readable for ever.
        let watched = if end_at.is_some() { 2 } else { 3 };
        zmq::poll(&mut items[..watched], 20).unwrap();
        // The end of a pipe is an error to libzmq's poll.
        let (message, subscription, over) = (items[0].is_readable(), items[1].is_readable(), items[2].is_error());
        if message {
            downstream.send_multipart(upstream.recv_multipart(0).unwrap(), 0).unwrap();
        }
        if subscription {
            let subscription = downstream.recv_bytes(0).unwrap();
            if !open && subscription.first() == Some(&1) {
                upstream.bind(publishers).unwrap();
                println!("publishers may come");
                open = true;
            }
        }
        if over && end_at.is_none() {
            end_at = Some(Instant::now() + LAST_MESSAGES);
        }
    }
}
