//! What waits in the hub for a subscriber that does not read is bounded apart for publishers and for posts: neither
//! refuses the other, and nothing is dropped. It is bounded whoever of the publishers is still there, and given back.

use super::*;

const MIB: usize = 1 << 20;

/// A publisher sends messages to `flood/NUMBER` as fast as the hub reads them.
pub(super) struct Flood {
    sent: Arc<AtomicUsize>,
    task: Task<RawPeer>,
}

impl Flood {
    const MESSAGES: u32 = 4_000;
    const PAYLOAD_BYTES: usize = 20_000;

    pub(super) fn start(rig: &Rig, publisher: usize) -> Self {
        let mut peer = rig.publisher();
        peer.give_up_after(SEND_TIMEOUT);
        let sent = Arc::<AtomicUsize>::default();
        let task = Task::start({
            let sent = Arc::clone(&sent);
            move |over| {
                let (topic, padding) = (format!("flood/{publisher}"), "x".repeat(Self::PAYLOAD_BYTES));
                for number in 0..Self::MESSAGES {
                    let bytes = message(&[topic.as_bytes(), payload(number, &padding).as_bytes()]);
                    let mut at = 0;
                    while at < bytes.len() && !is_over(over) {
                        at += peer.send_some(&bytes[at..]);
                    }
                    sent.fetch_add(at, Ordering::Relaxed);
                }
                peer
            }
        });
        Self { sent, task }
    }
}

pub(super) fn sent_until_held_back(floods: &[Flood]) -> usize {
    let sent = || floods.iter().map(|flood| flood.sent.load(Ordering::Relaxed)).sum::<usize>();
    let (mut last, mut since) = (sent(), Instant::now());
    eventually("the hub reads no publisher", || {
        if sent() != last {
            (last, since) = (sent(), Instant::now());
        }
        (since.elapsed() > Duration::from_secs(1)).then_some(last)
    })
}

#[test]
fn publishers_are_held_back_and_posts_go_on() {
    const POSTS: usize = 200;
    let mut rig = Rig::of_patient_hub([]);
    let mut staller = rig.subscribed("flood");
    let floods = [0, 1].map(|publisher| Flood::start(&rig, publisher));
    let sent = sent_until_held_back(&floods);
    rig.assert_gained_less_than(MOST_HELD_KIB, &format!("{sent} bytes sent"));
    // 64 MiB are held in the hub, and the kernel buffers the rest of three connections.
    assert!(sent < 110 * MIB, "{sent} bytes of publishers are read");

    let mut poster = Poster::to(&rig.gateway, OWN_TOPIC, 1_000);
    (0..POSTS).for_each(|number| assert!(poster.post(), "post {number} is refused"));
    assert_received(&rig, &poster.accepted);
    assert_eq!(rig.gateway.stats()["hub"]["dropped"], 0);

    let mut next = [0, 0];
    while next.iter().sum::<u32>() < 2 * Flood::MESSAGES {
        let [topic, payload] = staller.receive_message();
        let publisher = usize::from(topic.last().unwrap() - b'0');
        assert_eq!(number(&payload), next[publisher], "lost, or in another order");
        next[publisher] += 1;
    }
    drop(floods.map(|flood| flood.task.join()));
    rig.wait_forwarded(2 * Flood::MESSAGES);
    rig.assert_served();
    rig.gateway.terminate();
}

#[test]
fn a_full_queue_of_posts_holds_no_publisher_up() {
    const MESSAGES: u32 = 500;
    const MORE_THAN_FIT: usize = 17;
    let mut rig = Rig::of_patient_hub(["--queue", "16", "--drain-timeout", "1"]);
    let mut staller = rig.subscribed("posts");
    let mut poster = Poster::to(&rig.gateway, "posts", 20_000);
    wait_until("the queue is full", || {
        let are_accepted = poster.post_together(MORE_THAN_FIT);
        // What the kernel still takes makes room again.
        std::thread::sleep(SEND_TIMEOUT);
        !are_accepted && rig.gateway.stats()["queue_depth"] == 16
    });
    let mut publisher = rig.publisher();
    (0..MESSAGES).for_each(|number| publisher.send_all(&own_message(number, "")));
    assert_received(&rig, &(0..MESSAGES).collect::<Vec<_>>());
    assert!(!poster.post_together(MORE_THAN_FIT), "the queue was not full");
    assert_receives(&mut staller, &poster.accepted);
    rig.assert_unharmed("a full queue");
}

