//! Heads and bodies whose end two readers could find at different places: they are answered with 400, the connection is
//! closed, and nothing of them is published.

use super::FINE;
use crate::support::fixture::Fixture;

/// What the contract lists. `{T}` stands for the right target, and [`head`] adds the content type.
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
    ("a chunk extension without a name", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1a;\r\n"),
    ("a chunk extension of two names", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1a;a b\r\n"),
    ("a chunk extension without a value", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1a;a=\r\n"),
    ("a chunk extension with an open quote", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1a;a=\"b\r\n"),
    ("a chunk size that ends in LF", "POST {T} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1a\n"),
];

/// Returns the head with all that a message needs. So only the fault can be the reason for a refusal, and a lenient
/// reader would publish the message that follows.
fn head(fixture: &Fixture, malformed: &str) -> String {
    let typed = "\r\nContent-Type: application/json\r\n\r\n";
    malformed.replace("{T}", &fixture.gateway.target()).replacen("\r\n\r\n", typed, 1)
}

/// A request that is smuggled in would stand in the place of the body, or after it.
#[test]
fn an_ambiguous_request_is_400_and_closes_the_connection_and_nothing_behind_it_is_read() {
    let fixture = Fixture::start();
    let request = String::from_utf8(fixture.request(FINE).bytes()).unwrap();
    for (fault, malformed) in MALFORMED {
        for following in [FINE, &request] {
            let mut client = fixture.client();
            client.send(head(&fixture, malformed) + following);
            let response = client.response();
            assert_eq!(response.status, 400, "{fault}: {response:?}");
            response.problem();
            client.expect_close();
        }
    }
    fixture.assert_nothing_more_published();
}

/// RFC 9110 §9.3.2: a client of HEAD takes content for the next answer.
#[test]
fn no_answer_to_head_has_content_whatever_is_wrong_with_it() {
    let fixture = Fixture::start();
    let target = fixture.gateway.target();
    let (long_target, long_field) = ("x".repeat(9_000), "x".repeat(20_000));
    for (status, head) in [
        (400, format!("HEAD {target} HTTP/1.1\r\n\r\n")),
        (400, format!("HEAD {target} HTTP/1.1\nHost: a\n\n")),
        (400, "HEAD HTTP/1.1\r\nHost: a\r\n\r\n".into()),
        (404, "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".into()),
        (405, format!("HEAD {target} HTTP/1.0\r\n\r\n")),
        (414, format!("HEAD /{long_target} HTTP/1.1\r\nHost: a\r\n\r\n")),
        (431, format!("HEAD {target} HTTP/1.1\r\nHost: a\r\nX: {long_field}\r\n\r\n")),
        (501, format!("HEAD {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n")),
        (505, format!("HEAD {target} HTTP/2.0\r\nHost: a\r\n\r\n")),
    ] {
        let mut client = fixture.client();
        client.send(head);
        assert_eq!(client.response_without_body().status, status);
        client.expect_close();
    }
}
