//! The program of each target, which has the target's name.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| adapter_gateway_fuzz::run(env!("CARGO_BIN_NAME"), input));
