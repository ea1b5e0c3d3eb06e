//! Publishers of the hub whose messages nobody takes. What the hub holds for them is bounded, whoever of them is still
//! there, and it is given back.

use super::rig::{MOST_HELD_KIB, OWN_TOPIC, REMAINING_KIB, Rig, SEND_TIMEOUT};
use super::traffic::subscribed;
use crate::delivery::stopping::count;
use crate::support::peer::message;
use crate::support::*;

const MIB: usize = 1 << 20;

/// Connects a publisher that sends as many of these messages as are taken, and leaves. It may be refused: a publisher
/// that has left keeps its place until the hub has read what it has sent.
fn publish_and_leave(rig: &Rig, message: &[u8], count: usize) {
    let mut peer = RawPeer::connect(rig.publishers());
    peer.give_up_after(SEND_TIMEOUT);
    for part in handshake("PUB") {
        peer.send(&part);
    }
    let _taken = (0..count).take_while(|_| peer.send(message)).count();
}

/// Waits until a publisher that comes now is read. Until then it is refused, or held back.
fn wait_for_publisher(rig: &Rig) {
    let topic = format!("{OWN_TOPIC}/other");
    let (sent, expected) = (message(&[topic.as_bytes(), b"{}"]), Message::new(&topic, "{}"));
    eventually("a publisher is read", || {
        publish_and_leave(rig, &sent, 1);
        rig.subscriber.next_within(SEND_TIMEOUT).map(|message| assert_eq!(message, expected))
    });
    while rig.subscriber.next_within(SEND_TIMEOUT).is_some() {}
}

/// Publishers leave one after the other while nothing is passed on. Afterwards the gateway serves others, and has given
/// the memory back.
fn publishers_that_come_and_go((publishers, messages, payload_bytes): (usize, usize, usize)) {
    let mut rig = Rig::of_patient_hub(["--drain-timeout", "1"]);
    let staller = subscribed(RawPeer::connect(&rig.endpoints.subscribers), "flood");
    let flood = message(&[b"flood", &vec![b' '; payload_bytes]]);
    let mut most_kib = 0;
    for _ in 0..publishers {
        publish_and_leave(&rig, &flood, messages);
        most_kib = most_kib.max(rig.growth_kib());
    }
    println!("{publishers} publishers of {messages} messages of {payload_bytes} bytes: {most_kib} KiB more");
    assert!(most_kib < MOST_HELD_KIB, "{most_kib} KiB more");
    // A subscriber finds a place, whatever publishers have left behind.
    let others = count(&rig.gateway.stats(), "subscriptions") as usize;
    let newcomer = subscribed(RawPeer::connect(&rig.endpoints.subscribers), "newcomer");
    rig.gateway.wait_count("subscriptions", others + 1);
    drop((staller, newcomer));
    rig.assert_served();
    wait_for_publisher(&rig);
    eventually("the memory is given back", || (rig.growth_kib() < REMAINING_KIB).then_some(()));
    rig.assert_unharmed("publishers that come and go");
}

/// Few publishers of large messages, many of small ones, and some of many messages, which take no place of others.
#[test]
fn publishers_that_come_and_go_cost_a_bounded_amount() {
    side_by_side([(12, 200, MIB), (3_000, 200, 100), (254, 1_000, 300)], publishers_that_come_and_go);
}
