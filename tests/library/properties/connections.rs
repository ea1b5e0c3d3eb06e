//! Whole connections: what [`TestConnection`] asserts of every step and every outcome, under limits that are met.

use adapter_gateway::message::{Check, Rules, Vocabulary};

use super::answers;
use super::connection::{End, Outcome, TestConnection, Through, run, whole};
use super::context::Limits;
use super::pieces::ways;
use crate::support::compare::assert_same;

/// Returns limits so small that a short input meets them.
fn tight() -> Limits {
    let mut tight = Limits { buffered_bytes: 60, queue: 3, ..Limits::default() };
    (tight.policy.limits.head_bytes, tight.policy.limits.body_bytes) = (160, 80);
    tight
}

/// Returns limits under which the messages of the known topics are published in the newer vocabulary.
fn translating() -> Limits {
    let mut translating = Limits::default();
    translating.policy.rules = Rules { vocabulary: Vocabulary::Newer, check: Check::Envelope };
    translating
}

/// A connection, ended in each of the ways in which it can end.
pub(crate) fn connection(input: &[u8]) {
    for limits in [Limits::default(), tight()] {
        let Outcome { answers, published, end } = whole(&limits, input);
        for give_up in [TestConnection::end_of_input, TestConnection::time_out] {
            let mut connection = TestConnection::new(&limits);
            connection.feed(input, Through::Input);
            give_up(&mut connection);
            connection.feed(input, Through::Input);
            let ended = connection.outcome();
            assert!(matches!(ended.end, End::Closed(_)), "{:?}", ended.end);
            assert_same("giving up publishes nothing", &ended.published, &published);
            assert!(ended.answers.starts_with(&answers) && ended.answers.len() <= answers.len() + 1);
        }
        finishing(&limits, input, end);
    }
}

/// Checks that the request that was begun is answered, and nothing else.
fn finishing(limits: &Limits, input: &[u8], end: End) {
    let mut connection = TestConnection::new(limits);
    connection.feed(input, Through::Input);
    if connection.connection.finish() {
        return;
    }
    let before = answers::read(&connection.wire).len();
    connection.feed(input, Through::Input);
    let after = connection.outcome();
    assert!(after.answers.len() <= before + 1, "one request at most was in flight: {end:?}");
}

/// A connection in pieces, which must make no difference.
pub(crate) fn split(input: &[u8]) {
    for limits in [Limits::default(), tight(), translating()] {
        let outcome = whole(&limits, input);
        for pieces in ways(input) {
            for through in [Through::Input, Through::BodySpace] {
                let how = format_args!("{} pieces, {through:?}", pieces.len());
                assert_same(how, &run(&limits, pieces.iter().copied(), through), &outcome);
            }
        }
    }
}
