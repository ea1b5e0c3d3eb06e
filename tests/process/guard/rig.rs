//! Gateways with a port of each kind, what must be true of them whatever happened, and what the tests post and read.

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
        self.gateway.wait_count("hub", json!({"forwarded": count, "dropped": 0}));
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

pub(crate) struct Poster {
    client: Client,
    target: String,
    topic: String,
    padding: String,
    next: u32,
    pub(crate) accepted: Vec<u32>,
    /// When the first message was refused, and how many had been accepted then.
    pub(crate) first_refusal: Option<(Instant, usize)>,
}

impl Poster {
    /// Connects. The payloads have about this many bytes.
    pub(crate) fn to(gateway: &Gateway, topic: &str, payload_bytes: usize) -> Self {
        let (client, target, padding) = (gateway.client(), gateway.target(), "x".repeat(payload_bytes));
        let (topic, next, accepted) = (topic.to_owned(), 0, Vec::new());
        Self { client, target, topic, padding, next, accepted, first_refusal: None }
    }

    pub(crate) fn post(&mut self) -> bool {
        self.post_together(1)
    }

    /// Posts the next messages in one pipeline. Returns whether all of them were accepted.
    pub(crate) fn post_together(&mut self, count: usize) -> bool {
        let numbers = self.next..self.next + u32::try_from(count).unwrap();
        self.next = numbers.end;
        let request = |number: u32| {
            let message = Message::new(&self.topic, &payload(number, &self.padding));
            Request::post(&self.target, message.body()).bytes()
        };
        self.client.send(numbers.clone().flat_map(request).collect::<Vec<u8>>());
        let mut are_accepted = true;
        for number in numbers {
            let answer = self.client.response();
            if answer.status == 200 {
                self.accepted.push(number);
                continue;
            }
            assert_eq!(answer.status, 503, "{answer:?}");
            are_accepted = false;
            self.first_refusal.get_or_insert((Instant::now(), self.accepted.len()));
        }
        are_accepted
    }

    /// Posts messages as fast as they are taken.
    pub(crate) fn post_until(mut self, over: &AtomicBool) -> Self {
        while !is_over(over) {
            if !self.post_together(8) {
                thread::sleep(Duration::from_millis(2));
            }
        }
        self
    }
}

/// A subscriber that reads messages, with a pause after each, and counts them.
pub(crate) struct SlowReader {
    taken: Arc<AtomicUsize>,
    task: Task<(RawPeer, Vec<u32>)>,
}

impl SlowReader {
    pub(crate) fn start(mut peer: RawPeer, pause: Duration) -> Self {
        let taken = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&taken);
        let task = Task::start(move |over| {
            let mut numbers = Vec::new();
            while !is_over(over) {
                if !peer.is_readable_within(Duration::from_millis(100)) {
                    continue;
                }
                numbers.push(number(&peer.receive_message()[1]));
                count.store(numbers.len(), Ordering::Relaxed);
                thread::sleep(pause);
            }
            (peer, numbers)
        });
        Self { taken, task }
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Lets it read without pauses, and checks that it receives these messages altogether.
    pub(crate) fn assert_receives(self, expected: &[u32]) {
        let (mut peer, received) = self.task.finish();
        let (before, rest) = expected.split_at(received.len());
        assert_eq!(received, before, "lost, or in another order");
        assert_receives(&mut peer, rest);
    }
}

pub(crate) fn assert_receives(subscriber: &mut RawPeer, numbers: &[u32]) {
    for expected in numbers {
        assert_eq!(number(&subscriber.receive_message()[1]), *expected, "lost, or in another order");
    }
}

pub(crate) fn payload(number: u32, padding: &str) -> String {
    format!(r#"{{"n":{number},"padding":"{padding}"}}"#)
}

pub(crate) fn own_message(number: u32, padding: &str) -> Vec<u8> {
    message(&[OWN_TOPIC.as_bytes(), payload(number, padding).as_bytes()])
}

pub(crate) fn number(payload: &[u8]) -> u32 {
    let digits = payload.strip_prefix(br#"{"n":"#).expect("a number");
    let length = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap();
    std::str::from_utf8(&digits[..length]).unwrap().parse().unwrap()
}

/// Shakes hands and subscribes to what begins with `prefix`. The gateway has read the subscription then.
pub(crate) fn subscribed(peer: RawPeer, prefix: &str) -> RawPeer {
    with_subscriptions(peer, &subscribe(Form::Message, prefix.as_bytes()))
}

/// Shakes hands and sends these subscriptions. The gateway has read them then.
pub(crate) fn with_subscriptions(peer: RawPeer, subscriptions: &[u8]) -> RawPeer {
    let mut peer = peer.shaking_hands("SUB");
    peer.send_all(subscriptions);
    peer.round_trip();
    peer
}

pub(crate) fn random_subscriptions(random: &mut Random, count: usize, prefix_bytes: usize) -> Vec<u8> {
    let subscriptions = (0..count).map(|_| subscribe(Form::Message, &random.many_bytes(prefix_bytes)));
    subscriptions.collect::<Vec<_>>().concat()
}

/// Checks that the subscriber of the rig receives these numbers next, in this order.
pub(crate) fn assert_received(rig: &Rig, numbers: &[u32]) {
    for expected in numbers {
        assert_eq!(number(rig.subscriber.next().payload.as_bytes()), *expected, "lost, or in another order");
    }
}
