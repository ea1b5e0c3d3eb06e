//! Subscribers that are slower than what is posted. One that holds others up for longer than the stall timeout, or
//! whose machine vanishes, is disconnected. Others stay, and receive everything. A pause of the whole gateway counts
//! for nobody.

use super::*;

const PAYLOAD_BYTES: usize = 20_000;
const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long after the first refusal a subscriber may hold others up.
const DISCONNECTED_WITHIN: Duration = Duration::from_secs(6);
/// The receive buffer of a subscriber on a small machine, in bytes.
const SMALL_BUFFER_BYTES: usize = 16 * 1024;
/// How long the whole gateway is stopped: longer than its stall timeout, which is longer than a busy machine needs.
const PAUSE: Duration = Duration::from_secs(12);
const STALL_TIMEOUT_OF_PAUSED: Duration = Duration::from_secs(8);

/// A case has how many bytes it reads every 100 ms, and whether few of them are acknowledged at a time.
#[test]
fn a_subscriber_that_holds_others_up_is_disconnected_however_it_reads() {
    let manners = [(0, false), (1_000, false), (100, true)];
    let cases = manners.into_iter().flat_map(|manner| SIDES.map(|side| (side, manner, Duration::ZERO)));
    // After a pause, the one that does not read is told from the one that does.
    let with_pause = (Side::Bind, (0, false), 2 * STALL_TIMEOUT);
    side_by_side(cases.chain([with_pause]), |(side, (most_bytes, is_small), paused)| {
        let mut rig = Rig::with_short_queue(side, STALL_TIMEOUT);
        let endpoint = &rig.subscribers;
        let late =
            if is_small { RawPeer::connect_with_receive_buffer(endpoint, 1) } else { RawPeer::connect(endpoint) };
        let mut late = subscribed(late, OWN_TOPIC);
        let name = late.name();
        let lateness = Lateness::watch();
        // It reads slowly until it is told to end, and then to the end of the connection.
        let reading = Task::start(move |over| {
            let (mut bytes, deadline) = (Vec::new(), Instant::now() + PATIENCE);
            while !is_over(over) && Instant::now() < deadline {
                if most_bytes > 0 {
                    bytes.extend(late.read_some(most_bytes));
                }
                thread::sleep(Duration::from_millis(100));
            }
            bytes.extend(late.read_to_end());
            whole_messages(&bytes)
        });
        let poster = Poster::to(&rig.gateway, OWN_TOPIC, PAYLOAD_BYTES);
        let posting = Task::start(|over| poster.post_until(over));
        if !paused.is_zero() {
            wait_until("a message is refused", || rig.gateway.refusals() > 0);
            pause(&rig, paused);
        }
        let event = rig.gateway.wait_event("subscriber");
        let disconnected = Instant::now();
        let poster = posting.finish();
        let received = reading.finish();
        let accepted = poster.accepted.len();
        println!("{most_bytes} bytes at a time: {accepted} accepted, {received} received, {event}");

        assert_eq!(event["state"], "disconnected");
        assert_eq!(event["endpoint"], rig.subscribers.as_str());
        assert_eq!(event["reason"], "a message waited for it for longer than 2 s while others were refused");
        let (refused, accepted_before) = poster.first_refusal.expect("a message is refused before");
        lateness.assert_took(disconnected.duration_since(refused), paused + DISCONNECTED_WITHIN);
        let lost = usize::try_from(event["lost"].as_u64().unwrap()).unwrap();
        let missed = accepted_before.saturating_sub(received);
        assert!((missed..=accepted).contains(&lost), "{lost} lost, at least {missed} and at most {accepted}");
        assert_eq!(rig.gateway.stats()["peers"]["stalled"], 1);
        assert_eq!(event["peer"], name.as_str());
        rig.gateway.wait_log(&format!("the bus disconnects the subscriber {name}"));
        assert_received(&rig, &poster.accepted);
        rig.assert_unharmed("a subscriber that holds others up");
    });
}

/// Fails unless all are still connected, and the other subscriber has received everything.
fn assert_nobody_is_slow(mut rig: Rig, poster: &Poster, what: &str) {
    let peers = &rig.gateway.stats()["peers"];
    assert_eq!((peers["stalled"].as_u64(), peers["disconnected"].as_u64()), (Some(0), Some(0)), "{peers}");
    assert_received(&rig, &poster.accepted);
    rig.assert_unharmed(what);
}