/// The oldest message waits for a subscriber that has no room, however busy the bus is with others.
#[test]
fn a_full_queue_is_told_from_a_subscriber_that_does_not_read_also_while_publishers_send() {
    const POSTS: usize = 200;
    let mut rig = Rig::of_patient_hub(["--queue", "16"]);
    let staller = rig.subscribed("posts");
    let mut reader = rig.subscribed("flood");
    let reading = Task::start(move |over| {
        while !is_over(over) {
            reader.read_some(MIB);
        }
    });
    let bytes = message(&[b"flood", &[b'x'; 100]]).repeat(500);
    let floods = [(); 2].map(|()| {
        let (mut publisher, bytes) = (rig.publisher(), bytes.clone());
        publisher.give_up_after(SEND_TIMEOUT);
        Task::start(move |over| {
            let mut at = 0;
            while !is_over(over) {
                at = (at + publisher.send_some(&bytes[at..])) % bytes.len();
            }
        })
    });
    let body = Message::new("posts", &payload(0, &"x".repeat(20_000))).body();
    let refusal = |rig: &Rig| {
        let answer = rig.gateway.post(&body);
        (answer.status != 200).then_some(answer.kind)
    };
    eventually("the queue is full of what the subscriber does not read", || {
        refusal(&rig).filter(|kind| kind == "subscriber-stalled")
    });
    (0..POSTS).for_each(|_| assert_eq!(refusal(&rig).as_deref(), Some("subscriber-stalled")));
    drop((floods, reading, staller));
    rig.gateway.terminate();
}

/// While the hub is full, no publisher is read. What it has sent is still read once there is room, before the gateway
/// ends.
#[test]
fn what_a_publisher_has_sent_that_was_held_back_is_read_before_the_end() {
    let mut rig = Rig::of_patient_hub(["--drain-timeout", "60"]);
    let staller = rig.subscribed("flood");
    let reading = SlowReader::start(rig.subscribed("flood"), Duration::ZERO);
    let floods = [Flood::start(&rig, 0)];
    let mut sent_bytes = sent_until_held_back(&floods);
    let publishers = floods.map(|flood| flood.task.finish());
    rig.gateway.signal(Signal::TERM);
    // That is longer than publishers that go on are read at the stop.
    std::thread::sleep(Duration::from_secs(1));
    drop(staller);

    let wire_bytes =
        |number| message(&[b"flood/0", payload(number, &"x".repeat(Flood::PAYLOAD_BYTES)).as_bytes()]).len();
    let mut is_whole = |number: &u32| {
        let rest = sent_bytes.checked_sub(wire_bytes(*number));
        sent_bytes = rest.unwrap_or_default();
        rest.is_some()
    };
    let sent: Vec<u32> = (0..Flood::MESSAGES).take_while(|number| is_whole(number)).collect();
    // The gateway waits for peers to leave.
    reading.assert_receives(&sent);
    drop(publishers);
    assert_eq!(rig.gateway.wait_exit(), 0);
}

/// Connects a publisher that sends as many of these messages as are taken, and leaves. It may be refused: a publisher
/// that has left keeps its place until the hub has read what it has sent.
fn publish_and_leave(rig: &Rig, message: &[u8], count: usize) {
    let mut peer = RawPeer::hasty_publisher(rig.publishers(), SEND_TIMEOUT);
    let _taken = (0..count).take_while(|_| peer.send(message)).count();
}

/// They leave one after the other while nothing is passed on: few with large messages, many with small ones, and some
/// with many messages, which take no place of others. Afterwards the gateway serves others, and has given the memory
/// back.
#[test]
fn publishers_that_come_and_go_cost_a_bounded_amount() {
    side_by_side([(12, 200, MIB), (3_000, 200, 100), (254, 1_000, 300)], |(publishers, messages, payload_bytes)| {
        let mut rig = Rig::of_patient_hub(["--drain-timeout", "1"]);
        let staller = rig.subscribed("flood");
        let flood = message(&[b"flood", &vec![b' '; payload_bytes]]);
        let mut most_kib = 0;
        for _ in 0..publishers {
            publish_and_leave(&rig, &flood, messages);
            most_kib = most_kib.max(rig.growth_kib());
        }
        println!("{publishers} publishers of {messages} messages of {payload_bytes} bytes: {most_kib} KiB more");
        assert!(most_kib < MOST_HELD_KIB, "{most_kib} KiB more");
        // A subscriber finds a place, whatever publishers have left behind.
        let others = rig.gateway.stats()["subscriptions"].as_u64().unwrap() as usize;
        let newcomer = rig.subscribed("newcomer");
        rig.gateway.wait_count("subscriptions", others + 1);
        drop((staller, newcomer));
        rig.assert_served();
        // A publisher that comes now is refused, or held back, until there is room. Several may be read, late on a busy
        // machine, and nobody else receives what they send.
        let expected = Message::new("other", "{}");
        let (sent, other) = (message(&[b"other", b"{}"]), Subscriber::connected(&rig.subscribers, "other"));
        eventually("a publisher is read", || {
            publish_and_leave(&rig, &sent, 1);
            other.next_within(SEND_TIMEOUT).map(|message| assert_eq!(message, expected))
        });
        drop(other);
        wait_until("the memory is given back", || rig.growth_kib() < REMAINING_KIB);
        rig.assert_unharmed("publishers that come and go");
    });
}
