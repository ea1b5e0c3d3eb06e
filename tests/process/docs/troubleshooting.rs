//! The texts that `docs/troubleshooting.md` shows are those that the program prints.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::GATEWAY;
use super::document::Document;
use super::gateway::{Gateway, PATIENCE, TOKEN};

/// A `listen` as a child process. It is killed when dropped.
struct Listen {
    child: Child,
    log: Receiver<String>,
}

impl Listen {
    fn connect(endpoint: &str) -> Self {
        let mut command = Command::new(GATEWAY);
        command.args(["listen", "--connect", endpoint]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, log) = channel();
        // Nobody listens after the end of the test.
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, log }
    }

    /// Waits for a line of the log.
    fn wait_for(&self, line: &str) {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != line) {
            let next = self.log.recv_timeout(PATIENCE);
            seen.push(next.unwrap_or_else(|_| panic!("{line:?} is not in {seen:#?}")));
        }
    }
}

impl Drop for Listen {
    fn drop(&mut self) {
        // It fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the block of the document that shows what was seen.
fn seen(name: &str) -> String {
    Document::read("docs/troubleshooting.md").block(&format!("seen: {name}")).trim_end().to_owned()
}

fn bound(kind: zmq::SocketType) -> (zmq::Socket, String) {
    let socket = zmq::Context::new().socket(kind).unwrap();
    socket.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    socket.set_linger(0).unwrap();
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = socket.get_last_endpoint().unwrap().unwrap();
    (socket, endpoint)
}

/// Posts a body in plain http, whatever the gateway speaks, and returns the body of the answer.
fn post(url: &str, body: &str) -> String {
    let (authority, path) = url.split_once("://").unwrap().1.split_once('/').unwrap();
    let mut stream = TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /{path}?token={TOKEN} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.trim_end().to_owned()
}

#[test]
fn listen_says_what_it_is_connected_to() {
    let (_publisher, right) = bound(zmq::XPUB);
    let (_subscriber, wrong) = bound(zmq::XSUB);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let block = seen("listen");
    let lines: Vec<&str> = block.lines().collect();
    for (line, (shown, endpoint)) in lines.iter().zip([
        ("tcp://127.0.0.1:16103,", format!("{right},")),
        ("tcp://127.0.0.1:16104", format!("tcp://{free}")),
        ("tcp://127.0.0.1:16130", wrong),
    ]) {
        assert!(line.contains(shown), "{line}");
        Listen::connect(endpoint.trim_end_matches(',')).wait_for(&line.replace(shown, &endpoint));
    }
    assert_eq!(lines.len(), 3);
}

#[test]
fn a_misspelt_topic_and_another_encoding_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = format!("ipc://{}/bus", directory.path().display());
    let options = ["--plain", "--bind", &endpoint, "--check", "strict", "--encoding", "msgpack"];
    let gateway = Gateway::serve(directory.path(), &options);
    let url = gateway.listening();
    let misspelt = r#"{"topic": "core/extension/operate", "payload": {}}"#;
    assert_eq!(post(&url, misspelt), seen("strict"));

    let listen = Listen::connect(&endpoint);
    let hint = seen("encoding");
    let message = r#"{"topic":"core/extensions/operate","payload":{"extension_name":"demo","content":"start"}}"#;
    std::thread::scope(|threads| {
        let waiting = threads.spawn(move || listen.wait_for(&hint));
        // The subscription follows the handshake, and the gateway does not tell when it has arrived.
        while !waiting.is_finished() {
            assert_eq!(post(&url, message), r#"{"status":"accepted"}"#);
            std::thread::sleep(Duration::from_millis(20));
        }
        waiting.join().unwrap();
    });
}

#[test]
fn a_topic_that_nobody_subscribes_to_and_the_subscriptions_are_logged() {
    let (hub, endpoint) = bound(zmq::XSUB);
    for prefix in ["core/exts/", "scratch/extensions/command"] {
        hub.send([b"\x01", prefix.as_bytes()].concat(), 0).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::serve(directory.path(), &["--plain", "--connect", &endpoint]);
    let at = |name| seen(name).replace("tcp://127.0.0.1:16130", &endpoint);
    let url = gateway.ready();
    let (subscriptions, since) = (at("subscriptions"), Instant::now());
    while !gateway.has_logged(&subscriptions) {
        assert!(since.elapsed() < PATIENCE, "the log has no {subscriptions}");
        // A socket of libzmq sends subscriptions only when it is called.
        hub.get_events().unwrap();
        gateway.signal(Signal::USR1);
        std::thread::sleep(Duration::from_millis(20));
    }
    let misspelt = r#"{"topic": "core/extension/operate", "payload": {}}"#;
    assert_eq!(post(&url, misspelt), r#"{"status":"accepted"}"#);
    gateway.wait_for_log(&at("log"));
}

#[test]
fn http_at_the_https_port_is_answered_in_plain_text() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::serve(directory.path(), &["--bind", &format!("ipc://{}/bus", directory.path().display())]);
    assert_eq!(post(&gateway.listening(), "{}"), seen("plain http"));
}
