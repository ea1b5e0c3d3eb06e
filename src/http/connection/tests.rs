//! What a connection holds of what it has read. What it answers is the question of `tests/library/requests`.

use std::sync::Arc;

use super::{Connection, DISCARD_BYTES};
use crate::http::context::Context;
use crate::http::policy::Policy;
use crate::message::publish::{Payload, Publish, Unavailable};
use crate::sync::budget::Budget;
use crate::terms::token::Token;

/// The most that a connection may hold for a few bytes.
const FEW_BYTES: usize = 64;

/// The endpoint, with the token.
const TARGET: &str = "/api/message?token=t0ken";

const BODY: &[u8] = br#"{"topic":"t","payload":{}}"#;

/// A publisher that takes every message.
struct Taker;

impl Publish for Taker {
    fn available(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    fn publish(&self, _topic: &str, _payload: Payload<'_>) -> Result<(), Unavailable> {
        Ok(())
    }
}

/// Returns a connection that has received these pieces, each in one read.
fn received(pieces: &[&[u8]]) -> Connection {
    let mut context = Context::new(Policy::default(), Budget::new(1 << 20), Arc::default(), Taker);
    context.token = Token::new("t0ken");
    let mut connection = Connection::default();
    for piece in pieces {
        context.answers.clear();
        connection.receive(*piece, &mut context);
    }
    connection
}

fn request(target: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The first byte of the next request comes with the end of a large body.
#[test]
fn the_beginning_of_a_request_does_not_keep_the_buffer_of_the_request_before() {
    let large =
        [br#"{"topic":"t","payload":{"x":""#, vec![b'x'; DISCARD_BYTES as usize - 1_000].as_slice(), b"\"}}"].concat();
    for target in [TARGET, "/elsewhere"] {
        let requests = [request(target, &large).as_slice(), b"P"].concat();
        for cut in [1, 10, 140, 1_000, requests.len() - 2, requests.len() - 1] {
            let connection = received(&[&requests[..cut], &requests[cut..]]);
            assert_eq!((connection.requests(), connection.held.as_slice()), (1, b"P".as_slice()));
            assert!(connection.held.capacity() <= FEW_BYTES, "{} bytes, cut at {cut}", connection.held.capacity());
        }
    }
}

/// Each read ends within a head.
#[test]
fn the_end_of_a_pipeline_does_not_keep_the_buffer_of_its_reads() {
    let request = request(TARGET, BODY);
    let cut_head = &request[..request.len() - BODY.len() - 1];
    let pipeline = [request.repeat(1_000).as_slice(), cut_head].concat();
    let connection = received(&pipeline.chunks(70 * request.len() + 1).collect::<Vec<_>>());
    assert_eq!((connection.requests(), connection.held.as_slice()), (1_000, cut_head));
    assert!(connection.held.capacity() <= cut_head.len(), "{}", connection.held.capacity());
}

/// A head in pieces is not copied for each of them: the buffer doubles.
#[test]
fn a_head_in_pieces_is_held_in_a_buffer_that_doubles() {
    let head = [b"POST /api/message HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 10_000]].concat();
    let pieces: Vec<_> = head.chunks(1).collect();
    let connection = received(&pieces);
    assert_eq!(connection.held, head);
    assert!(connection.held.capacity() <= 2 * head.len(), "{}", connection.held.capacity());
}
