//! The requests that are sent to the gateway; reading a body as a message, and encoding its payload in MessagePack.

use std::borrow::Cow;
use std::hint::black_box;

use adapter_gateway::message::msgpack::to_json;
use adapter_gateway::message::{self as core, Check, Encoding, Message, Rules};
use gungraun::{library_benchmark, library_benchmark_group};

const LARGE_BYTES: usize = 64 * 1024;
/// A token as `demo` makes it.
pub(crate) const TOKEN: &str = "7f3a9c0e5b1d48267f3a9c0e5b1d4826";

/// The head that `wrk` sends for a message of 110 bytes.
pub(crate) const WRK_HEAD: &str = include_str!("wrk.http");

/// The head that Chromium sends when a page of another origin calls `fetch`.
pub(crate) const BROWSER_HEAD: &str = include_str!("browser.http");

/// A message of 110 bytes with a known topic.
pub(crate) const BODY: &str = "{\"topic\":\"adapter/nodes/data\",\
    \"payload\":{\"node_id\":\"eim/extension_weather\",\"content\":\"temperature is 21.5 C\"}}";

pub(crate) const HOME_AUTOMATION: &str = "{\"topic\":\"to_homeauto\",\"payload\":{\"node_id\":\"eim/node_homeassistant\",\
    \"content\":{\"type\":\"call_service\",\"domain\":\"light\",\"service\":\"turn_on\",\
    \"service_data\":{\"entity_id\":\"light.living_room\"}}}}";

/// Returns [`BODY`] with its members in the order of their keys, as clients that sort the keys send them.
pub(crate) fn payload_first() -> Vec<u8> {
    let members = BODY.strip_prefix('{').and_then(|members| members.strip_suffix('}')).unwrap();
    let (topic, payload) = members.split_once(",\"payload\":").unwrap();
    format!("{{\"payload\":{payload},{topic}}}").into_bytes()
}

/// Returns a data message that is as long as [`HOME_AUTOMATION`].
pub(crate) fn data_of_its_length() -> Vec<u8> {
    let content = "temperature is 21.5 C";
    let longer = format!("{content}{}", ".".repeat(HOME_AUTOMATION.len() - BODY.len()));
    BODY.replace(content, &longer).into_bytes()
}

/// Returns a message of [`LARGE_BYTES`], nearly all of which is one string.
pub(crate) fn long_string() -> Vec<u8> {
    large("\"", "a", "\"")
}

/// Returns a message of [`LARGE_BYTES`], nearly all of which is an array of small objects.
pub(crate) fn small_objects() -> Vec<u8> {
    large("\"\",\"values\":[{}", ",{\"id\":1234,\"on\":true,\"name\":\"lamp\",\"level\":0.5}", "]")
}

/// Returns a message of at most [`LARGE_BYTES`] whose content repeats `part`.
fn large(start: &str, part: &str, end: &str) -> Vec<u8> {
    let before = format!("{{\"topic\":\"adapter/nodes/data\",\"payload\":{{\"node_id\":\"n\",\"content\":{start}");
    let after = format!("{end}}}}}");
    let times = (LARGE_BYTES - before.len() - after.len()) / part.len();
    [before, part.repeat(times), after].concat().into_bytes()
}

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
