#![no_main]

#[path = "../properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|input: &[u8]| properties::exchange(input));
