//! Bodies however they are framed and however they arrive.

use super::FINE;
use crate::support::rig::Rig;
use crate::support::subscriber::Message;

#[test]
fn a_chunked_body_is_joined_and_its_extensions_and_trailers_are_dropped() {
    let rig = Rig::start();
    let mut client = rig.client();
    let message = Message::new("t", r#"{"content":"0\r\n\r\n is no end"}"#);
    for size in [1, 7, 1000] {
        client.exchange(&rig.request(message.body()).chunked(size)).assert_accepted();
        assert_eq!(rig.bus.next(), message, "in chunks of {size}");
    }
}

#[test]
fn a_request_byte_by_byte_is_the_same_request() {
    let rig = Rig::start();
    let message = Message::new("t", r#"{"a": [1, 2.50]}"#);
    for request in [rig.request(message.body()), rig.request(message.body()).chunked(5)] {
        let mut client = rig.client();
        request.bytes().iter().for_each(|byte| client.send([*byte]));
        client.response().assert_accepted();
        assert_eq!(rig.bus.next(), message);
    }
}

#[test]
fn a_body_that_ends_before_its_length_is_never_published() {
    let rig = Rig::start();
    for request in [rig.request(FINE).field("Content-Length", "1000"), rig.request(FINE).chunked(5)] {
        let mut cut = request.bytes();
        cut.pop();
        let mut client = rig.client();
        client.send(cut);
        drop(client);
    }
    rig.assert_bus_is_quiet();
}
