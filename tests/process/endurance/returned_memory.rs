//! Messages wait for a subscriber that does not read, or bodies for their last byte: the memory is given back
//! afterwards.

use crate::guard::rig::{OWN_TOPIC, Rig, Side, Transport};
use crate::guard::traffic::{random_subscriptions, subscribed, with_subscriptions};
use crate::support::*;

/// Messages that wait: their number, and the bytes of each payload.
const LARGE: (usize, usize) = (200, 1 << 20);
const SMALL: (usize, usize) = (20_000, 1 << 12);
/// The most memory that may remain above what the gateway had before.
const REMAINING_KIB: u64 = 32 * 1024;

/// A case has how the subscriber and the gateway are connected, what waits, and whether the subscriber reads it or
/// leaves. With `--connect`, all messages wait in libzmq, and none in the queue. Each takes some 20 s, of which the
/// gateway waits for most.
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

/// More than a few MiB are held all the time, subscriptions or messages for a subscriber that does not read, and
/// messages flow all the time, one every half a second.
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
            std::thread::sleep(Duration::from_millis(500));
            post(OWN_TOPIC, 1);
            Some(resident()).filter(|resident| *resident <= before + REMAINING_KIB)
        });
        println!("messages are held: {holds_messages}: {before} KiB before, {most} KiB held, {lowest} KiB afterwards");
    });
}

/// No message passes, so nothing but the bodies themselves tells the gateway that it held much.
#[test]
fn memory_of_abandoned_bodies_is_given_back() {
    const CLIENTS: u64 = 16;
    let gateway = Gateway::serve().start();
    let body = Message::new("large", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(1_000_000))).body();
    let request = gateway.request(body).bytes();
    let (_, unfinished) = request.split_last().unwrap();
    let before = resident_kib(gateway.id());
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::connect(gateway.address())).collect();
    clients.iter_mut().for_each(|client| client.send(unfinished));
    let resident = || resident_kib(gateway.id());
    wait_until("the bodies are held", || resident() > before + CLIENTS * 900);
    drop(clients);
    wait_until("the memory is given back", || resident() < before + CLIENTS * 300);
}
