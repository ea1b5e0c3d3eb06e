//! The answers of a connection without a clock.

pub(crate) use crate::support::answer::Answer;

/// Reads all of `wire`, and leaves interim answers out. Panics at the first byte that is not as RFC 9112 §4 has it.
pub(crate) fn read(mut wire: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !wire.is_empty() {
        let (answer, rest) = read_one(wire);
        wire = rest;
        // RFC 9110 §15.2: whether an interim answer comes may depend on how the bytes were split.
        if answer.status >= 200 {
            answers.push(answer);
        }
    }
    answers
}

fn read_one(wire: &[u8]) -> (Answer, &[u8]) {
    let take = |has_content| Answer::take(wire, has_content).unwrap().expect("a whole answer");
    let (mut answer, mut length) = take(false);
    // RFC 9110 §9.3.2: the answer to HEAD has a length and no content. All content here is a JSON object.
    if wire[length..].starts_with(b"{") {
        (answer, length) = take(true);
    }
    answer.check().unwrap();
    assert!(!answer.lacks_content() || answer.status >= 400, "HEAD is never accepted");
    assert!(answer.status < 200 || answer.field("Date") == Some("Sun, 06 Nov 1994 08:49:37 GMT"), "{answer:?}");
    (answer, &wire[length..])
}
