//! Generated streams of the bus's peers: what they have said is what a plain reader says, at every split. And random
//! steps of the exchange of their messages: the results are those of a plain model.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::properties::exchange::exchange;
use crate::properties::peers::{ROLES, agrees, read_plainly};
use crate::requests::random::cut;
use crate::support::handshake;

/// Lengths on both sides of every bound: of a short head, of a payload, of a command and of a topic.
const LENGTHS: [usize; 16] = [0, 1, 2, 5, 7, 16, 17, 100, 255, 256, 300, 301, 512, 513, 1_024, 1_025];

/// A frame: mostly one that a real peer sends, with a length that is short, or close to a bound.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let marks: [&[u8]; 11] = [
        b"",
        b"",
        b"\x01",
        b"\x00",
        b"\x02",
        b"\x09SUBSCRIBE",
        b"\x06CANCEL",
        b"\x04PING\0\0",
        b"\x04PING",
        b"\x04PONG",
        b"\x05OTHER",
    ];
    let flags = prop_oneof![20 => select(vec![0_u8, 0, 1, 4, 2, 3, 6]), 1 => any::<u8>()];
    let body_bytes = prop_oneof![0..4_usize, select(LENGTHS.to_vec())];
    (flags, select(marks.to_vec()), body_bytes, 0..3_u8).prop_map(|(flags, mark, body_bytes, filler)| {
        let mut body = mark.to_vec();
        body.resize(mark.len() + body_bytes, b'a' + filler);
        let length = (body.len() as u64).to_be_bytes();
        let is_long = flags & 2 != 0 || body.len() > 255;
        let mut bytes = vec![flags | if is_long { 2 } else { 0 }];
        bytes.extend_from_slice(if is_long { &length } else { &length[7..] });
        bytes.extend(body);
        bytes
    })
}

/// What a peer sends: a handshake, frames, and perhaps one changed byte.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let socket_type = select(vec!["PUB", "XPUB", "SUB", "XSUB", "SUB", "PUB", "REQ"]);
    let change = proptest::option::weighted(0.2, (any::<Index>(), any::<u8>()));
    (socket_type, vec(frame(), 0..40), change).prop_map(|(socket_type, frames, change)| {
        let mut bytes = handshake(socket_type).concat();
        bytes.extend(frames.concat());
        if let Some((at, byte)) = change {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_split_of_a_stream_is_read_as_a_plain_reader_says(bytes in stream(), places in vec(any::<Index>(), 0..20)) {
        for role in ROLES {
            let expected = read_plainly(&bytes, role);
            agrees(&[&bytes], role, &expected);
            agrees(&cut(&bytes, &places), role, &expected);
            agrees(&bytes.chunks(1).collect::<Vec<_>>(), role, &expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_have_the_results_of_a_plain_model(configuration in 0..6_u8, steps in vec(any::<[u8; 3]>(), 0..400)) {
        exchange(&[&[configuration][..], steps.as_flattened()].concat());
    }
}
