//! Gateways with a port of each kind, and what must be true of them whatever happened.

use super::*;

/// How much memory a gateway may gain, in KiB, whatever its peers do.
pub(crate) const GROWTH_KIB: u64 = 64 * 1024;
/// What the gateway may still keep of that when the peers have left.
pub(crate) const REMAINING_KIB: u64 = 8 * 1024;
/// What a hub may hold for publishers, and then once more for what any peers may cost.
pub(crate) const MOST_HELD_KIB: u64 = 128 * 1024;
/// The topics that the gateway publishes in these tests begin so. The peers of the tests never use it.
pub(crate) const OWN_TOPIC: &str = "guard/own";
/// How long to wait for one message before another is published.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(50);
/// How long one attempt of a publisher to send may take.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_millis(100);

/// A gateway, its bus ports, and a subscriber on libzmq that receives what the gateway itself publishes.
pub(crate) struct Rig {
    pub(crate) gateway: Gateway,
    /// Where publishers connect, if the gateway runs a hub.
    pub(crate) publishers: Option<String>,
    pub(crate) subscribers: String,
    pub(crate) subscriber: Subscriber,
    resident_before_kib: u64,
    published: u32,
    _directory: TempDir,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    Tcp,
    Ipc,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Bind,
    Hub,
}

pub(crate) const SIDES: [Side; 2] = [Side::Bind, Side::Hub];

/// Returns a gateway whose stop waits for a second at most, as the peers of these tests do not close their side.
fn stopping_soon() -> Builder {
    Gateway::serve().arguments(["--drain-timeout", "1"])
}

impl Rig {
    /// Starts a gateway whose subscriber receives what the gateway publishes, and nothing else.
    pub(crate) fn open(side: Side, transport: Transport) -> Self {
        Self::start(stopping_soon(), side, transport, OWN_TOPIC)
    }

    pub(crate) fn heard_by_all(side: Side, transport: Transport) -> Self {
        Self::start(stopping_soon(), side, transport, "")
    }

    /// Starts a hub that disconnects no subscriber, with these further options.
    pub(crate) fn of_patient_hub<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let builder = Gateway::serve().arguments(["--stall-timeout", "0"]).arguments(arguments);
        Self::start(builder, Side::Hub, Transport::Tcp, OWN_TOPIC)
    }

    pub(crate) fn with_short_queue(side: Side, stall_timeout: Duration) -> Self {
        let stall_timeout_s = stall_timeout.as_secs().to_string();
        let builder = stopping_soon().arguments(["--queue", "200", "--stall-timeout", &stall_timeout_s]);
        Self::start(builder, side, Transport::Tcp, OWN_TOPIC)
    }

    /// Starts this gateway. Its subscriber receives the topics that begin with `prefix`.
    pub(crate) fn start(builder: Builder, side: Side, transport: Transport, prefix: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = |name| match transport {
            Transport::Tcp => format!("tcp://{}", free_address()),
            Transport::Ipc => format!("ipc://{}", directory.path().join(name).display()),
        };
        let subscribers = endpoint("subscribers");
        let (builder, publishers) = match side {
            Side::Bind => (builder.bind(&subscribers), None),
            Side::Hub => {
                let publishers = endpoint("publishers");
                (builder.only_hub(&publishers, &subscribers), Some(publishers))
            }
        };
        let gateway = builder.start_ready();
        let subscriber = Subscriber::connected(&subscribers, prefix);
        let (resident_before_kib, published, _directory) = (0, 0, directory);
        let mut rig = Self { gateway, publishers, subscribers, subscriber, resident_before_kib, published, _directory };
        rig.gateway.wait_subscribed("the bound endpoints");
        let message = rig.publish();
        assert_eq!(rig.subscriber.next(), message);
        // A message may count as published a moment after it has arrived.
        rig.gateway.wait_count("published", 1);
        rig.resident_before_kib = resident_kib(rig.gateway.id());
        rig
    }

    pub(crate) fn publishers(&self) -> &str {
        self.publishers.as_deref().expect("the gateway runs a hub")
    }

    /// Returns the endpoint of each port, that of publishers first.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.publishers.iter().chain([&self.subscribers]).cloned().collect()
    }

    pub(crate) fn publisher(&self) -> RawPeer {
        RawPeer::speaking(self.publishers(), "PUB")
    }

    pub(crate) fn peers(&mut self, name: &str) -> u64 {
        count(&self.gateway.stats()["peers"], name)
    }

    /// Connects a subscriber to what begins with `prefix`. The gateway has read the subscription then.
    pub(crate) fn subscribed(&self, prefix: &str) -> RawPeer {
        subscribed(RawPeer::connect(&self.subscribers), prefix)
    }

    fn publish(&mut self) -> Message {
        self.published += 1;
        let message = Message::new(OWN_TOPIC, &format!(r#"{{"n":{}}}"#, self.published));
        self.gateway.post(message.body()).assert_accepted();
        message
    }

    /// Checks that a post is the next message that the subscriber receives, and that a newcomer is served as well.
    pub(crate) fn assert_served(&mut self) {
        let message = self.publish();
        assert_eq!(self.subscriber.next(), message, "the subscriber received something else");
        assert!(self.serves_newcomer_within(PATIENCE), "a newcomer is not served");
    }

    /// Checks that the message of a publisher that comes now is the next one that the subscriber receives.
    pub(crate) fn assert_publisher_served(&self) {
        let message = Message::new(OWN_TOPIC, r#"{"other":true}"#);
        let mut publisher = self.publisher();
        publisher.send_all(&peer::message(&[message.topic.as_bytes(), message.payload.as_bytes()]));
        assert_eq!(self.subscriber.next(), message);
    }

    pub(crate) fn connect_libzmq(&self, context: &zmq::Context, prefix: &str) -> zmq::Socket {
        let socket = context.socket(zmq::SUB).unwrap();
        socket.set_subscribe(prefix.as_bytes()).unwrap();
        socket.connect(&self.subscribers).unwrap();
        socket
    }

    pub(crate) fn serves_newcomer_within(&mut self, time: Duration) -> bool {
        let newcomer = Subscriber::connected(&self.subscribers, OWN_TOPIC);
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            let message = self.publish();
            assert_eq!(self.subscriber.next(), message);
            if newcomer.next_within(PROBE_TIMEOUT).is_some() {
                return true;
            }
        }
        false
    }

    /// Waits until so many count as passed on, and none as dropped. The last one counts after it was written.
    pub(crate) fn wait_forwarded(&mut self, count: u32) {
        let expected = json!({"forwarded": count, "dropped": 0});
        wait_until("all are passed on", || self.gateway.stats()["hub"] == expected);
    }

    pub(crate) fn growth_kib(&self) -> u64 {
        resident_kib(self.gateway.id()).saturating_sub(self.resident_before_kib)
    }

    pub(crate) fn assert_small(&self, what: &str) {
        self.assert_gained_less_than(GROWTH_KIB, what);
    }

    pub(crate) fn assert_gained_less_than(&self, bound_kib: u64, what: &str) {
        let growth_kib = self.growth_kib();
        println!("{what}: {} KiB before, {growth_kib} KiB more", self.resident_before_kib);
        assert!(growth_kib < bound_kib, "{what}: {growth_kib} KiB more");
    }

    /// Checks that the gateway works as before, has gained little memory, and ends as asked.
    pub(crate) fn assert_unharmed(mut self, what: &str) {
        self.assert_served();
        self.assert_small(what);
        self.gateway.signal(Signal::TERM);
        assert_eq!(self.gateway.wait_exit(), 0, "{what}");
    }
}
