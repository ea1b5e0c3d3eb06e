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

/// Returns two places that depend on all of `input`, so that the fuzzer varies them, and are the same in every run.
fn places(input: &[u8]) -> [usize; 2] {
    // The hash is FNV-1a.
    let hash = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let within = input.len() as u64 + 1;
    let mut places = [(hash >> 7) % within, (hash >> 31) % within].map(|place| place as usize);
    places.sort_unstable();
    places
}

/// Returns the ways that a property tries: whole, byte by byte, and in three pieces.
pub(crate) fn ways(input: &[u8]) -> [Vec<&[u8]>; 3] {
    let [first, second] = places(input);
    let thirds = vec![&input[..first], &input[first..second], &input[second..]];
    [vec![input], input.chunks(1).collect(), thirds]
}
