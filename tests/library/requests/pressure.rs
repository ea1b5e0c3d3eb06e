//! Load on one connection: long pipelines, large bodies, answers faster than a client takes them.

use adapter_gateway::http::Connection;
use adapter_gateway::http::connection::{ANSWER_BYTES, CloseReason, DISCARD_BYTES, Next, READ_BYTES, Waiting};

use super::bytes::{GET, LAST_CHUNK, MESSAGE, TARGET, chunk, chunked, length, message_of, post, post_to, request};
use crate::properties::connection::{End, NOTHING, TestConnection, Through, read_answers, run, whole};
use crate::properties::context::Limits;
use crate::support::compare::assert_same;

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
            let chunks = chunked(&[chunk(body.as_bytes()), LAST_CHUNK.to_vec()].concat());
            [post(body.as_bytes()), refused, chunks].concat()
        })
        .collect();
    let outcome = whole(&Limits::default(), &requests);
    let statuses: Vec<_> = outcome.answers.iter().map(|answer| answer.status).collect();
    assert_eq!((statuses, outcome.end), ([200, 404, 200].repeat(1_000), End::Open(Waiting::Request)));
    for (at, published) in outcome.published.iter().enumerate() {
        assert_eq!(String::from_utf8_lossy(&published.payload), format!(r#"{{"number":{}}}"#, at / 2));
    }
    for step in [1_021, 4_096, 65_536] {
        let stepwise = run(&Limits::default(), requests.chunks(step), Through::BodySpace);
        assert_same(format_args!("by {step}"), &stepwise, &outcome);
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
        let mut connection = TestConnection::new(&Limits::default());
        connection.feed(&request[..request.len() - body_bytes + begun_bytes], Through::Input);
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
    let wire = |body: &[u8]| [chunk(&body[..600]), chunk(&body[600..]), LAST_CHUNK.to_vec()].concat();
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
            let outcome = whole(limits, &pipeline);
            // RFC 9112 §9.6: the answer tells that it is the last, where the length says so before it is written.
            let answer = &outcome.answers[0];
            assert_eq!((answer.status, answer.closes()), (status, has_length && !is_kept), "{bytes} bytes");
            assert_eq!(outcome.published.len(), usize::from(is_kept), "{status}, {bytes} bytes");
            assert_eq!(matches!(outcome.end, End::Open(_)), is_kept);
            for step in [1, 997, 60_000] {
                let stepwise = run(limits, pipeline.chunks(step), Through::Input);
                assert_same(format_args!("{status}, {bytes} bytes by {step}"), &stepwise, &outcome);
            }
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
