//! Memory is given back after messages waited for a subscriber, or connections held parts of requests.

use super::*;
use crate::guard::rig::{OWN_TOPIC, Rig, Side, Transport, random_subscriptions, subscribed, with_subscriptions};

/// Messages that wait: their number, and the bytes of each payload.
const LARGE: (usize, usize) = (200, 1 << 20);
const SMALL: (usize, usize) = (20_000, 1 << 12);
/// The most memory that may remain above what the gateway had before.
const REMAINING_KIB: u64 = 32 * 1024;

/// A case has how the subscriber and the gateway are connected, what waits, and whether the subscriber reads it or
/// leaves. With `--connect`, all messages wait in libzmq, and none in the queue.
#[test]
fn memory_is_given_back_after_a_subscriber_of_a_bound_endpoint_or_of_a_hub_stalled() {
    let cases = [
        ("--bind", LARGE, true),
        ("--bind", LARGE, false),
        ("--bind", SMALL, true),
        ("--hub", LARGE, true),
        ("--hub", LARGE, false),
        ("--connect", LARGE, true),
    ];
    side_by_side(cases, |(way, (count, payload_bytes), is_read)| {
        let (_directory, [publishers, subscribers]) = hub_endpoints();
        // It takes one message, and no more until it reads.
        let subscriber = socket(zmq::SUB);
        subscriber.set_rcvhwm(1).unwrap();
        let builder = match way {
            "--bind" => Gateway::serve().bind(&subscribers),
            "--hub" => Gateway::serve().only_hub(&publishers, &subscribers),
            _ => Gateway::serve().connect(&subscribers),
        };
        let is_dialled = way == "--connect";
        if is_dialled { subscriber.bind(&subscribers) } else { subscriber.connect(&subscribers) }.unwrap();
        let limits = ["--max-buffered", "300000000", "--max-body", "2000000"];
        let mut gateway = builder.arguments(limits).start();
        let probe = Message::new("waiting", "{}").body();
        wait_until("a probe arrives", || {
            gateway.post(&probe);
            subscriber.poll(zmq::POLLIN, 20).unwrap() > 0
        });
        let mut client = gateway.client();
        let waiting = Message::new("waiting", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(payload_bytes)));
        let request = gateway.request(waiting.body());
        client.exchange(&request).assert_accepted();
        let before = resident_kib(gateway.id());
        (1..count).for_each(|_| client.exchange(&request).assert_accepted());
        drop(client);
        let held = resident_kib(gateway.id());
        let waiting_kib = (count * payload_bytes / 1024) as u64;
        assert!(held > before + waiting_kib * 3 / 4, "{held} KiB are held, {before} KiB before");
        if is_read {
            let is_no_probe = |frames: &Vec<Vec<u8>>| frames[1].len() > payload_bytes;
            let received = std::iter::repeat_with(|| subscriber.recv_multipart(0).unwrap());
            assert_eq!(received.filter(is_no_probe).take(count).count(), count);
        } else {
            drop(subscriber);
        }
        gateway.wait_count("queue_depth", 0);
        let lowest = eventually("the memory is given back", || {
            Some(resident_kib(gateway.id())).filter(|resident| *resident <= before + REMAINING_KIB)
        });
        let case = format!("{way}, {count} of {payload_bytes} bytes, read: {is_read}");
        println!("{case}: {before} KiB before, {held} KiB held, {lowest} KiB afterwards");
    });
}

/// Some MiB are held all the time, subscriptions or messages, and a message flows every half a second.
#[test]
fn memory_of_a_burst_is_given_back_whatever_else_is_held_and_flows() {
    const BURST: usize = 128;
    side_by_side([false, true], |holds_messages| {
        let limits = ["--max-buffered", "300000000", "--stall-timeout", "0", "--drain-timeout", "1"];
        let rig = Rig::start(Gateway::serve().arguments(limits), Side::Bind, Transport::Tcp, OWN_TOPIC);
        let peer = || RawPeer::connect(&rig.subscribers);
        let payload = format!(r#"{{"pad":"{}"}}"#, "x".repeat(1_000_000));
        let post = |topic, count| {
            let (mut client, request) =
                (rig.gateway.client(), rig.gateway.request(Message::new(topic, &payload).body()));
            (0..count).for_each(|_| client.exchange(&request).assert_accepted());
        };
        let subscriptions = random_subscriptions(&mut Random(9), 6_000, 1_000);
        let halves = subscriptions.split_at(subscriptions.len() / 2);
        let _holders = if holds_messages {
            let holders = [(); 2].map(|()| subscribed(peer(), "held"));
            post("held", 7);
            holders
        } else {
            [halves.0, halves.1].map(|half| with_subscriptions(peer(), half))
        };
        let resident = || resident_kib(rig.gateway.id());
        let before = resident();
        let staller = subscribed(peer(), "burst");
        post("burst", BURST);
        let most = resident();
        assert!(most > before + BURST as u64 * 750, "{most} KiB are held, {before} KiB before");
        drop(staller);
        let lowest = eventually("the memory is given back", || {
            thread::sleep(Duration::from_millis(500));
            post(OWN_TOPIC, 1);
            Some(resident()).filter(|resident| *resident <= before + REMAINING_KIB)
        });
        println!("messages are held: {holds_messages}: {before} KiB before, {most} KiB held, {lowest} KiB afterwards");
    });
}

/// They send parts of bodies, of heads and of records of TLS, and requests whose answers they do not read.
#[test]
fn memory_of_connections_is_given_back_whatever_they_have_held() {
    raise_descriptors();
    let body = Message::new("large", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(1_000_000))).body();
    let long_head = Request::post("/", "").field("X", &"x".repeat(1_000_000)).head();
    // A record of a handshake (RFC 8446 §5.1), with the beginning of a ClientHello.
    let record = [b"\x16\x03\x01\x40\x00\x01\x00\x3F\xFC".as_slice(), &[0; 16_000]].concat();
    side_by_side(["bodies", "heads", "answers", "records"], |held| {
        let timeouts = ["--head-timeout", "600", "--body-timeout", "600", "--max-head", "1048576"];
        let builder = Gateway::serve().arguments(timeouts);
        let gateway = if held == "records" { builder.https().start() } else { builder.start() };
        let (count, held_kib, sent) = match held {
            "bodies" => (50, 900, gateway.request(&body).bytes()[..1_000_000].to_vec()),
            "heads" => (50, 900, long_head[..1_000_000].to_vec()),
            "answers" => (1_000, 50, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(6_000)),
            _ => (2_000, 20, record.clone()),
        };
        let before = resident_kib(gateway.id());
        // With segments of usual size, the kernel holds few answers of each connection.
        let connect = || connect_after(&gateway.address().into(), |socket| socket.set_tcp_mss(1_000)).unwrap();
        let mut clients: Vec<_> = (0..count).map(|_| Client::over(connect())).collect();
        clients.iter_mut().for_each(|client| client.send(&sent));
        let most = eventually(held, || {
            Some(resident_kib(gateway.id())).filter(|resident| *resident > before + count * held_kib)
        });
        drop(clients);
        let lowest = eventually("the memory is given back", || {
            Some(resident_kib(gateway.id())).filter(|resident| *resident <= before + REMAINING_KIB)
        });
        println!("{held}: {before} KiB before, {most} KiB held, {lowest} KiB afterwards");
    });
}
