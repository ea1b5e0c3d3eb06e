//! A head that arrives whole is read; and a connection's bytes in, its answers out, and the messages handed to a publisher
//! that only counts them.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use adapter_gateway::http::connection::{CloseReason, Next, Waiting};
use adapter_gateway::http::h1::RequestFault;
use adapter_gateway::http::h1::head::{Head, HeadSearch};
use adapter_gateway::http::h1::request::Framing;
use adapter_gateway::http::policy::Policy;
use adapter_gateway::http::{Connection, Context};
use adapter_gateway::message::Check;
use adapter_gateway::message::publish::{Payload, Publish, Unavailable};
use adapter_gateway::sync::budget::Budget;
use adapter_gateway::terms::limits::Limits;
use adapter_gateway::terms::token::Token;
use gungraun::{library_benchmark, library_benchmark_group};

use super::message::{BODY, BROWSER_HEAD, TOKEN, WRK_HEAD};

library_benchmark_group!(name = heads, benchmarks = [parse]);
library_benchmark_group!(name = connections, benchmarks = [receive]);

const REFUSED_STRICTLY: &str = "422 Unprocessable Content";

#[library_benchmark(setup = checked)]
#[bench::wrk(WRK_HEAD)]
#[bench::browser(BROWSER_HEAD)]
fn parse(head: &'static str) {
    black_box(&read(black_box(head)));
}

fn checked(head: &'static str) -> &'static str {
    let (read, head_bytes) = read(head).unwrap().unwrap();
    assert_eq!((read.request.framing, head_bytes), (Framing::Length(BODY.len() as u64), head.len()));
    head
}

fn read(head: &str) -> Result<Option<(Head<'_>, usize)>, RequestFault> {
    let mut search = HeadSearch::START;
    search.read(head.as_bytes(), head.len(), false)
}

struct TestConnection {
    connection: Connection,
    context: Context<Counter>,
    pieces: Vec<String>,
    /// The answers to the same before.
    answers: Vec<u8>,
}

#[library_benchmark(setup = answered_once, teardown = check)]
#[bench::whole(vec![wrk()], "200 OK")]
#[bench::browser(vec![browser()], "200 OK")]
#[bench::head_and_body_apart(vec![WRK_HEAD.into(), BODY.into()], "200 OK")]
#[bench::pipelined_by_16(vec![wrk().repeat(16)], "200 OK")]
#[bench::chunked(vec![chunked()], "200 OK")]
#[bench::token_refused(
    args = (vec![wrk().replace(TOKEN, "7f3a9c0e5b1d48267f3a9c0e5b1d4827")], "401 Unauthorized"), setup = fresh
)]
// It has the same length, and three edits lead to a known topic. It costs at most twice as much as one that is accepted.
#[bench::topic_refused(vec![wrk().replace("adapter/nodes/data", "adapter/node/datum")], REFUSED_STRICTLY)]
#[bench::first_wrk(args = (vec![wrk()], "200 OK"), setup = fresh)]
#[bench::first_browser(args = (vec![browser()], "200 OK"), setup = fresh)]
fn receive(mut connection: Box<TestConnection>) -> Box<TestConnection> {
    connection.receive();
    connection
}

impl TestConnection {
    fn receive(&mut self) {
        for piece in &self.pieces {
            let next = self.connection.receive(piece.as_bytes(), &mut self.context);
            assert!(matches!(
                next,
                Next::Read(Waiting::Request | Waiting::Body) | Next::Close(CloseReason::Unauthorized)
            ));
        }
    }
}

#[derive(Default)]
struct Counter(Cell<usize>);

impl Publish for Counter {
    fn available(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    fn publish(&self, _topic: &str, _payload: Payload<'_>) -> Result<(), Unavailable> {
        self.0.set(self.0.get() + 1);
        Ok(())
    }
}

fn context(status: &str) -> Context<Counter> {
    let budget = Budget::new(Limits::DEFAULT.buffered_bytes);
    let mut policy = Policy::default();
    if status == REFUSED_STRICTLY {
        policy.rules.check = Check::Strict;
    }
    let mut context = Context::new(policy, budget, Arc::default(), Counter::default());
    context.token = Token::new(TOKEN);
    context
}

fn wrk() -> String {
    [WRK_HEAD, BODY].concat()
}

fn browser() -> String {
    [BROWSER_HEAD, BODY].concat()
}

fn chunked() -> String {
    let head = WRK_HEAD.replace("Content-Length: 110", "Transfer-Encoding: chunked");
    let (first, second) = BODY.split_at(BODY.len() / 2);
    format!("{head}{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n", first.len(), second.len())
}

/// A connection on which the same was answered once.
fn answered_once(pieces: Vec<String>, status: &str) -> Box<TestConnection> {
    let requests = pieces.concat().matches("POST ").count();
    let (connection, context) = (Connection::default(), context(status));
    let mut connection = TestConnection { connection, context, pieces, answers: Vec::new() };
    connection.receive();
    connection.answers.clone_from(&connection.context.answers);
    connection.context.answers.clear();

    let answers = String::from_utf8_lossy(&connection.answers);
    assert_eq!(answers.matches(&format!("HTTP/1.1 {status}\r\n")).count(), requests);
    assert_eq!(connection.context.publisher.0.get(), if status == "200 OK" { requests } else { 0 });
    Box::new(connection)
}

fn fresh(pieces: Vec<String>, status: &str) -> Box<TestConnection> {
    let mut connection = answered_once(pieces, status);
    connection.connection = Connection::default();
    // The connections of a worker share the buffer of their answers.
    let answers = std::mem::take(&mut connection.context.answers);
    connection.context = context(status);
    connection.context.answers = answers;
    connection
}

fn check(connection: Box<TestConnection>) {
    let TestConnection { context, answers, .. } = *connection;
    assert_eq!(context.answers, answers);
}
