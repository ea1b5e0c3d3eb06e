//! Messages wait for a subscriber that does not read, or bodies for their last byte: the memory is given back
//! afterwards.

use crate::guard::rig::{OWN_TOPIC, Rig, Side, Transport};
use crate::guard::traffic::{random_subscriptions, subscribed, with_subscriptions};
use crate::support::*;

/// Messages that wait.
#[derive(Clone, Copy, Debug)]
struct Messages {
    count: usize,
    payload_bytes: usize,
}

const LARGE: Messages = Messages { count: 200, payload_bytes: 1 << 20 };
const SMALL: Messages = Messages { count: 20_000, payload_bytes: 1 << 12 };
/// The most memory that may remain above what the gateway had before.
const REMAINING_KIB: u64 = 32 * 1024;

/// How the subscriber lets the messages go.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Release {
    Read,
    Leave,
}

/// How the subscriber and the gateway are connected.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The subscriber connects to an endpoint that the gateway binds.
    Bound,
    /// The subscriber connects to the hub of the gateway.
    Hub,
    /// The gateway connects to the subscriber. All messages wait in libzmq, and none in the queue.
    Dialled,
}

fn check((way, messages, release): (Way, Messages, Release)) {
    let (_directory, [publishers, subscribers]) = hub_endpoints();
    // It takes one message, and no more until it reads.
    let subscriber = socket(zmq::SUB);
    subscriber.set_rcvhwm(1).unwrap();
    let builder = match way {
        Way::Bound => Gateway::serve().bind(&subscribers),
        Way::Hub => Gateway::serve().only_hub(&publishers, &subscribers),
        Way::Dialled => Gateway::serve().connect(&subscribers),
    };
    match way {
        Way::Bound | Way::Hub => subscriber.connect(&subscribers).unwrap(),
        Way::Dialled => subscriber.bind(&subscribers).unwrap(),
    }
    let limits = ["--max-buffered", "300000000", "--max-body", "2000000"];
    let mut gateway = builder.arguments(limits).start();
    let probe = Message::new("waiting", "{}").body();
    eventually("a probe arrives", || {
        gateway.post(&probe);
        (subscriber.poll(zmq::POLLIN, 20).unwrap() > 0).then_some(())
    });
    let mut client = gateway.client();
    let waiting = Message::new("waiting", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(messages.payload_bytes)));
    let request = gateway.request(waiting.body());
    client.exchange(&request).assert_accepted();
    let before = resident_kib(gateway.id());
    for _ in 1..messages.count {
        client.exchange(&request).assert_accepted();
    }
    drop(client);
    let held = resident_kib(gateway.id());
    let waiting_kib = (messages.count * messages.payload_bytes / 1024) as u64;
    assert!(held > before + waiting_kib * 3 / 4, "{held} KiB are held, {before} KiB before");
    match release {
        Release::Leave => drop(subscriber),
        Release::Read => {
            let is_no_probe = |frames: &Vec<Vec<u8>>| frames[1].len() > messages.payload_bytes;
            let received = std::iter::repeat_with(|| subscriber.recv_multipart(0).unwrap());
            assert_eq!(received.filter(is_no_probe).take(messages.count).count(), messages.count);
        }
    }
    gateway.wait_count("queue_depth", 0);
    let mut lowest = held;
    eventually("the memory is given back", || {
        lowest = lowest.min(resident_kib(gateway.id()));
        (lowest <= before + REMAINING_KIB).then_some(())
    });
    println!("{way:?}, {messages:?}, {release:?}: {before} KiB before, {held} KiB held, {lowest} KiB afterwards");
}

/// Each takes some 20 s, of which the gateway waits for most.
#[test]
fn memory_is_given_back_after_a_subscriber_of_a_bound_endpoint_or_of_a_hub_stalled() {
    let cases = [
        (Way::Bound, LARGE, Release::Read),
        (Way::Bound, LARGE, Release::Leave),
        (Way::Bound, SMALL, Release::Read),
        (Way::Hub, LARGE, Release::Read),
        (Way::Hub, LARGE, Release::Leave),
        (Way::Dialled, LARGE, Release::Read),
    ];
    side_by_side(cases, check);
}

/// What stays while a burst comes and goes.
#[derive(Clone, Copy, Debug)]
enum Held {
    Subscriptions,
    /// Messages for a subscriber that does not read.
    Messages,
}

/// More than a few MiB are held all the time, and messages flow all the time, one every half a second.
#[test]
fn memory_of_a_burst_is_given_back_whatever_else_is_held_and_flows() {
    const BURST: usize = 128;
    side_by_side([Held::Subscriptions, Held::Messages], |held| {
        let limits = ["--max-buffered", "300000000", "--stall-timeout", "0", "--drain-timeout", "1"];
        let rig = Rig::start(Gateway::serve().arguments(limits), Side::Bind, Transport::Tcp, OWN_TOPIC);
        let peer = || RawPeer::connect(&rig.subscribers);
        let payload = format!(r#"{{"pad":"{}"}}"#, "x".repeat(1_000_000));
        let post = |topic, count| {
            let (mut client, request) =
                (rig.gateway.client(), rig.gateway.request(Message::new(topic, &payload).body()));
            (0..count).for_each(|_| client.exchange(&request).assert_accepted());
        };
        let mut random = Random(9);
        let _holders = match held {
            Held::Subscriptions => {
                [(); 2].map(|()| with_subscriptions(peer(), &random_subscriptions(&mut random, 3_000, 1_000)))
            }
            Held::Messages => {
                let holders = [(); 2].map(|()| subscribed(peer(), "held"));
                post("held", 7);
                holders
            }
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
        println!("{held:?}: {before} KiB before, {most} KiB held, {lowest} KiB afterwards");
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
    eventually("the bodies are held", || (resident() > before + CLIENTS * 900).then_some(()));
    drop(clients);
    eventually("the memory is given back", || (resident() < before + CLIENTS * 300).then_some(()));
}
