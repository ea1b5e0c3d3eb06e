//! Peers that leave, are silent, are too many, or subscribe to too much: others are served, and the cost is bounded.

use super::*;

/// What it costs when a peer leaves does not depend on what others have subscribed to.
#[test]
fn peers_that_leave_cost_little() {
    side_by_side(SIDES, |side| {
        const LEAVING: usize = 300;
        /// Of the processor, of which a second has 100.
        const MOST_TICKS: u64 = 300;
        let mut rig = Rig::open(side, Transport::Tcp);
        let mut random = Random(1);
        let staying = [(); 2].map(|()| {
            let peer = RawPeer::connect(&rig.subscribers);
            with_subscriptions(peer, &random_subscriptions(&mut random, 335, 1_020))
        });
        rig.assert_served();
        let before = cpu_ticks(rig.gateway.id());
        (0..LEAVING).for_each(|_| drop(RawPeer::speaking(&rig.subscribers, "SUB")));
        rig.assert_served();
        let ticks = cpu_ticks(rig.gateway.id()) - before;
        println!("{LEAVING} peers have left: {ticks} ticks");
        assert!(ticks < MOST_TICKS, "{ticks} ticks for {LEAVING} peers that left");
        drop(staying);
        rig.assert_unharmed("peers that leave");
    });
}

