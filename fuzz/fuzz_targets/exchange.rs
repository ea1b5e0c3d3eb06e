#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| adapter_gateway_fuzz::run("exchange", input));
