//! Limits that are too large for a file, at the limit and one past it.

use adapter_gateway::http::h1::head::TARGET_BYTES;
use adapter_gateway::terms::limits;

use super::bytes::{LAST_CHUNK, MESSAGE, TARGET, chunk, chunked, length, message_of, post, post_to, request};
use crate::properties::connection::{Through, run, whole};
use crate::properties::context::Limits;
use crate::support::compare::assert_same;

/// Returns the status of the only answer to `bytes`, which is the same whole and in pieces of several sizes.
#[track_caller]
fn status(bytes: &[u8]) -> u16 {
    let outcome = whole(&Limits::default(), bytes);
    // Large inputs do not come byte by byte, which would take longer than all other tests.
    let smallest = if bytes.len() < 100_000 { 1 } else { 997 };
    for step in [smallest, 1_021, 8_191] {
        let stepwise = run(&Limits::default(), bytes.chunks(step), Through::BodySpace);
        assert_same(format_args!("by {step}"), &stepwise, &outcome);
    }
    let [answer] = outcome.answers.as_slice() else { panic!("{} answers", outcome.answers.len()) };
    assert_eq!(answer.closes(), answer.status != 200, "{}", answer.status);
    answer.status
}

/// Returns a message with `padding` more bytes in its head.
fn padded(padding: usize) -> Vec<u8> {
    request("POST", TARGET, &[&length(MESSAGE.len())[..], b"X:", &vec![b'x'; padding], b"\r\n"].concat(), MESSAGE)
}

/// The limits of a chunk's line, of all extensions and of the trailer are those of the decoder, whose unit tests have
/// them.
#[test]
fn each_limit_is_met_and_its_next_byte_refused() {
    let head_rest = limits::Limits::DEFAULT.head_bytes - (padded(0).len() - MESSAGE.len());
    let target = |bytes: usize| format!("{TARGET}&{}", "x".repeat(bytes - TARGET.len() - 1));
    let by_target = |bytes| post_to(&target(bytes), MESSAGE);
    let body_limit = usize::try_from(limits::Limits::DEFAULT.body_bytes).unwrap();
    let by_length = |bytes| post(&message_of(bytes));
    let by_chunks = |bytes| {
        let chunks: Vec<_> = message_of(bytes).chunks(40_000).flat_map(chunk).collect();
        chunked(&[chunks.as_slice(), LAST_CHUNK].concat())
    };
    // `message` makes one that has so many bytes of what is limited.
    let check = |limit, message: &dyn Fn(usize) -> Vec<u8>, refused| {
        assert_eq!([limit, limit + 1].map(|bytes| status(&message(bytes))), [200, refused], "{limit}: {refused}");
    };
    check(head_rest, &padded, 431);
    check(TARGET_BYTES, &by_target, 414);
    check(body_limit, &by_length, 413);
    check(body_limit, &by_chunks, 413);
    // RFC 9110 §9.3.2: the answer has no content, which nothing that follows its head could be.
    let head = request("HEAD", &target(TARGET_BYTES + 1), b"", b"");
    let answer = &whole(&Limits::default(), &head).answers[0];
    assert_eq!((answer.status, answer.content.len()), (414, 0));
}

/// Each byte is read once, also byte by byte: if the head were read from its start each time, this would take hours.
#[test]
fn a_long_head_costs_no_more_for_its_pieces() {
    let mut limits = Limits::default();
    limits.policy.limits.head_bytes = 1024 * 1024;
    let head = padded(limits.policy.limits.head_bytes - 1_000);
    assert_eq!(run(&limits, head.chunks(1), Through::Input).answers[0].status, 200);
}
