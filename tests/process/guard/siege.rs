//! Peers that leave, are silent, are too many, or subscribe to too much. Others are served meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::rig::{OWN_TOPIC, PROBE_TIMEOUT, Rig, SIDES, Side, Transport};
use super::traffic::{random_subscriptions, with_subscriptions};
use crate::endurance::assert_idle;
use crate::support::*;

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
        let came_in = std::thread::scope(|threads| {
            for endpoint in &endpoints {
                threads.spawn(|| {
                    let mut silent: VecDeque<_> = (0..SILENT).map(|_| RawPeer::connect(endpoint)).collect();
                    while !is_over.load(Ordering::Relaxed) {
                        // Those that were closed are opened again.
                        for _ in 0..SILENT {
                            let mut peer = silent.pop_front().unwrap();
                            let is_ended = peer.is_ended();
                            silent.push_back(if is_ended { RawPeer::connect(endpoint) } else { peer });
                            reopened.fetch_add(usize::from(is_ended), Ordering::Relaxed);
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            eventually("the places are taken", || (reopened.load(Ordering::Relaxed) > SILENT).then_some(()));
            let came_in = (0..HONEST).filter(|_| rig.serves_newcomer_within(Duration::from_secs(5))).count();
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
            eventually("it is greeted or refused", || last.is_readable_within(Duration::ZERO).then_some(()));
            let mut clients: Vec<_> = (0..20).map(|_| rig.gateway.client()).collect();
            rig.gateway.serve_each(&mut clients);
            assert!(!last.is_ended(), "HTTP answered only after the last stranger had left");
            assert_idle(&rig.gateway, "while strangers are connected");
            for stranger in &mut strangers {
                stranger.read_to_end();
            }
            rig.gateway.post(FINE).assert_accepted();
        }
        rig.gateway.expect_log(", which does not speak: as many as may be are in their handshake");
        assert!(rig.gateway.stats()["peers"]["refused"].as_u64().unwrap() > 0);
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
    eventually("the newcomer is refused", || (rig.gateway.stats()["peers"]["refused"] != 0).then_some(()));
    rig.gateway.expect_log(": as many peers as it may have are connected");
    assert_eq!(rig.gateway.stats()["subscriptions"], PEERS + 1);
    drop(peers.pop());
    // libzmq tries again until there is a place.
    eventually("a place is free", || {
        rig.gateway.post(Message::new("newcomer", "{}").body()).assert_accepted();
        (newcomer.poll(zmq::POLLIN, 50).unwrap() > 0).then_some(())
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
    rig.gateway.expect_log("the bus ignores a subscription");
    // The subscriber of the rig has one of the places. The bus thread counts at the end of its turn.
    eventually("every subscription is counted", || {
        let stats = rig.gateway.stats();
        (stats["peers"]["subscriptions_refused"] == 4 * 100 + 1 && stats["subscriptions"] == MOST).then_some(())
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
