//! Hubs that are processes of their own: the test binary starts itself again to run a hub. It binds the publishers'
//! side only after a subscriber has subscribed. After a restart, a hub without this receives messages before the
//! subscriber has connected again, and loses them. What arrives would then tell nothing about the gateway.

use super::*;

/// The environment variable that says where to run a hub: `PUBLISHERS SUBSCRIBERS`.
const HUB_VARIABLE: &str = "ADAPTER_GATEWAY_TEST_HUB";
/// Messages that a hub receives from a publisher before it forwards them.
pub(crate) const HUB_MESSAGES: usize = 256;
const SUBSCRIBERS_CAN_CONNECT: &str = "subscribers can connect";
const PUBLISHERS_CAN_CONNECT: &str = "publishers can connect";

/// Where publishers and subscribers of a hub connect. It may be restarted there.
pub(crate) type HubEndpoints = [String; 2];

/// Starts a hub by another program with its arguments, and waits until subscribers can connect.
pub(crate) fn start_hub(by: &[&str], endpoints: &HubEndpoints) -> Process {
    let mut command = command(by);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "delivery::hub_process::runs_a_hub_in_this_process", "--nocapture", "--test-threads=1"]);
    command.env(HUB_VARIABLE, endpoints.join(" "));
    // The XSUB socket of libzmq needs a frame of the stack for each byte of a subscription.
    command.env("RUST_MIN_STACK", (64 * 1024 * 1024).to_string());
    // The hub ends when its stdin ends, so that no hub outlives the tests.
    let hub = Process::spawn(command.stdin(Stdio::piped()));
    wait_printed(&hub, SUBSCRIBERS_CAN_CONNECT);
    hub
}

/// Starts a hub at free endpoints, connects a subscriber, and waits until publishers can connect.
pub(crate) fn start_hub_with_subscriber() -> (HubEndpoints, Process, Subscriber) {
    let endpoints = [dead_endpoint(), dead_endpoint()];
    let hub = start_hub(&["env"], &endpoints);
    let subscriber = Subscriber::connected(&endpoints[1], "");
    wait_open(&hub);
    (endpoints, hub, subscriber)
}

/// Waits until publishers can connect, and returns that time. It waits for a subscriber first.
pub(crate) fn wait_open(hub: &Process) -> Instant {
    wait_printed(hub, PUBLISHERS_CAN_CONNECT);
    Instant::now()
}

fn wait_printed(hub: &Process, what: &str) {
    hub.wait_line(what, |line| line.trim_end().ends_with(what));
}

pub(crate) struct Deployment {
    pub(crate) endpoints: HubEndpoints,
    pub(crate) hub: Option<Process>,
    pub(crate) subscriber: Subscriber,
    pub(crate) gateway: Gateway,
}

impl Deployment {
    pub(crate) fn with<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let (endpoints, hub, subscriber) = start_hub_with_subscriber();
        let gateway = Gateway::serve().connect(&endpoints[0]).arguments(arguments).start_connected();
        subscriber.wait_until_subscribed(&gateway);
        Self { endpoints, hub: Some(hub), subscriber, gateway }
    }

    pub(crate) fn hub(&self) -> &Process {
        self.hub.as_ref().unwrap()
    }

    pub(crate) fn lose_hub(&mut self) {
        drop(self.hub.take());
        self.gateway.wait_state("bus", "disconnected");
    }

    /// Starts a new hub at the endpoints of the last one, and returns when publishers could connect to it.
    pub(crate) fn restart_hub(&mut self) -> Instant {
        wait_open(self.hub.insert(start_hub(&["env"], &self.endpoints)))
    }
}

/// The program of a hub process, which is started as a test. Does nothing when the tests are run.
#[test]
fn runs_a_hub_in_this_process() {
    let Ok(hub) = std::env::var(HUB_VARIABLE) else { return };
    let (publishers, subscribers) = hub.split_once(' ').unwrap();
    let context = zmq::Context::new();
    let downstream = context.socket(zmq::XPUB).unwrap();
    downstream.set_sndhwm(0).unwrap(); // never drops a message, so that any loss happens elsewhere
    downstream.set_linger(1_000).unwrap();
    downstream.bind(subscribers).unwrap();
    println!("\n{SUBSCRIBERS_CAN_CONNECT}");

    let upstream = context.socket(zmq::XSUB).unwrap();
    upstream.set_rcvhwm(HUB_MESSAGES.try_into().unwrap()).unwrap();
    upstream.set_linger(0).unwrap();
    upstream.send(&b"\x01"[..], 0).unwrap();
    let mut open = false;
    let end = thread::spawn(|| {
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
        thread::sleep(Duration::from_millis(200));
    });
    while !end.is_finished() {
        let mut items = [upstream.as_poll_item(zmq::POLLIN), downstream.as_poll_item(zmq::POLLIN)];
        zmq::poll(&mut items, 20).unwrap();
        if items[0].is_readable() {
            downstream.send_multipart(upstream.recv_multipart(0).unwrap(), 0).unwrap();
        }
        if items[1].is_readable() {
            let subscription = downstream.recv_bytes(0).unwrap();
            upstream.send(&subscription, 0).unwrap();
            if !open && subscription.first() == Some(&1) {
                upstream.bind(publishers).unwrap();
                println!("{PUBLISHERS_CAN_CONNECT}");
                open = true;
            }
        }
    }
}
