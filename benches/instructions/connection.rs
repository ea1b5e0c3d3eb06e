//! A connection's bytes in, its answers out, and the messages handed to a gate that only counts them.

use adapter_gateway::proto::Connection;
use adapter_gateway::proto::connection::{Next, Waiting};
use gungraun::{library_benchmark, library_benchmark_group};

use super::gate::CountingGate;
use super::inputs::{BODY, BROWSER_HEAD, TOKEN, WRK_HEAD};

library_benchmark_group!(name = connections, benchmarks = [receive]);

/// Requests in one read.
const PIPELINED: usize = 16;

/// A connection that was answered once, before the same arrives again.
struct TestConnection {
    connection: Connection,
    gate: CountingGate,
    pieces: Vec<String>,
    out: Vec<u8>,
    answers: Vec<u8>,
}

#[library_benchmark(setup = open, teardown = check)]
#[bench::whole(vec![wrk()], "200 OK")]
#[bench::browser(vec![[BROWSER_HEAD, BODY].concat()], "200 OK")]
#[bench::head_and_body_apart(vec![WRK_HEAD.into(), BODY.into()], "200 OK")]
#[bench::pipelined_by_16(vec![wrk().repeat(PIPELINED)], "200 OK")]
#[bench::chunked(vec![chunked()], "200 OK")]
#[bench::token_refused(vec![wrk().replace(TOKEN, "7f3a9c0e5b1d48267f3a9c0e5b1d4827")], "401 Unauthorized")]
fn receive(mut connection: Box<TestConnection>) -> Box<TestConnection> {
    connection.receive();
    connection
}

impl TestConnection {
    fn receive(&mut self) {
        for piece in &self.pieces {
            let next = self.connection.receive(piece.as_bytes(), &mut self.out, &self.gate);
            assert!(matches!(next, Next::Read(Waiting::Another | Waiting::Body)));
        }
    }
}

fn wrk() -> String {
    [WRK_HEAD, BODY].concat()
}

/// The body in two chunks.
fn chunked() -> String {
    let head = WRK_HEAD.replace("Content-Length: 110", "Transfer-Encoding: chunked");
    let (first, second) = BODY.split_at(BODY.len() / 2);
    format!("{head}{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n", first.len(), second.len())
}

fn open(pieces: Vec<String>, status: &str) -> Box<TestConnection> {
    let requests = pieces.concat().matches("POST ").count();
    let (connection, gate) = (Connection::default(), CountingGate::default());
    let mut connection = TestConnection { connection, gate, pieces, out: Vec::new(), answers: Vec::new() };
    connection.receive();
    connection.answers.clone_from(&connection.out);
    connection.out.clear();

    let answers = String::from_utf8_lossy(&connection.answers);
    assert_eq!(answers.matches(&format!("HTTP/1.1 {status}\r\n")).count(), requests);
    assert_eq!(connection.gate.published(), if status == "200 OK" { requests } else { 0 });
    Box::new(connection)
}

/// The second time was as the first.
fn check(connection: Box<TestConnection>) {
    let TestConnection { out, answers, .. } = *connection;
    assert_eq!(out, answers);
}
