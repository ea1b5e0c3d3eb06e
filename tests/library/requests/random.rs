//! Random requests, in random pieces, with random faults.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use adapter_gateway::http::connection::Waiting;

use super::{GET, LAST_CHUNK, MESSAGE, chunk, chunked, in_chunks, post, post_to, request};
use crate::properties::connection::{End, Limits, Outcome, Through, run, whole};
use crate::properties::framing;
use crate::support::compare::assert_same;

/// One request: one that leaves the connection open, or now and then one that does not.
fn one() -> impl Strategy<Value = Vec<u8>> {
    let body = r#"\{"topic":"t","payload":\{"x":"[a-z]{0,20}"\}\}"#;
    let pieces = vec(any::<Index>(), 0..4);
    prop_oneof![
        4 => body.prop_map(|body| post(body.as_bytes())),
        4 => (body, pieces).prop_map(|(body, at)| chunked(&encode(body.as_bytes(), &at))),
        1 => Just(post(b"{}")),
        1 => Just(post_to("/", MESSAGE)),
        1 => Just(GET.to_vec()),
        1 => Just([b"\r\n", GET].concat()),
        1 => Just(request("HEAD", "/", b"", b"")),
        1 => Just(request("GET", "/", b"Transfer-Encoding: chunked\r\n", &in_chunks(MESSAGE, MESSAGE.len()))),
        1 => select(vec![
            String::from_utf8(post(MESSAGE)).unwrap().replacen("HTTP/1.1", "HTTP/1.0", 1).into_bytes(),
            request("POST", super::TARGET, b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}"),
            chunked(b"2\r\n{}x"),
            b"garbage\r\n\r\n".to_vec(),
        ]),
    ]
}

/// Returns `content` in chunks that end at these places.
fn encode(content: &[u8], at: &[Index]) -> Vec<u8> {
    let chunks: Vec<_> = cut(content, at).into_iter().filter(|run| !run.is_empty()).flat_map(chunk).collect();
    [chunks.as_slice(), LAST_CHUNK].concat()
}

fn cut<'o>(bytes: &'o [u8], at: &[Index]) -> Vec<&'o [u8]> {
    let mut places: Vec<_> = at.iter().map(|index| index.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Where bytes are replaced, how many at most, and by which.
type Edit = (Index, usize, Vec<u8>);

pub(crate) fn edit() -> impl Strategy<Value = Edit> {
    let byte = prop_oneof![select(b"\r\n \t\0:;,0f\x7f\x80".to_vec()), any::<u8>()];
    (any::<Index>(), 0..2_usize, vec(byte, 0..2))
}

pub(crate) fn edited(mut bytes: Vec<u8>, edits: Vec<Edit>) -> Vec<u8> {
    for (at, removed, inserted) in edits {
        let at = at.index(bytes.len() + 1);
        bytes.splice(at..(at + removed).min(bytes.len()), inserted);
    }
    bytes
}

/// Returns the outcome of the requests one by one, each on a connection of its own, up to the first that closes.
fn one_by_one(requests: &[Vec<u8>]) -> Outcome {
    let mut all = whole(&Limits::default(), b"");
    for request in requests {
        let one = whole(&Limits::default(), request);
        all.answers.extend(one.answers);
        all.published.extend(one.published);
        all.end = one.end;
        if all.end != End::Open(Waiting::Request) {
            break;
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The last one resembles the one before it, of which nothing is left.
    #[test]
    fn a_pipeline_is_its_requests(
        mut requests in vec(one(), 1..8), edits in vec(edit(), 0..3), at in vec(any::<Index>(), 0..6),
    ) {
        requests.push(edited(requests[requests.len() - 1].clone(), edits));
        let bytes = requests.concat();
        for through in [Through::Input, Through::BodySpace] {
            assert_same("a pipeline", &run(&Limits::default(), cut(&bytes, &at), through), &one_by_one(&requests));
        }
    }

    #[test]
    fn chunks_hold_what_was_put_into_them(
        content in vec(any::<u8>(), 0..200),
        chunks in vec(any::<Index>(), 0..8),
        extension in "([ \t]{0,2};[ \t]{0,2}[a-z]{1,4}([ \t]?=[ \t]?(\"([ -!#-\\[\\]-~]|\\\\[ -~]){0,4}\"|[a-z]{1,4}))?){0,2}",
        trailers in "([A-Za-z-]{1,6}:[ -~]{0,6}\r\n){0,3}",
        behind in vec(any::<u8>(), 0..10),
        edits in vec(edit(), 1..4),
        at in vec(any::<Index>(), 0..6),
    ) {
        let runs = cut(&content, &chunks).into_iter().filter(|run| !run.is_empty());
        let chunk = |run: &[u8]| [format!("{:X}{extension}\r\n", run.len()).as_bytes(), run, b"\r\n"].concat();
        let mut wire: Vec<_> = runs.flat_map(chunk).collect();
        wire.extend(format!("0{extension}\r\n{trailers}\r\n").bytes());
        let body_bytes = wire.len();
        wire.extend(&behind);
        assert_same("chunks", &framing::decode(&cut(&wire, &at)), &Ok(Some((content, body_bytes))));
        framing::chunked(&edited(wire, edits));
    }
}
