//! The lines in flight, before a server that answers as the test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{file, lines, send_with};
use crate::support::PATIENCE;
use crate::support::process::{Process, Transcript};
use crate::support::settings_file::{SettingsFile, enabled, token};

/// A server that is no gateway, and answers as a test wants.
struct Server {
    listener: TcpListener,
    settings: SettingsFile,
}

/// A connection that the server has accepted.
struct Accepted(BufReader<TcpStream>);

const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{\"status\":\"accepted\"}";

impl Server {
    fn start() -> Self {
        let settings = SettingsFile::absent();
        settings.write(&enabled(&token("x")));
        Self { listener: TcpListener::bind("127.0.0.1:0").unwrap(), settings }
    }

    fn send(&self, input: impl Into<Stdio>) -> Command {
        let mut command = send_with(&self.settings);
        command.args(["--url", &format!("http://{}", self.listener.local_addr().unwrap())]).stdin(input);
        command
    }

    fn accept(&self) -> Accepted {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Accepted(BufReader::new(stream))
    }
}

impl Accepted {
    /// Returns the topic of the next request.
    fn request(&mut self) -> String {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the connection has ended");
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()["topic"].as_str().unwrap().to_owned()
    }

    fn requests(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.request()).collect()
    }

    fn answer(&mut self, answer: &[u8]) {
        self.0.get_mut().write_all(answer).unwrap();
    }
}

fn topics(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("t/{number}")).collect()
}

#[test]
fn sixty_four_lines_are_in_flight() {
    let server = Server::start();
    let mut send = Process::spawn(&mut server.send(file(&lines(100))));
    let mut connection = server.accept();
    assert_eq!(connection.requests(64), topics(1..=64));
    connection.0.get_ref().set_nonblocking(true).unwrap();
    assert!(connection.0.fill_buf().is_err(), "a 65th request");
    connection.0.get_ref().set_nonblocking(false).unwrap();
    connection.answer(&TAKEN.repeat(64));
    assert_eq!(connection.requests(36), topics(65..=100));
    connection.answer(&TAKEN.repeat(36));
    assert_eq!(send.wait_exit(PATIENCE).code(), Some(0));
}

#[test]
fn lines_of_a_broken_connection_are_in_doubt_and_sent_no_second_time() {
    let server = Server::start();
    for keeps_going in [false, true] {
        let mut send = server.send(file(&lines(100)));
        let mut send = Process::spawn(send.args(keeps_going.then_some("--keep-going")));
        let mut connection = server.accept();
        assert_eq!(connection.requests(64), topics(1..=64));
        connection.answer(&TAKEN.repeat(3));
        // With half of an answer, and everything read, so that the end is no reset.
        connection.answer(&TAKEN[..20]);
        drop(connection);
        if keeps_going {
            let mut connection = server.accept();
            assert_eq!(connection.requests(36), topics(65..=100));
            connection.answer(&TAKEN.repeat(36));
        }
        assert_eq!(send.wait_exit(PATIENCE).code(), Some(1));
        let Transcript { stderr, .. } = send.end();
        let doubt = "warning: lines 4-64 are in doubt, and not sent again: the gateway closed the connection";
        assert!(stderr.contains(doubt), "{stderr}");
        let end = if keeps_going { "in doubt\n" } else { "; unsent: lines 65-67 and everything behind line 67\n" };
        assert!(stderr.contains("error: 61 lines in doubt") && stderr.ends_with(end), "{stderr}");
    }
}

/// RFC 9112 §9.6: a server reads no request behind the one whose answer says that it closes the connection.
#[test]
fn lines_behind_an_answer_that_closes_are_sent_on_a_new_connection() {
    let server = Server::start();
    let mut send = Process::spawn(&mut server.send(file(&lines(10))));
    let mut connection = server.accept();
    assert_eq!(connection.requests(10), topics(1..=10));
    connection.answer(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let mut connection = server.accept();
    assert_eq!(connection.requests(9), topics(2..=10));
    connection.answer(&TAKEN.repeat(9));
    assert_eq!(send.wait_exit(PATIENCE).code(), Some(0));
}

#[test]
fn a_line_that_waits_is_sent_alone_and_what_overtook_it_is_told() {
    const LATER: &[u8] = b"HTTP/1.1 503 X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    let server = Server::start();
    let mut send = Process::spawn(&mut server.send(file(&lines(10))));
    let mut connection = server.accept();
    assert_eq!(connection.requests(10), topics(1..=10));
    let started = Instant::now();
    connection.answer(&[&TAKEN.repeat(2), LATER, TAKEN, LATER, &TAKEN.repeat(5)].concat());
    assert_eq!(connection.request(), "t/3");
    assert!(started.elapsed().as_secs_f64() >= 0.9, "it waits as told");
    connection.answer(TAKEN);
    assert_eq!(connection.request(), "t/5");
    connection.answer(TAKEN);
    assert_eq!(send.wait_exit(PATIENCE).code(), Some(0));
    let Transcript { stderr, .. } = send.end();
    assert_eq!(stderr.matches("warning:").count(), 1, "{stderr}");
    assert!(stderr.contains("6 lines behind it went ahead"), "{stderr}");
}

#[test]
fn what_is_no_gateway_is_told() {
    let server = Server::start();
    let mut send = Process::spawn(&mut server.send(file(&lines(1))));
    let mut connection = server.accept();
    connection.answer(b"220 mail.example ESMTP\r\n");
    connection.request();
    assert_eq!(send.wait_exit(PATIENCE).code(), Some(1));
    let Transcript { stderr, .. } = send.end();
    assert!(stderr.contains("line 1 is in doubt, and not sent again: what came is no answer of a gateway"), "{stderr}");
}
