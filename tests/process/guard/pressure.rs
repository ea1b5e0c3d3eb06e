//! What waits in the hub for a subscriber that does not read is bounded apart for publishers and for posts: neither
//! refuses the other, nothing is dropped, and the memory is given back. Publishers that are not read lose no
//! connection, and those that have ended hold no place.

use super::*;

const MIB: usize = 1 << 20;

/// A publisher sends messages to `flood/NUMBER` as fast as the hub reads them.
struct Flood {
    sent: Arc<AtomicUsize>,
    task: Task<RawPeer>,
}

impl Flood {
    const MESSAGES: u32 = 4_000;
    const PAYLOAD_BYTES: usize = 20_000;

    fn start(rig: &Rig, publisher: usize) -> Self {
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

fn sent_until_held_back(floods: &[Flood]) -> usize {
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
        thread::sleep(SEND_TIMEOUT);
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
    let reading = Task::repeat(move || _ = reader.read_some(MIB));
    let bytes = message(&[b"flood", &[b'x'; 100]]).repeat(500);
    let floods = [(); 2].map(|()| {
        let (mut publisher, bytes) = (rig.publisher(), bytes.clone());
        publisher.give_up_after(SEND_TIMEOUT);
        let mut at = 0;
        Task::repeat(move || at = (at + publisher.send_some(&bytes[at..])) % bytes.len())
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

/// While the hub is full, no publisher is read. What it has sent is still read before the gateway ends.
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
    thread::sleep(Duration::from_secs(1));
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
/// with many messages, which take no place of others. Afterwards others are served, and the memory is given back.
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
        // One that comes now is refused, or held back, until there is room. Several may be read on a busy machine.
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

/// Connects a publisher, and waits until it is accepted: until it is subscribed to everything.
fn accepted_publisher(rig: &Rig) -> RawPeer {
    let mut publisher = rig.publisher();
    assert_eq!(publisher.receive_body(), b"\x09SUBSCRIBE");
    publisher
}

/// Waits until the hub is full of what a subscriber does not read. Both leave when they are dropped.
fn fill(rig: &Rig) -> (RawPeer, [Flood; 1]) {
    let full = (rig.subscribed("flood"), [Flood::start(rig, 0)]);
    sent_until_held_back(&full.1);
    full
}

/// Lets publishers wait that have pinged in such an interval, or never.
fn assert_ponged<T>(rig: &Rig, wait: impl FnOnce(&mut [RawPeer; 2]) -> T) {
    const INTERVAL: Duration = Duration::from_millis(400);
    const PONGS: u32 = 8;
    let mut publishers = [(); 2].map(|()| accepted_publisher(rig));
    let pinging = &mut publishers[0];
    let first = Instant::now();
    pinging.round_trip();
    thread::sleep(INTERVAL);
    let second = Instant::now();
    pinging.round_trip();
    let (longest, lateness) = (first.elapsed(), Lateness::watch());
    let _waits = wait(&mut publishers);
    let [pinging, quiet] = &mut publishers;
    let waits_since = Instant::now();
    (0..PONGS).for_each(|_| assert_eq!(pinging.receive_pong(), b""));
    let took = second.elapsed();
    assert!(took + lateness.allowance() >= PONGS * INTERVAL / 2, "{PONGS} PONGs within {took:?}");
    lateness.assert_took(waits_since.elapsed(), (PONGS + 1) * longest / 2);
    assert!(!quiet.is_readable_within(Duration::ZERO), "something is sent to one that has not pinged");
}

#[test]
fn who_is_not_read_and_has_pinged_gets_pongs_at_its_own_pace() {
    let mut rig = Rig::of_patient_hub(["--drain-timeout", "1"]);
    assert_ponged(&rig, |_| fill(&rig));
    rig.gateway.signal(Signal::TERM);
    assert_eq!(rig.gateway.wait_exit(), 0);
}

#[test]
fn who_waits_for_a_reservation_and_has_pinged_gets_pongs_at_its_own_pace() {
    let builder = Gateway::serve().arguments(["--max-body", &(64 * MIB).to_string(), "--drain-timeout", "1"]);
    let rig = Rig::start(builder, Side::Hub, Transport::Tcp, OWN_TOPIC);
    let begun = |bytes| [frame(MORE, b"begun"), frame_head(0, bytes), vec![b' '; MIB]].concat();
    assert_ponged(&rig, |publishers| {
        // All that may be reserved is for this one, which has a quarter of an hour for it.
        let mut holder = accepted_publisher(&rig);
        holder.send_all(&begun(64 * MIB));
        // Behind this, it has been read.
        accepted_publisher(&rig).round_trip();
        publishers.iter_mut().for_each(|publisher| publisher.send_all(&begun(2 * MIB)));
        holder
    });
    rig.assert_unharmed("publishers that wait");
}

/// Their heartbeats end a connection to a hub that is silent for longer than their timeout.
#[test]
fn what_publishers_of_libzmq_with_heartbeats_send_to_a_full_hub_arrives_over_the_same_connections() {
    const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(100);
    const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(3);
    const MESSAGES: u32 = 1_800;
    let mut rig = Rig::of_patient_hub([]);
    let mut reader = rig.subscribed("libzmq");
    let padding = "x".repeat(20_000);
    let publishers = [b"libzmq/0", b"libzmq/1"].map(|topic| {
        let context = zmq::Context::new();
        let [publisher, monitor] = [zmq::PUB, zmq::PAIR].map(|kind| context.socket(kind).unwrap());
        publisher.set_sndhwm(0).unwrap();
        publisher.set_heartbeat_ivl(HEARTBEAT_INTERVAL.as_millis() as i32).unwrap();
        publisher.set_heartbeat_timeout(HEARTBEAT_TIMEOUT.as_millis() as i32).unwrap();
        publisher.monitor("inproc://monitor", zmq::SocketEvent::DISCONNECTED as i32).unwrap();
        monitor.connect("inproc://monitor").unwrap();
        publisher.connect(rig.publishers()).unwrap();
        eventually("it is connected", || {
            publisher.send_multipart([OWN_TOPIC, "{}"], 0).unwrap();
            rig.subscriber.next_within(POLL_INTERVAL)
        });
        (publisher, monitor, topic)
    });
    // The hub must have read a PING of each.
    thread::sleep(10 * HEARTBEAT_INTERVAL);
    for number in 0..MESSAGES {
        let payload = payload(number, &padding);
        publishers.iter().for_each(|(it, _, topic)| it.send_multipart([*topic, payload.as_bytes()], 0).unwrap());
    }
    // More than two times as long as a publisher waits for an answer.
    thread::sleep(2 * HEARTBEAT_TIMEOUT + Duration::from_secs(1));
    let mut next = publishers.each_ref().map(|(_, _, topic)| (topic.to_vec(), 0));
    while next.iter().any(|(_, next)| *next < MESSAGES) {
        let [topic, payload] = reader.receive_message();
        let (_, next) = next.iter_mut().find(|(of, _)| *of == topic).unwrap();
        assert_eq!(number(&payload), *next, "lost, or in another order");
        *next += 1;
    }
    for (_, monitor, _) in &publishers {
        assert_eq!(monitor.poll(zmq::POLLIN, 0), Ok(0), "its connection has ended");
    }
    drop((publishers, reader));
    rig.gateway.terminate();
}

/// What such a publisher has sent is read once there is room, and a bounded number of them are kept.
#[test]
fn publishers_that_have_ended_while_the_hub_is_full_hold_no_place() {
    const MOST_ENDED: u32 = 128;
    let mut rig = Rig::of_patient_hub(["--drain-timeout", "1"]);
    let full = fill(&rig);
    let send_and_leave = |number| accepted_publisher(&rig).send_all(&own_message(number, ""));
    (0..MOST_ENDED).for_each(send_and_leave);
    let mut newcomer = accepted_publisher(&rig);
    newcomer.send_all(&own_message(MOST_ENDED, ""));
    send_and_leave(MOST_ENDED + 1);
    RawPeer::hasty_publisher(rig.publishers(), PATIENCE).read_to_end();
    rig.gateway.wait_log(&format!(" at {}: all places for its peers are taken", rig.publishers()));
    assert_eq!(rig.gateway.stats()["peers"]["refused"], 1);
    drop(full);
    let mut arrived: Vec<_> = (0..MOST_ENDED + 2).map(|_| number(rig.subscriber.next().payload.as_bytes())).collect();
    arrived.sort_unstable();
    assert!(arrived.into_iter().eq(0..MOST_ENDED + 2));
    drop((accepted_publisher(&rig), newcomer));
    rig.gateway.terminate();
}
