//! Limits that are too large for a file, at the limit and one past it; and load on one connection: long pipelines, large
//! bodies, answers faster than a client takes them.

use adapter_gateway::http::Connection;
use adapter_gateway::http::connection::{ANSWER_BYTES, CloseReason, DISCARD_BYTES, Next, READ_BYTES, Waiting};
use adapter_gateway::http::h1::body::{CHUNK_LINE_BYTES, EXTENSION_BYTES, TRAILER_BYTES};
use adapter_gateway::http::h1::head::TARGET_BYTES;
use adapter_gateway::terms::limits;

use super::{GET, LAST_CHUNK, MESSAGE, TARGET, chunk, chunked, in_chunks, length, message_of, post, post_to, request};
use crate::properties::connection::{
    End, Limits, NOTHING, TestConnection, Through, read_answers, run, stepwise, whole,
};

/// Returns the status of the only answer to `bytes`, which is the same whole and in pieces of several sizes, and why
/// that refuses.
#[track_caller]
fn status(bytes: &[u8]) -> (u16, String) {
    // Large inputs do not come byte by byte, which would take longer than all other tests.
    let smallest = if bytes.len() < 100_000 { 1 } else { 997 };
    let outcome = stepwise(&Limits::default(), bytes, [smallest, 1_021, 8_191], Through::BodySpace);
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
    let body_limit = usize::try_from(limits::Limits::DEFAULT.body_bytes).unwrap();
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
    check(TARGET_BYTES, &|bytes| post_to(&target(bytes), MESSAGE), 414, "the request target is longer");
    check(body_limit, &|bytes| post(&message_of(bytes)), 413, "the body is larger");
    check(body_limit, &|bytes| chunked(&in_chunks(&message_of(bytes), 40_000)), 413, "the body is larger");
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

/// A request that waits at the bound itself is neither answered at once nor left behind.
#[test]
fn a_request_behind_answers_at_their_bound_is_read_next() {
    let mut context = Limits::default().context();
    let mut connection = Connection::default();
    context.answers = vec![b'x'; ANSWER_BYTES];
    assert_eq!(connection.receive(GET, &mut context), Next::Again);
    assert_eq!(context.answers.len(), ANSWER_BYTES);
    context.answers.clear();
    assert_eq!(connection.receive(NOTHING, &mut context), Next::Read(Waiting::Request));
    assert_eq!(read_answers(&context.answers).len(), 1);
}

#[test]
fn long_pipelines_lose_nothing() {
    let requests: Vec<_> = (0..1_000)
        .flat_map(|number| {
            let body = format!(r#"{{"topic":"t","payload":{{"number":{number}}}}}"#);
            let refused = post_to("/", body.as_bytes());
            let chunks = chunked(&in_chunks(body.as_bytes(), body.len()));
            [post(body.as_bytes()), refused, chunks].concat()
        })
        .collect();
    let outcome = stepwise(&Limits::default(), &requests, [1_021, 4_096, 65_536], Through::BodySpace);
    assert_eq!((outcome.statuses(), outcome.end), ([200, 404, 200].repeat(1_000), End::Open(Waiting::Request)));
    for (at, published) in outcome.published.iter().enumerate() {
        assert_eq!(String::from_utf8_lossy(&published.payload), format!(r#"{{"number":{}}}"#, at / 2));
    }
}

/// Nothing is read behind a close within a long pipeline, before and behind the bound on answers.
#[test]
fn nothing_is_read_behind_a_close() {
    for before in [1, 150, 400, 1_000] {
        let pipeline = [GET.repeat(before).as_slice(), b"BAD\r\n\r\n", &post(MESSAGE)].concat();
        let outcome = whole(&Limits::default(), &pipeline);
        assert_eq!(outcome.answers.len(), before + 1);
        assert_eq!((outcome.published.len(), outcome.end), (0, End::Closed(CloseReason::Refused)));
    }
}

/// The rest of a body of known length can be read to its final place. A body that comes whole in one read needs none,
/// and one that has begun or is longer does.
#[test]
fn the_final_place_is_offered_for_a_body_that_has_begun_or_is_long() {
    for (body_bytes, begun_bytes, is_offered) in [
        (READ_BYTES, 0, false),
        (READ_BYTES + 1, 0, true),
        (1_000, 0, false),
        (1_000, 1, true),
        (100_000, 10, true),
        (1_000, 1_000, false),
    ] {
        let request = post(&message_of(body_bytes));
        let begun = &request[..request.len() - body_bytes + begun_bytes];
        let mut connection = TestConnection::at(&Limits::default(), begun);
        let space = connection.connection.body_space();
        assert_eq!(space.is_some(), is_offered, "{begun_bytes} of {body_bytes} bytes");
        if let Some(body) = space {
            assert_eq!(body.len(), begun_bytes, "{begun_bytes} of {body_bytes} bytes");
            let capacities = body_bytes..body_bytes + 64;
            assert!(capacities.contains(&body.capacity()), "there is room for the body, and little more");
        }
    }
}

/// Bytes in the space behind the body are the next request. The allocator may give more space than was asked for.
#[test]
fn bytes_behind_the_body_in_its_final_place_are_not_lost() {
    let requests = [post(&message_of(1_000)), post(MESSAGE), post(MESSAGE)[..10].to_vec()].concat();
    for first in [200, 500, 1_100] {
        let (mut context, mut connection) = (Limits::default().context(), Connection::default());
        connection.receive(&requests[..first], &mut context);
        connection.body_space().unwrap().extend_from_slice(&requests[first..]);
        assert_eq!(connection.receive(NOTHING, &mut context), Next::Read(Waiting::Head));
        let statuses: Vec<_> = read_answers(&context.answers).iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200], "{first} bytes first");
    }
}

/// RFC 9112 §9.3: a body that is not wanted is dropped up to a bound, and a longer one closes the connection. It counts
/// from its start, however it was split, also where the buffers had room for a part of it.
#[test]
fn dropped_bodies_at_their_bound_and_one_past_it() {
    let bound = usize::try_from(DISCARD_BYTES).unwrap();
    let wire = |body: &[u8]| [chunk(&body[..600]), in_chunks(&body[600..], body.len())].concat();
    let by_chunks = |body: &[u8]| request("GET", "/", b"Transfer-Encoding: chunked\r\n", &wire(body));
    let little_room = Limits { buffered_bytes: 1_000, ..Limits::default() };
    for (bytes, is_kept) in [(bound, true), (bound + 1, false)] {
        let body = vec![b'x'; bytes];
        for (status, limits, has_length, request) in [
            (404, &Limits::default(), true, post_to("/", &body)),
            (404, &Limits::default(), false, by_chunks(&body)),
            (204, &Limits::default(), true, request("OPTIONS", TARGET, &length(bytes), &body)),
            (503, &little_room, false, chunked(&wire(&body))),
        ] {
            let pipeline = [request, post(MESSAGE)].concat();
            let outcome = stepwise(limits, &pipeline, [1, 997, 60_000], Through::Input);
            // RFC 9112 §9.6: the answer tells that it is the last, where the length says so before it is written.
            let answer = &outcome.answers[0];
            assert_eq!((answer.status, answer.closes()), (status, has_length && !is_kept), "{bytes} bytes");
            assert_eq!(outcome.published.len(), usize::from(is_kept), "{status}, {bytes} bytes");
            assert_eq!(matches!(outcome.end, End::Open(_)), is_kept);
        }
    }
}

/// Bodies in flight on several connections share the buffers, and release what they held. A body that is whole in one
/// read is not held, and needs no room.
#[test]
fn buffers_are_shared_and_released() {
    let mut context = Limits { buffered_bytes: 1_500, ..Limits::default() }.context();
    let request = post(&message_of(1_000));
    let [mut first, mut second, mut third] = [(); 3].map(|()| Connection::default());
    let mut receive = |connection: &mut Connection, input: &[u8]| {
        context.answers.clear();
        connection.receive(input, &mut context);
        read_answers(&context.answers).last().map(|answer| answer.status)
    };
    assert_eq!(receive(&mut first, &request[..500]), None, "the body is held");
    assert_eq!(receive(&mut second, &request[..500]), Some(503), "there is no room beside it");
    assert_eq!(receive(&mut third, &request), Some(200), "a body that is there needs none");
    assert_eq!(receive(&mut first, &request[500..]), Some(200));
    let [before, behind] = [&request[..500], &request[500..]];
    assert_eq!([receive(&mut third, before), receive(&mut third, behind)], [None, Some(200)], "there is room again");
}
