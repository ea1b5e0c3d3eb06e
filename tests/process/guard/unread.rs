//! Publishers that the hub does not read, since it is full, or they wait for a reservation: their heartbeats end no
//! connection, and those that have ended hold no place.

use super::pressure::{Flood, sent_until_held_back};
use super::*;

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
    std::thread::sleep(INTERVAL);
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
    const MIB: usize = 1 << 20;
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
    std::thread::sleep(10 * HEARTBEAT_INTERVAL);
    for number in 0..MESSAGES {
        let payload = payload(number, &padding);
        publishers.iter().for_each(|(it, _, topic)| it.send_multipart([*topic, payload.as_bytes()], 0).unwrap());
    }
    // More than two times as long as a publisher waits for an answer.
    std::thread::sleep(2 * HEARTBEAT_TIMEOUT + Duration::from_secs(1));
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
