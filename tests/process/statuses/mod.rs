//! The contract's table of statuses, over plain http, row by row and in the order of the table.

mod bodies;
mod connections;
mod cors;
mod framing;
mod limits;
mod messages;
mod precedence;
mod refusals;
mod token;

use crate::support::answer::Answer;
use crate::support::fixture::Fixture;
use crate::support::request::Request;

pub(crate) use crate::support::request::FINE;

/// Sends a request, checks that it is refused and that the connection is closed, and returns the answer.
fn refuse_and_close(fixture: &Fixture, request: &Request) -> Answer {
    let mut client = fixture.client();
    let response = client.exchange(request);
    response.problem();
    client.expect_close();
    response
}
