//! Heads and bodies whose end could be understood in two ways: 400, the connection is over, and
//! nothing of it reaches the bus.

use super::FINE;
use crate::support::rig::Rig;

/// What the contract lists. `{T}` stands for the right target; [`head`] adds the content type.
#[rustfmt::skip]
const MALFORMED: &[(&str, &str)] = &[
    ("both lengths", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("repeated length", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\nContent-Length: 26\r\n\r\n"),
    ("list of lengths", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length: 26, 26\r\n\r\n"),
    ("signed length", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length: +26\r\n\r\n"),
    ("negative length", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"),
    ("hexadecimal length", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1a\r\n\r\n"),
    ("length in two words", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length: 2 6\r\n\r\n"),
    ("empty length", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"),
    ("length that overflows", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551642\r\n\r\n"),
    ("bare CR in a value", "POST {T} HTTP/1.1\r\nHost: a\r\nX-A: b\rc\r\nContent-Length: 26\r\n\r\n"),
    ("bare LF after a field", "POST {T} HTTP/1.1\r\nHost: a\nContent-Length: 26\r\n\r\n"),
    ("bare LF after the request line", "POST {T} HTTP/1.1\nHost: a\r\nContent-Length: 26\r\n\r\n"),
    ("NUL in a value", "POST {T} HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\nContent-Length: 26\r\n\r\n"),
    ("space before a colon", "POST {T} HTTP/1.1\r\nHost: a\r\nContent-Length : 26\r\n\r\n"),
    ("obs-fold", "POST {T} HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\nContent-Length: 26\r\n\r\n"),
    ("no Host", "POST {T} HTTP/1.1\r\nContent-Length: 26\r\n\r\n"),
    ("two Hosts", "POST {T} HTTP/1.1\r\nHost: a\r\nHost: a\r\nContent-Length: 26\r\n\r\n"),
    ("no host in Host", "POST {T} HTTP/1.1\r\nHost: a b\r\nContent-Length: 26\r\n\r\n"),
    ("a path in Host", "POST {T} HTTP/1.1\r\nHost: a/b\r\nContent-Length: 26\r\n\r\n"),
    ("chunked in 1.0", "POST {T} HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("a target beyond ASCII", "POST {T}&é HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\n\r\n"),
    ("a chunk size that is not hex", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1g\r\n"),
    ("a signed chunk size", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+1a\r\n"),
    ("a chunk size that overflows", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000001a\r\n"),
    ("a chunk without its CRLF", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n"),
    ("a chunk size that ends in LF", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1a\n"),
];

/// The head with all that a message needs, so that nothing but the fault can be the reason for a
/// refusal, and a lenient reader would publish what follows.
fn head(rig: &Rig, malformed: &str) -> String {
    let typed = "\r\nContent-Type: application/json\r\n\r\n";
    malformed.replace("{T}", &rig.gateway.target()).replacen("\r\n\r\n", typed, 1)
}

#[test]
fn what_could_be_read_in_two_ways_is_400_and_the_end() {
    let rig = Rig::start();
    for (fault, malformed) in MALFORMED {
        let mut client = rig.client();
        client.send(head(&rig, malformed) + FINE);
        let response = client.response();
        assert_eq!(response.status, 400, "{fault}: {response:?}");
        response.problem();
        client.expect_close();
    }
    rig.assert_bus_is_quiet();
}

/// The request behind the broken one is where smuggling would show.
#[test]
fn nothing_behind_a_malformed_request_is_read_as_a_request() {
    let rig = Rig::start();
    let behind = String::from_utf8(rig.request(FINE).bytes()).unwrap();
    for (fault, malformed) in MALFORMED {
        let mut client = rig.client();
        client.send(head(&rig, malformed) + &behind);
        assert_eq!(client.response().status, 400, "{fault}");
        client.expect_close();
    }
    rig.assert_bus_is_quiet();
}
