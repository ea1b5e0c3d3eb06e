//! Tests of the test tools. With a client that accepts wrong responses, the other tests would prove nothing.

use crate::support::*;

/// Returns a client of a server that sends `answers` on one connection, whatever the client sends, and closes it.
fn client(answers: &'static str) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(answers.as_bytes()).unwrap();
    });
    let mut client = Client::connect(address);
    client.send("hello");
    client
}

#[test]
fn the_client_separates_responses_and_notices_the_close() {
    let mut client = client(concat!(
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-One: 1\r\n\r\nabc",
        "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 9\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ));
    assert_eq!(client.response().status, 100);
    let found = client.response();
    assert_eq!((found.status, found.content.as_slice()), (200, b"abc".as_slice()));
    assert_eq!(found.field("x-one"), Some("1"));
    assert_eq!(client.response_without_body().status, 405);
    assert_eq!(client.response().status, 204);
    client.expect_close();
}

#[test]
fn the_client_refuses_responses_that_a_lenient_client_accepts() {
    let malformed = [
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
        "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
    ];
    for answer in malformed {
        let outcome = std::panic::catch_unwind(|| client(answer).response());
        assert!(outcome.is_err(), "accepted: {answer:?}");
    }
}

#[test]
#[should_panic(expected = "bytes instead of a close")]
fn the_client_fails_on_bytes_where_a_close_is_expected() {
    client("HTTP/1.1 200 OK\r\n").expect_close();
}

#[test]
fn a_request_is_framed_by_its_length_or_in_chunks() {
    let request = Request::post("/x", "abcde").without("Content-Type");
    let text = String::from_utf8(request.bytes()).unwrap();
    assert_eq!(text, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde");
    let chunked = String::from_utf8(request.chunked(4).bytes()).unwrap();
    let (head, body) = chunked.split_once("\r\n\r\n").unwrap();
    assert!(head.ends_with("\r\nTransfer-Encoding: chunked"));
    let (first, rest) = body.split_once(";of=\"a;b\"\r\nabcd\r\n").unwrap();
    assert_eq!((first, rest.starts_with("1;of=\"a;b\"\r\ne\r\n0;last\r\n")), ("4", true));
}