/// A peer that is in its handshake takes no place of one that speaks, and the oldest of them goes.
#[test]
fn silent_connections_lock_nobody_out() {
    side_by_side(SIDES, |side| {
        const SILENT: usize = 360;
        const HONEST: usize = 40;
        raise_descriptors();
        let mut rig = Rig::open(side, Transport::Tcp);
        let (is_over, reopened) = (AtomicBool::new(false), AtomicUsize::new(0));
        let endpoints = rig.endpoints();
        let came_in = thread::scope(|threads| {
            for endpoint in &endpoints {
                threads.spawn(|| {
                    let mut silent: Vec<_> = (0..SILENT).map(|_| RawPeer::connect(endpoint)).collect();
                    while !is_over.load(Ordering::Relaxed) {
                        for ended in silent.iter_mut().filter_map(|peer| peer.is_ended().then_some(peer)) {
                            *ended = RawPeer::connect(endpoint);
                            reopened.fetch_add(1, Ordering::Relaxed);
                        }
                        thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            wait_until("the places are taken", || reopened.load(Ordering::Relaxed) > SILENT);
            let lateness = Lateness::watch();
            let in_time = || Duration::from_secs(5) + lateness.allowance();
            let came_in = (0..HONEST).filter(|_| rig.serves_newcomer_within(in_time())).count();
            is_over.store(true, Ordering::Relaxed);
            came_in
        });
        println!("{came_in} of {HONEST} came in beside {SILENT}, reopened {} times", reopened.into_inner());
        assert!(came_in * 100 >= HONEST * 95, "{came_in} of {HONEST} honest peers came in");
        rig.assert_unharmed("silent connections");
    });
}

/// There are more strangers than the limit of descriptors permits. HTTP answers at once, and no thread loops.
#[test]
fn silent_strangers_hold_up_neither_http_nor_the_bus() {
    side_by_side(SIDES, |side| {
        raise_descriptors();
        let builder = Gateway::serve().after("ulimit -n 300").arguments(["--drain-timeout", "1"]);
        let mut rig = Rig::start(builder, side, Transport::Tcp, OWN_TOPIC);
        for endpoint in &rig.endpoints() {
            let mut strangers: Vec<_> = (0..320).map(|_| RawPeer::connect(endpoint)).collect();
            let last = strangers.last_mut().unwrap();
            wait_until("it is greeted or refused", || last.is_readable_within(Duration::ZERO));
            let mut clients: Vec<_> = (0..20).map(|_| rig.gateway.client()).collect();
            rig.gateway.serve_each(&mut clients);
            assert!(!last.is_ended(), "HTTP answered only after the last stranger had left");
            assert_idle(&rig.gateway, "while strangers are connected");
            for stranger in &mut strangers {
                stranger.read_to_end();
            }
            rig.gateway.post(FINE).assert_accepted();
        }
        rig.gateway.wait_log(", one of too many connections in their handshake");
        assert!(rig.peers("refused") > 0);
        if matches!(side, Side::Hub) {
            rig.assert_publisher_served();
        }
        rig.assert_unharmed("silent strangers");
    });
}

#[test]
fn one_peer_more_than_the_bound_is_refused() {
    /// The subscriber of the rig has one of the 256 places.
    const PEERS: usize = 255;
    raise_descriptors();
    let mut rig = Rig::open(Side::Bind, Transport::Tcp);
    let context = zmq::Context::new();
    let mut peers: Vec<_> = (0..PEERS).map(|number| rig.connect_libzmq(&context, &number.to_string())).collect();
    rig.gateway.wait_count("subscriptions", PEERS + 1);
    let newcomer = rig.connect_libzmq(&context, "newcomer");
    wait_until("the newcomer is refused", || rig.peers("refused") != 0);
    rig.gateway.wait_log(": all places for its peers are taken");
    assert_eq!(rig.gateway.stats()["subscriptions"], PEERS + 1);
    drop(peers.pop());
    // libzmq tries again until there is a place.
    wait_until("a place is free", || {
        rig.gateway.post(Message::new("newcomer", "{}").body()).assert_accepted();
        newcomer.poll(zmq::POLLIN, 50).unwrap() > 0
    });
    rig.gateway.terminate();
}

#[test]
fn a_subscription_beyond_the_bounds_is_logged_and_counted() {
    /// What one peer may subscribe to.
    const MOST_OF_PEER: usize = 4_800;
    /// What all peers together may subscribe to.
    const MOST: usize = 19_200;
    let mut rig = Rig::open(Side::Bind, Transport::Tcp);
    let mut random = Random(5);
    let peers = [(); 4].map(|()| {
        let peer = RawPeer::connect(&rig.subscribers);
        with_subscriptions(peer, &random_subscriptions(&mut random, MOST_OF_PEER + 100, 20))
    });
    rig.gateway.wait_log("the bus ignores a subscription");
    // The subscriber of the rig has one of the places. The bus thread counts at the end of its turn.
    wait_until("every subscription is counted", || {
        let stats = rig.gateway.stats();
        stats["peers"]["subscriptions_refused"] == 4 * 100 + 1 && stats["subscriptions"] == MOST
    });
    // The first subscription of each peer passes.
    let newcomer = Subscriber::connected(&rig.subscribers, "somewhere/else");
    let message = Message::new("somewhere/else", "{}");
    eventually("the newcomer is served", || {
        rig.gateway.post(message.body()).assert_accepted();
        newcomer.next_within(PROBE_TIMEOUT)
    });
    drop(peers);
    rig.assert_unharmed("subscriptions beyond the bounds");
}

/// What one peer alone sends of each shape, in bytes: much more than may be held. And what the gateway may gain by it.
const ALONE_BYTES: usize = 8 << 20;
const GROWTH_BY_ONE_KIB: u64 = 16 * 1024;
/// What each of many peers sends, and what the gateway may gain by all of them: it holds 19,200 prefixes of 1 KiB.
const EACH_BYTES: usize = 512 << 10;
const GROWTH_BY_MANY_KIB: u64 = 40 * 1024;
/// The most that is sent at once, except for a single subscription that is longer.
const PART_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
enum Prefixes {
    Random(usize),
    /// They differ in their last eight bytes.
    Alike(usize),
    /// They differ in the highest or lowest value of each byte, so that a table of all values would be large.
    Extreme(usize),
}

const SHAPES: [(Prefixes, Form); 9] = [
    (Prefixes::Random(4), Form::Message),
    (Prefixes::Random(8), Form::Command),
    (Prefixes::Extreme(20), Form::Message),
    (Prefixes::Random(100), Form::Message),
    (Prefixes::Alike(20), Form::Command),
    (Prefixes::Random(1_024), Form::Message),
    (Prefixes::Alike(1_024), Form::Command),
    (Prefixes::Random(70_000), Form::Command),
    (Prefixes::Random(5_000_000), Form::Message),
];

impl Prefixes {
    fn nth(self, number: u64) -> Vec<u8> {
        match self {
            Self::Random(length) => Random(number).many_bytes(length),
            Self::Alike(length) => {
                let mut prefix = vec![b'a'; length];
                prefix[length - 8..].copy_from_slice(&number.to_be_bytes());
                prefix
            }
            Self::Extreme(length) => (0..length).map(|bit| if number >> bit & 1 == 0 { 0 } else { 255 }).collect(),
        }
    }
}

/// Sends subscriptions of this shape, and waits until they were read. Each `peer_number` has prefixes of its own.
fn subscribe_much(peer: &mut RawPeer, (prefixes, form): (Prefixes, Form), total_bytes: usize, peer_number: u64) {
    let mut numbers = peer_number << 32..;
    let mut sent = 0;
    while sent < total_bytes {
        let mut part = Vec::new();
        while part.len() < PART_BYTES.min(total_bytes) {
            part.extend(numbers.next().map(|number| subscribe(form, &prefixes.nth(number))).unwrap());
        }
        peer.send_all(&part);
        sent += part.len();
    }
    peer.round_trip();
}

#[test]
fn one_greedy_subscriber_costs_a_bounded_amount() {
    side_by_side([(Side::Bind, Transport::Tcp), (Side::Hub, Transport::Ipc)], |(side, transport)| {
        let mut rig = Rig::open(side, transport);
        for shape in SHAPES {
            let mut peer = RawPeer::speaking(&rig.subscribers, "SUB");
            subscribe_much(&mut peer, shape, ALONE_BYTES, 1);
            // The connection stays while others are served.
            rig.assert_served();
            rig.assert_gained_less_than(GROWTH_BY_ONE_KIB, &format!("{shape:?}"));
        }
        rig.assert_unharmed("a greedy subscriber");
    });
}

#[test]
fn many_greedy_subscribers_cost_a_bounded_amount() {
    const PEERS: usize = 120;
    let long = [(Prefixes::Random(1_024), Form::Command)];
    side_by_side([(Side::Hub, &SHAPES[..]), (Side::Bind, &long)], |(side, shapes)| {
        let rig = Rig::open(side, Transport::Tcp);
        let mut peers: Vec<_> = (0..PEERS).map(|_| RawPeer::speaking(&rig.subscribers, "XSUB")).collect();
        for (number, peer) in peers.iter_mut().enumerate() {
            subscribe_much(peer, shapes[number % shapes.len()], EACH_BYTES, number as u64);
        }
        rig.assert_gained_less_than(GROWTH_BY_MANY_KIB, &format!("{PEERS} peers"));
        rig.assert_unharmed("greedy subscribers");
    });
}
