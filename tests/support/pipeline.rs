//! A pipeline of a hundred requests: accepted, refused by their path, refused by their method, and chunked, in turn.

use std::io::{Read, Write};

use super::http::Client;
use super::request::Request;
use super::subscriber::{Message, Subscriber};

/// Sends the pipeline in one write and checks the answers and the published messages. `request` makes a request with
/// the given body that the gateway accepts.
pub(crate) fn assert_answered_in_order<S: Read + Write>(
    mut client: Client<S>,
    subscriber: &Subscriber,
    request: impl Fn(String) -> Request,
) {
    let message = |number: usize| Message::new("t", &format!(r#"{{"number": {number}}}"#));
    let mut bytes = Vec::new();
    for number in 0..100 {
        let request = request(message(number).body());
        let request = match number % 4 {
            1 => request.target("/elsewhere"),
            2 => request.method("PUT"),
            3 => request.chunked(8),
            _ => request,
        };
        bytes.extend(request.bytes());
    }
    client.send(bytes);
    for number in 0..100 {
        assert_eq!(client.response().status, [200, 404, 405, 200][number % 4], "number {number}");
    }
    for number in (0..100).filter(|number| [0, 3].contains(&(number % 4))) {
        assert_eq!(subscriber.next(), message(number));
    }
}
