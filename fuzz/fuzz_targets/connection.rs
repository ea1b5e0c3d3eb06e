#![no_main]

#[path = "../../tests/library/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|input: &[u8]| properties::connection(input));
