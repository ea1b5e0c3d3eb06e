//! What the tests post and read: numbered messages over one connection.

use super::*;

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
        Self {
            client: gateway.client(),
            target: gateway.target(),
            topic: topic.to_owned(),
            padding: "x".repeat(payload_bytes),
            next: 0,
            accepted: Vec::new(),
            first_refusal: None,
        }
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