#[test]
fn a_subscriber_with_a_small_window_stays() {
    side_by_side(SIDES, |side| {
        const MESSAGES: u32 = 15 * 8;
        let rig = Rig::with_short_queue(side, STALL_TIMEOUT);
        let peer = RawPeer::connect_with_receive_buffer(&rig.subscribers, SMALL_BUFFER_BYTES);
        let slow = SlowReader::start(subscribed(peer, OWN_TOPIC), Duration::from_millis(1_000 / 20));
        let mut poster = Poster::to(&rig.gateway, OWN_TOPIC, PAYLOAD_BYTES);
        let started = Instant::now();
        for number in 0..MESSAGES {
            let due = number * Duration::from_millis(1_000 / 15);
            thread::sleep(due.saturating_sub(started.elapsed()));
            assert!(poster.post(), "message {number} is refused");
        }
        assert!(started.elapsed() > 3 * STALL_TIMEOUT);
        slow.assert_receives(&poster.accepted);
        assert_nobody_is_slow(rig, &poster, "a small window");
    });
}

/// A subscriber that takes 50 messages a second, beside another one. The queue has room for all messages.
#[test]
fn a_slow_subscriber_holds_nobody_up() {
    side_by_side(SIDES, |side| {
        const MESSAGES: usize = 10_000;
        const PAYLOAD_BYTES: usize = 2_000;
        const PIPELINE: usize = 50;
        let mut rig = Rig::start(Gateway::serve(), side, Transport::Tcp, OWN_TOPIC);
        let slow = RawPeer::connect_with_receive_buffer(&rig.subscribers, SMALL_BUFFER_BYTES);
        let slow = SlowReader::start(subscribed(slow, OWN_TOPIC), Duration::from_millis(20));
        let mut poster = Poster::to(&rig.gateway, OWN_TOPIC, PAYLOAD_BYTES);
        for number in (0..MESSAGES).step_by(PIPELINE) {
            assert!(poster.post_together(PIPELINE), "a message after {number} is refused");
        }
        let posted = Instant::now();
        for expected in &poster.accepted {
            let left = PATIENCE.saturating_sub(posted.elapsed());
            let message = rig.subscriber.next_within(left).expect("the slow subscriber holds the fast one up");
            assert_eq!(number(message.payload.as_bytes()), *expected);
        }
        let taken_meanwhile = slow.taken();
        println!("the slow subscriber has taken {taken_meanwhile} of {MESSAGES} when the fast one has all");
        assert!(taken_meanwhile < MESSAGES / 2, "the slow subscriber had {taken_meanwhile} already");
        slow.assert_receives(&poster.accepted);
        assert_eq!(rig.gateway.stats()["peers"]["stalled"], 0);
        rig.assert_served();
        rig.gateway.terminate();
    });
}

/// Stops the gateway for a while. Nothing in it can run meanwhile.
fn pause(rig: &Rig, time: Duration) {
    rig.gateway.signal(Signal::STOP);
    thread::sleep(time);
    rig.gateway.signal(Signal::CONT);
}

/// Posts until a message is refused, while a subscriber reads nothing. It receives everything behind these pauses.
fn assert_count_for_nobody(side: Side, stall_timeout: Duration, pauses: impl FnOnce(&Rig, RawPeer) -> SlowReader) {
    let mut rig = Rig::with_short_queue(side, stall_timeout);
    let slow = RawPeer::connect_with_receive_buffer(&rig.subscribers, 2 * SMALL_BUFFER_BYTES);
    let slow = subscribed(slow, OWN_TOPIC);
    let poster = Poster::to(&rig.gateway, OWN_TOPIC, PAYLOAD_BYTES);
    let posting = Task::start(|over| poster.post_until(over));
    wait_until("a message is refused", || rig.gateway.refusals() > 0);
    let slow = pauses(&rig, slow);
    let poster = posting.finish();
    slow.assert_receives(&poster.accepted);
    assert_nobody_is_slow(rig, &poster, "a pause");
}

