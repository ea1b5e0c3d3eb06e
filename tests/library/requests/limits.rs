//! Limits that are too large for a file, at the limit and one past it.

use adapter_gateway::http::h1::chunked::{CHUNK_LINE_BYTES, EXTENSION_BYTES, TRAILER_BYTES};
use adapter_gateway::http::h1::head::TARGET_BYTES;
use adapter_gateway::terms::limits;

use super::bytes::{LAST_CHUNK, MESSAGE, TARGET, chunk, chunked, length, message_of, post_to, request};
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

#[test]
fn head_bytes() {
    let rest = limits::Limits::DEFAULT.head_bytes - (padded(0).len() - MESSAGE.len());
    assert_eq!((status(&padded(rest)), status(&padded(rest + 1))), (200, 431));
}

/// Each byte is read once, also byte by byte: if the head were read from its start each time, this would take hours.
#[test]
fn a_long_head_costs_no_more_for_its_pieces() {
    let mut limits = Limits::default();
    limits.policy.limits.head_bytes = 1024 * 1024;
    let head = padded(limits.policy.limits.head_bytes - 1_000);
    assert_eq!(run(&limits, head.chunks(1), Through::Input).answers[0].status, 200);
}

#[test]
fn target_bytes() {
    let target = |bytes: usize| format!("{TARGET}&{}", "x".repeat(bytes - TARGET.len() - 1));
    let message = |bytes| post_to(&target(bytes), MESSAGE);
    assert_eq!((status(&message(TARGET_BYTES)), status(&message(TARGET_BYTES + 1))), (200, 414));
    // RFC 9110 §9.3.2: the answer has no content, which nothing that follows its head could be.
    let head = request("HEAD", &target(TARGET_BYTES + 1), b"", b"");
    let answer = &whole(&Limits::default(), &head).answers[0];
    assert_eq!((answer.status, answer.content.len()), (414, 0));
}

#[test]
fn body_bytes() {
    let limit = usize::try_from(limits::Limits::DEFAULT.body_bytes).unwrap();
    let by_length = |bytes| request("POST", TARGET, &length(bytes), &message_of(bytes));
    assert_eq!((status(&by_length(limit)), status(&by_length(limit + 1))), (200, 413));
    let by_chunks = |bytes| {
        let chunks: Vec<_> = message_of(bytes).chunks(40_000).flat_map(chunk).collect();
        chunked(&[chunks.as_slice(), LAST_CHUNK].concat())
    };
    assert_eq!((status(&by_chunks(limit)), status(&by_chunks(limit + 1))), (200, 413));
}

#[test]
fn chunk_line_bytes() {
    let line = |bytes: u32| {
        let size = format!("{:x}", MESSAGE.len());
        let zeros = "0".repeat(bytes as usize - size.len() - 2);
        chunked(&[zeros.as_bytes(), size.as_bytes(), b"\r\n", MESSAGE, b"\r\n", LAST_CHUNK].concat())
    };
    assert_eq!((status(&line(CHUNK_LINE_BYTES)), status(&line(CHUNK_LINE_BYTES + 1))), (200, 400));
}

#[test]
fn chunk_extension_bytes() {
    // All of these are 64 bytes long. White space counts too.
    for extension in [";".to_owned() + &"x".repeat(63), " ".repeat(62) + ";x", format!(";x=\"{}z\"", "\\y".repeat(29))]
    {
        let message = |extended: u32| {
            let blank = format!("1{extension}\r\n \r\n").repeat(extended as usize);
            chunked(&[blank.as_bytes(), &chunk(MESSAGE), LAST_CHUNK].concat())
        };
        let most = EXTENSION_BYTES / 64;
        assert_eq!((status(&message(most)), status(&message(most + 1))), (200, 400), "{extension}");
    }
}

#[test]
fn trailer_bytes() {
    let trailer = |bytes: u32| {
        let value = "x".repeat(bytes as usize - "X:\r\n\r\n".len());
        chunked(&[&chunk(MESSAGE)[..], b"0\r\nX:", value.as_bytes(), b"\r\n\r\n"].concat())
    };
    assert_eq!((status(&trailer(TRAILER_BYTES)), status(&trailer(TRAILER_BYTES + 1))), (200, 400));
}
