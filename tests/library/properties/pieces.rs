//! Ways to cut an input into pieces.

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
