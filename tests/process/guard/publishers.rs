//! What the embedded hub takes from publishers: messages of two frames, of at most a topic and a payload that the
//! gateway itself could publish. There is one order for all subscribers, whoever publishes.

use super::*;

/// The default of `--max-body`.
const BODY_BYTES: usize = 1 << 20;

#[test]
fn only_messages_of_two_frames_within_the_bounds_are_passed_on() {
    let mut rig = Rig::heard_by_all(Side::Hub, Transport::Tcp);
    let other = zmq::Context::new().socket(zmq::PUB).unwrap();
    other.connect(rig.publishers()).unwrap();
    eventually("another publisher is connected", || {
        other.send_multipart(["other", "{}"], 0).unwrap();
        rig.subscriber.next_within(PROBE_TIMEOUT)
    });
    let mut peer = rig.publisher();
    let refused = [
        ("one frame", message(&[b"alone"])),
        ("three frames", message(&[b"topic", b"{}", b"more"])),
        ("9,600 frames", message(&vec![&b"frame"[..]; 9_600])),
        ("200,000 frames", message(&vec![&[b'f'; 200][..]; 200_000])),
        ("a topic of 1,025 bytes", message(&[&[b't'; 1_025], b"{}"])),
        ("a payload of a byte more than a body", message(&[b"topic", &[b' '; BODY_BYTES + 1]])),
        ("a topic of 80 MB", message(&[&vec![b't'; 80_000_000], b"{}"])),
        ("a payload of 80 MB", message(&[b"topic", &vec![b' '; 80_000_000]])),
        ("a third frame of 80 MB", message(&[b"topic", b"{}", &vec![b' '; 80_000_000]])),
    ];
    for (number, (what, bytes)) in refused.into_iter().enumerate() {
        peer.send_all(&bytes);
        peer.round_trip();
        rig.assert_small(what);
        assert_eq!(rig.gateway.stats()["hub"]["dropped"], number + 1, "{what}");
        // The same publisher goes on, and the others too.
        let marker = Message::new("marker", &format!(r#"{{"n":{number}}}"#));
        peer.send_all(&message(&[marker.topic.as_bytes(), marker.payload.as_bytes()]));
        let other_message = Message::new("other", "{}");
        let next = eventually("a message", || Some(rig.subscriber.next()).filter(|next| *next != other_message));
        assert_eq!(next, marker, "{what} was passed on");
        other.send_multipart([&marker.topic, &marker.payload], 0).unwrap();
        assert_eq!(rig.subscriber.next(), marker);
        rig.assert_served();
    }
    let line = format!("the bus drops a message of {} at {}, which is not a topic", peer.name(), rig.publishers());
    rig.gateway.wait_log(&line);
    rig.assert_unharmed("refused messages");
}

/// Neither holds it another publisher up.
#[test]
fn a_message_that_never_ends_is_not_kept() {
    let rig = Rig::open(Side::Hub, Transport::Ipc);
    let mut frames = rig.publisher();
    let part = frame(MORE, &[b'f'; 1_000]).repeat(4_000);
    (0..25).for_each(|_| frames.send_all(&part));
    frames.round_trip();
    let mut announced: Vec<_> = (0..20).map(|_| RawPeer::speaking(rig.publishers(), "XPUB")).collect();
    let begun = [frame(MORE, b"topic"), frame_head(0, 799_000_000), vec![b' '; 3_000_000]].concat();
    announced.iter_mut().for_each(|peer| peer.send_all(&begun));
    let mut unfinished: Vec<_> = (0..70).map(|_| rig.publisher()).collect();
    let begun = [frame(MORE, b"unfinished"), frame_head(0, 1 << 20), vec![b' '; 1_000]].concat();
    unfinished.iter_mut().for_each(|peer| peer.send_all(&begun));
    rig.assert_publisher_served();
    rig.assert_unharmed("messages that never end");
}

/// MessagePack can be longer than the JSON that it stands for.
#[test]
fn a_publisher_may_send_the_largest_messages_of_a_gateway() {
    for (encoding, element) in [("json", "1,"), ("msgpack", "1.1,"), ("msgpack", "-0,"), ("msgpack", "1e1,")] {
        let (_directory, [publishers, subscribers]) = hub_endpoints();
        let builder = Gateway::serve().arguments(["--encoding", encoding]);
        let gateway = builder.only_hub(&publishers, &subscribers).start_ready();
        let socket = socket(zmq::SUB);
        socket.connect(&subscribers).unwrap();
        let (start, end) = (r#"{"topic":"large","payload":{"a":["#, "1]}}");
        let elements = (BODY_BYTES - start.len() - end.len()) / element.len();
        let body = [start, &element.repeat(elements), end].concat();
        let frames = eventually("the largest message arrives", || {
            gateway.post(&body).assert_accepted();
            (socket.poll(zmq::POLLIN, 200).unwrap() > 0).then(|| socket.recv_multipart(0).unwrap())
        });
        println!("{encoding} {element}: {} bytes of body, {} bytes of payload", body.len(), frames[1].len());
        assert_eq!(frames[0], b"large");
        let mut publisher = RawPeer::speaking(&publishers, "PUB");
        publisher.send_all(&message(&[b"relayed", &frames[1]]));
        let mut received = std::iter::repeat_with(|| socket.recv_multipart(0).unwrap());
        assert!(received.find(|received| received[0] == b"relayed").unwrap()[1] == frames[1]);
    }
}

/// libzmq sends its heartbeats between any two frames.
#[test]
fn a_publisher_with_heartbeats_is_not_interrupted() {
    let rig = Rig::open(Side::Hub, Transport::Tcp);
    let publisher = zmq::Context::new().socket(zmq::PUB).unwrap();
    publisher.set_heartbeat_ivl(5).unwrap();
    publisher.set_heartbeat_timeout(30_000).unwrap();
    publisher.connect(rig.publishers()).unwrap();
    let subscriber = Subscriber::connected(&rig.subscribers, "heart");
    eventually("the publisher is connected", || {
        publisher.send_multipart(["heart", "probe"], 0).unwrap();
        subscriber.next_within(PROBE_TIMEOUT)
    });
    let padding = "x".repeat(40_000);
    for number in 0..2_000 {
        publisher.send_multipart(["heart", &format!("{number} {padding}")], 0).unwrap();
        let is_probe = |message: &Message| message.payload == "probe";
        let next = std::iter::repeat_with(|| subscriber.next()).find(|message| !is_probe(message)).unwrap();
        assert_eq!(next.payload, format!("{number} {padding}"));
    }
}

const MESSAGES: u32 = 500;
const TOPIC: &str = "order/";

#[test]
fn all_subscribers_receive_posts_and_messages_of_publishers_in_one_order_and_one_that_comes_alone_at_once() {
    let mut rig = Rig::heard_by_all(Side::Hub, Transport::Tcp);
    let other = Subscriber::connected(&rig.subscribers, "");
    other.wait_until_subscribed(&rig.gateway);
    let posting = [0, 1].map(|sender| {
        let mut poster = Poster::to(&rig.gateway, &format!("{TOPIC}{sender}"), 100);
        Task::start(move |_over| (0..MESSAGES).for_each(|number| assert!(poster.post(), "{number} is refused")))
    });
    let publishing = [2, 3].map(|sender| {
        let mut peer = rig.publisher();
        let topic = format!("{TOPIC}{sender}");
        Task::start(move |_over| {
            for number in 0..MESSAGES {
                peer.send_all(&message(&[topic.as_bytes(), payload(number, "").as_bytes()]));
                // The answer comes when the hub has read the message, so that the senders take turns.
                peer.round_trip();
            }
        })
    });
    posting.into_iter().chain(publishing).for_each(Task::join);
    let receive_all = |subscriber: &Subscriber| -> Vec<Message> {
        let all = std::iter::repeat_with(|| subscriber.next()).filter(|message| message.topic.starts_with(TOPIC));
        all.take(4 * MESSAGES as usize).collect()
    };
    let received = receive_all(&rig.subscriber);
    let mut next = BTreeMap::new();
    for message in &received {
        let expected = next.entry(&message.topic).or_insert(0);
        assert_eq!(number(message.payload.as_bytes()), *expected, "{} in another order", message.topic);
        *expected += 1;
    }
    let turns = received.windows(2).filter(|two| two[0].topic != two[1].topic).count();
    println!("{turns} times, a message follows that of another sender");
    assert!(received == receive_all(&other), "another subscriber receives another order");
    // What was posted is counted as published, and only there.
    rig.wait_forwarded(2 * MESSAGES);

    // It is not written with the next one, or after a pause. The fastest counts, since the machine may be busy.
    let mut publisher = rig.publisher();
    let times = (0..10).map(|number| {
        let sent = Instant::now();
        publisher.send_all(&message(&[b"alone", payload(number, "").as_bytes()]));
        assert_received(&rig, &[number]);
        sent.elapsed()
    });
    let fastest = times.min();
    assert!(fastest < Some(Duration::from_millis(50)), "{fastest:?}");
    rig.assert_unharmed("many senders");
}
