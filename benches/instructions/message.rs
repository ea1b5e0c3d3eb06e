//! Reading a body as a message, and encoding its payload in MessagePack.

use std::borrow::Cow;
use std::hint::black_box;

use adapter_gateway::message::msgpack::to_json;
use adapter_gateway::message::{self as core, Check, Encoding, Message, Rules};
use gungraun::{library_benchmark, library_benchmark_group};

use super::inputs::{BODY, HOME_AUTOMATION, data_of_its_length, long_string, payload_first, small_objects};

library_benchmark_group!(name = messages, benchmarks = [parse, encode]);

#[library_benchmark(setup = checked)]
#[bench::known(BODY.into(), Check::Known)]
#[bench::payload_first(payload_first(), Check::Known)]
#[bench::envelope(BODY.into(), Check::Envelope)]
#[bench::home_automation(HOME_AUTOMATION.into(), Check::Known)]
#[bench::data_of_its_length(data_of_its_length(), Check::Known)]
#[bench::long_string(long_string(), Check::Known)]
#[bench::small_objects(small_objects(), Check::Known)]
fn parse((body, rules): (&'static [u8], Rules)) -> Message<'static> {
    black_box(core::parse(black_box(body), black_box(rules)).unwrap())
}

fn checked(body: Vec<u8>, check: Check) -> (&'static [u8], Rules) {
    let body = body.leak();
    let rules = Rules { check, ..Rules::default() };
    assert!(core::parse(body, rules).unwrap().is_known);
    (body, rules)
}

#[library_benchmark(setup = parsed)]
#[bench::known(BODY.into())]
#[bench::long_string(long_string())]
#[bench::small_objects(small_objects())]
fn encode(message: Message<'static>) -> Cow<'static, [u8]> {
    black_box(black_box(&message).encode(Encoding::Msgpack).unwrap())
}

fn parsed(body: Vec<u8>) -> Message<'static> {
    let message = core::parse(body.leak(), Rules::default()).unwrap();
    let encoded = message.encode(Encoding::Msgpack).unwrap();
    assert_eq!(to_json(&encoded).unwrap().as_bytes(), message.payload);
    message
}
