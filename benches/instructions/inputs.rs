//! Requests that are sent to the gateway.

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
