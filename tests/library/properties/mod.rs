//! What must hold of the core for every input: one function for each fuzz target, and the means to drive a connection
//! without I/O.
//!
//! `fuzz/lib.rs` includes it by path, with what it takes of `tests/support`. `fuzz_seeds` replays what fuzzing has found
//! on stable Rust, and other tests of this program draw from it.

#![allow(dead_code, reason = "each of these uses a part of it")]
#![allow(unused_imports, reason = "likewise")]

mod addresses;
pub(crate) mod connection;
mod documents;
mod exchange;
pub(crate) mod framing;
mod peers;
mod subscribers;

/// Panics if the bytes break the property.
type Property = fn(&[u8]);

pub(crate) const ALL: [(&str, Property); 14] = [
    ("head", framing::head),
    ("framing", framing::framing),
    ("target_query", framing::target_query),
    ("chunked", framing::chunked),
    ("connection", connection::connection),
    ("split", connection::split),
    ("message", documents::message),
    ("msgpack", documents::msgpack),
    ("settings", documents::settings),
    ("zmtp", peers::zmtp),
    ("subscriptions", subscribers::subscriptions),
    ("exchange", exchange::exchange),
    ("translation", documents::translation),
    ("addresses", addresses::addresses),
];

/// Returns the ways that a property tries: whole, byte by byte, and in three pieces. Where these end depends on all of
/// `input`, so that the fuzzer varies it, and is the same in every run.
pub(crate) fn ways(input: &[u8]) -> [Vec<&[u8]>; 3] {
    // The hash is FNV-1a.
    let add = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325, add);
    let mut places = [(hash >> 7), (hash >> 31)].map(|place| (place % (input.len() as u64 + 1)) as usize);
    places.sort_unstable();
    let [first, second] = places;
    let thirds = vec![&input[..first], &input[first..second], &input[second..]];
    [vec![input], input.chunks(1).collect(), thirds]
}