/// The queue is full before and after the pause, and what waits longest waits for half a second.
#[test]
fn a_pause_of_the_gateway_counts_for_nobody() {
    side_by_side(SIDES, |side| {
        assert_count_for_nobody(side, STALL_TIMEOUT_OF_PAUSED, |rig, slow| {
            // It reads from now on. On a busy machine, nobody posts faster than it reads.
            let slow = SlowReader::start(slow, Duration::from_millis(2));
            pause(rig, PAUSE);
            // Much more than what had been posted before the pause.
            let taken_before = slow.taken();
            wait_until("the slow subscriber takes more", || slow.taken() > taken_before + 600);
            slow
        });
    });
}

/// The gateway runs for much less than its stall timeout, and is stopped for twice as long.
#[test]
fn many_short_pauses_count_for_nobody() {
    const PAUSES: u32 = 20;
    assert_count_for_nobody(Side::Bind, STALL_TIMEOUT_OF_PAUSED, |rig, slow| {
        for _ in 0..PAUSES {
            pause(rig, 2 * STALL_TIMEOUT_OF_PAUSED / PAUSES);
            thread::sleep(Duration::from_millis(5));
        }
        SlowReader::start(slow, Duration::ZERO)
    });
}

const NEAR: &str = "ip link set lo up && ip link add near type veth peer name far && ip link set near up && \
    ip address add 10.9.8.1/24 dev near";

/// Who does not read acknowledges still that its window is full.
#[test]
fn a_subscriber_whose_machine_vanishes_is_disconnected_and_one_that_is_stopped_stays() {
    const REASON: &str = "it has acknowledged nothing for 20 s";
    let endpoint = "tcp://10.9.8.1:16103";
    needs!(is_possible(&unshared("--net", NEAR)));
    let outside = TcpListener::bind(ANY_PORT).unwrap();
    let builder = Gateway::serve().inherit(&outside).bind(endpoint).arguments(["--stall-timeout", "0"]);
    let mut gateway = builder.after(&unshared("--net", &format!("{NEAR} && exec 3<&0 </dev/null"))).start_ready();
    let near = gateway.id();
    // It prints a line once it has a network of its own, and ends when its stdin ends.
    let machine = Process::spawn(in_network_of(near, "unshare --net cat /proc/uptime -").stdin(Stdio::piped()));
    machine.wait_line("a network", |_| true);
    let far = machine.id();
    let run = |process, program: &str| _ = Process::spawn(&mut in_network_of(process, program)).finish(0);
    run(near, &format!("ip link set far netns {far}"));
    run(far, "ip address add 10.9.8.2/24 dev far");
    run(far, "ip link set far up");

    let listen = |process, topic: &str| {
        let program = binary().get_program().to_str().unwrap().to_owned();
        Process::spawn(&mut in_network_of(process, &format!("{program} listen --connect {endpoint} --topic {topic}")))
    };
    let _vanishing = ["sent", "idle"].map(|topic| listen(far, topic));
    let stopped = listen(near, "stopped");
    gateway.wait_count("subscriptions", 3);
    stopped.signal(Signal::STOP);
    let mut poster = Poster::to(&gateway, "stopped", 20_000);
    wait_until("its window is full", || poster.post_together(100) && count(&gateway.stats(), "queue_depth") > 100);

    let (lateness, since) = (Lateness::watch(), Instant::now());
    run(far, "ip link set far down");
    gateway.post(Message::new("sent", "{}").body()).assert_accepted();
    let lost = [(); 2].map(|()| {
        let event = gateway.wait_event("subscriber");
        lateness.assert_took(since.elapsed(), Duration::from_secs(30));
        assert_eq!((&event["state"], &event["reason"]), (&"disconnected".into(), &REASON.into()), "{event}");
        event["lost"].as_u64().unwrap()
    });
    assert_eq!(lost.iter().sum::<u64>(), 1);
    assert_eq!(gateway.wait_count("subscribers", 1)["peers"]["disconnected"], 2);
    stopped.signal(Signal::CONT);
    for expected in poster.accepted {
        let line = stopped.next_line().expect("a message");
        assert_eq!(number(line.split_once('\t').unwrap().1.as_bytes()), expected);
    }
    gateway.terminate();
}
