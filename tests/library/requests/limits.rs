//! Limits that are too large for a file, at the limit and one past it.

use adapter_gateway::http::h1::body::{CHUNK_LINE_BYTES, EXTENSION_BYTES, TRAILER_BYTES};
use adapter_gateway::http::h1::head::TARGET_BYTES;
use adapter_gateway::terms::limits;

use super::bytes::{LAST_CHUNK, MESSAGE, TARGET, chunk, chunked, length, message_of, post, post_to, request};
use crate::properties::connection::{Through, run, whole};
use crate::properties::context::Limits;
use crate::support::compare::assert_same;

/// Returns the status of the only answer to `bytes`, which is the same whole and in pieces of several sizes, and why
/// that refuses.
#[track_caller]
fn status(bytes: &[u8]) -> (u16, String) {
    let outcome = whole(&Limits::default(), bytes);
    // Large inputs do not come byte by byte, which would take longer than all other tests.
    let smallest = if bytes.len() < 100_000 { 1 } else { 997 };
    for step in [smallest, 1_021, 8_191] {
        let stepwise = run(&Limits::default(), bytes.chunks(step), Through::BodySpace);
        assert_same(format_args!("by {step}"), &stepwise, &outcome);
    }
    let [answer] = outcome.answers.as_slice() else { panic!("{} answers", outcome.answers.len()) };
    assert_eq!(answer.closes(), answer.status != 200, "{}", answer.status);
    let detail = answer.document().and_then(|problem| problem["detail"].as_str().map(str::to_owned));
    (answer.status, detail.unwrap_or_default())
}

/// Returns a message with `padding` more bytes in its head.
fn padded(padding: usize) -> Vec<u8> {
    request("POST", TARGET, &[&length(MESSAGE.len())[..], b"X:", &vec![b'x'; padding], b"\r\n"].concat(), MESSAGE)
}

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
    let by_line = |line: String| chunked(&[line.as_bytes(), b"\r\n", MESSAGE, b"\r\n", LAST_CHUNK].concat());
    let by_zeros = |bytes| by_line(format!("{:0>1$x}", MESSAGE.len(), bytes - 2));
    let by_extension = |bytes| by_line(format!("{:x};{}", MESSAGE.len(), "x".repeat(bytes - 5)));
    let by_trailer =
        |bytes| chunked(&[&chunk(MESSAGE), b"0\r\nx:".as_slice(), &vec![b'y'; bytes - 6], b"\r\n\r\n"].concat());
    // `message` makes one that has so many bytes of what is limited.
    let check = |limit, message: &dyn Fn(usize) -> Vec<u8>, refused, reason| {
        assert_eq!(status(&message(limit)), (200, String::new()), "{limit} bytes");
        let (status, detail) = status(&message(limit + 1));
        assert!(status == refused && detail.starts_with(reason), "{limit} bytes: {status}, {detail}");
    };
    check(head_rest, &padded, 431, "the head is over");
    check(TARGET_BYTES, &by_target, 414, "the request target is longer");
    check(body_limit, &by_length, 413, "the body is larger");
    check(body_limit, &by_chunks, 413, "the body is larger");
    check(CHUNK_LINE_BYTES as usize, &by_zeros, 400, "a chunk-size line");
    check(CHUNK_LINE_BYTES as usize, &by_extension, 400, "a chunk-size line");
    check(TRAILER_BYTES as usize, &by_trailer, 400, "the trailer section");
    // All of these are 64 bytes long. White space counts too.
    let quoted = format!(";x=\"{}z\"", "\\y".repeat(29));
    for extension in [format!(";{}", "x".repeat(63)), format!("{};x", " ".repeat(62)), quoted] {
        let with_extension = |byte| [b"1", extension.as_bytes(), b"\r\n", &[byte], b"\r\n"].concat();
        let by_extensions = |chunks| {
            let chunks: Vec<_> = message_of(chunks).into_iter().flat_map(with_extension).collect();
            chunked(&[chunks.as_slice(), LAST_CHUNK].concat())
        };
        let most = EXTENSION_BYTES as usize / 64;
        assert_eq!([most, most + 1].map(|chunks| status(&by_extensions(chunks)).0), [200, 400], "{extension}");
    }
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
