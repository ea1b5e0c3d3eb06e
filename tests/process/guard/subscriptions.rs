//! Subscriptions of any number and length cost a bounded amount of memory, and nothing else.

use super::rig::{Rig, Side, Transport};
use crate::support::*;

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

const LONG_PREFIXES: (Prefixes, Form) = (Prefixes::Random(1_024), Form::Command);

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

/// Sends subscriptions of this shape, `total_bytes` altogether, and waits until they were read. Each `peer_number` has
/// prefixes of its own.
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
    side_by_side([(Side::Hub, &SHAPES[..]), (Side::Bind, &[LONG_PREFIXES])], |(side, shapes)| {
        let rig = Rig::open(side, Transport::Tcp);
        let mut peers: Vec<_> = (0..PEERS).map(|_| RawPeer::speaking(&rig.subscribers, "XSUB")).collect();
        for (number, peer) in peers.iter_mut().enumerate() {
            subscribe_much(peer, shapes[number % shapes.len()], EACH_BYTES, number as u64);
        }
        rig.assert_gained_less_than(GROWTH_BY_MANY_KIB, &format!("{PEERS} peers"));
        rig.assert_unharmed("greedy subscribers");
    });
}
