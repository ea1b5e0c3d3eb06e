//! The command `send`: what it posts, what it says, and its exit statuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::fixture::Fixture;
use crate::support::gateway::{Builder, Gateway};
use crate::support::process::{Process, Transcript, binary};
use crate::support::settings_file::{SettingsFile, TOKEN_MARK, disabled, enabled, token};
use crate::support::subscriber::{Message, Subscriber, ipc_endpoint};
use crate::support::terminal::Terminal;
use crate::support::{PATIENCE, eventually};

/// Returns the command with the settings of this gateway, and its address.
fn send_to(gateway: &Gateway, scheme: &str) -> Command {
    let mut command = send_with(&gateway.settings);
    command.args(["--url", &format!("{scheme}://localhost:{}", gateway.address().port())]);
    command
}

fn send_with(settings: &SettingsFile) -> Command {
    let mut command = binary();
    command.args(["send", "--settings"]).arg(settings.path());
    command
}

/// Returns a file with this text, at its beginning.
fn file(text: &str) -> std::fs::File {
    use std::io::Seek;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file
}

/// Runs the command to its end, and returns its exit status and what it says on stderr.
fn run(command: &mut Command) -> (i32, String) {
    let mut process = Process::spawn(command);
    let status = process.wait_exit(PATIENCE).code().unwrap();
    let Transcript { stdout, stderr } = process.end();
    assert_eq!(stdout, "");
    assert!(!stderr.contains(TOKEN_MARK), "a token is in the output:\n{stderr}");
    (status, stderr)
}

/// Returns lines with the numbers from 1 on.
fn lines(count: usize) -> String {
    (1..=count).map(|number| format!("t/{number}\t{{\"n\":{number}}}\n")).collect()
}

fn numbered(number: usize) -> Message {
    Message::new(&format!("t/{number}"), &format!("{{\"n\":{number}}}"))
}

/// Starts a gateway that publishes to a new subscriber.
fn fixture(configure: impl Fn(Builder) -> Builder) -> Fixture {
    let subscriber = Subscriber::bound();
    let mut gateway = configure(Gateway::serve().connect(subscriber.endpoint())).start();
    gateway.wait_connected();
    Fixture { gateway, subscriber }
}

#[test]
fn one_message_is_posted_by_http_https_and_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let plain = fixture(|builder| builder);
    let https = fixture(Builder::https);
    let unix = fixture(|builder| builder.listen_at(&socket));
    let mut by_socket = send_with(&unix.gateway.settings);
    by_socket.arg("--unix").arg(&socket);
    for (fixture, mut command) in
        [(&plain, send_to(&plain.gateway, "http")), (&https, send_to(&https.gateway, "https")), (&unix, by_socket)]
    {
        // A topic of the arguments is no line of `listen`: a backslash is one.
        let (status, log) = run(command.args([r"a\tb", r#"{"n" : 1.50}"#]));
        assert_eq!((status, log.as_str()), (0, "info: 1 message accepted\n"));
        assert_eq!(fixture.subscriber.next(), Message::new(r"a\tb", r#"{"n" : 1.50}"#));
    }
}

#[test]
fn the_default_settings_are_those_of_the_user() {
    let fixture = Fixture::start();
    let mut command = binary();
    command.args(["send", "--url", &format!("http://{}", fixture.gateway.address()), "a", "{}"]);
    command.env("XDG_CONFIG_HOME", fixture.gateway.settings.config_home());
    assert_eq!(run(&mut command).0, 0);
    assert_eq!(fixture.subscriber.next(), Message::new("a", "{}"));
}

#[test]
fn lines_are_posted_in_order_over_one_connection() {
    const LINES: usize = 5_000;
    for scheme in ["http", "https"] {
        let mut fixture = fixture(|builder| if scheme == "https" { builder.https() } else { builder });
        let (status, log) = run(send_to(&fixture.gateway, scheme).stdin(file(&lines(LINES))));
        assert_eq!(status, 0, "{log}");
        assert!(log.starts_with("info: 5000 lines accepted in "), "{log}");
        for number in 1..=LINES {
            assert_eq!(fixture.subscriber.next(), numbered(number));
        }
        let stats = fixture.gateway.stats();
        assert_eq!(stats["connections_accepted"], 1, "{stats}");
    }
}

#[test]
fn what_listen_records_is_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let publisher = zmq::Context::new().socket(zmq::XPUB).unwrap();
    publisher.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    publisher.set_linger(0).unwrap();
    publisher.bind(&endpoint).unwrap();
    let messages = [
        ["a/b", r#"{"n": 1.50}"#],
        [r"back\slash", "{}"],
        [r"\\t\u{9}\", r#"{"a":"\u001b"}"#],
        ["\u{202e}é 漢\u{2028}\u{feff}\"'", r#"{"a":"\u202e"}"#],
        [" two  blanks ", "{}"],
    ];
    let record = directory.path().join("record");
    let mut listen = binary();
    listen.args(["listen", "--connect", &endpoint, "--count", &messages.len().to_string()]);
    let mut listen = Process::spawn_printing_to(&mut listen, std::fs::File::create(&record).unwrap());
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    for message in messages {
        publisher.send_multipart(message, 0).unwrap();
    }
    assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));

    let fixture = Fixture::start();
    let record = std::fs::File::open(record).unwrap();
    let (status, log) = run(send_to(&fixture.gateway, "http").stdin(record));
    assert_eq!(status, 0, "{log}");
    for [topic, payload] in messages {
        assert_eq!(fixture.subscriber.next(), Message::new(topic, payload));
    }
}

/// A pipe that stays open, as from `listen`.
#[test]
fn a_line_is_posted_before_the_next_one_comes() {
    let fixture = Fixture::start();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut send = Process::spawn(send_to(&fixture.gateway, "http").stdin(reader));
    for number in 1..=3 {
        writer.write_all(format!("t/{number}\t{{\"n\":{number}}}\nt/").as_bytes()).unwrap();
        assert_eq!(fixture.subscriber.next(), numbered(number));
        writer.write_all(b"x\t{}\n").unwrap();
        assert_eq!(fixture.subscriber.next(), Message::new("t/x", "{}"));
    }
    drop(writer);
    assert_eq!(send.wait_exit(PATIENCE).code(), Some(0));
}

#[test]
fn an_idle_connection_that_the_gateway_closes_is_no_fault() {
    for scheme in ["http", "https"] {
        let mut fixture = fixture(|builder| {
            let builder = builder.arguments(["--idle-timeout", "0.05"]);
            if scheme == "https" { builder.https() } else { builder }
        });
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut send = Process::spawn(send_to(&fixture.gateway, scheme).stdin(reader));
        for number in 1..=3 {
            writeln!(writer, "t/{number}\t{{\"n\":{number}}}").unwrap();
            assert_eq!(fixture.subscriber.next(), numbered(number));
            eventually("it is closed", || (fixture.gateway.stats()["connections"] == 0).then_some(()));
        }
        drop(writer);
        assert_eq!(send.wait_exit(PATIENCE).code(), Some(0));
        let Transcript { stderr, .. } = send.end();
        assert!(stderr.starts_with("info: 3 lines accepted") && !stderr.contains("warning"), "{stderr}");
    }
}

#[test]
fn a_line_that_the_gateway_cannot_take_now_is_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::serve().connect(&ipc_endpoint(&directory)).start();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut send = Process::spawn(send_to(&gateway, "http").stdin(reader));
    writer.write_all(lines(100).as_bytes()).unwrap();
    eventually("it is announced", || send.transcript().stderr.contains("503 bus-not-connected").then_some(()));
    let subscriber = Subscriber::bound_at(directory);
    for number in 1..=100 {
        assert_eq!(subscriber.next(), numbered(number));
    }
    drop(writer);
    assert_eq!(send.wait_exit(PATIENCE).code(), Some(0));
    let Transcript { stderr, .. } = send.end();
    assert_eq!(stderr.matches("warning:").count(), 1, "{stderr}");
    assert!(stderr.starts_with("warning: line 1 waits until the gateway takes it: 503"), "{stderr}");
    assert!(stderr.contains("info: 100 lines accepted"), "{stderr}");
}

#[test]
fn a_refused_line_is_named_and_ends_it_unless_it_keeps_going() {
    const LINES: &str = "a\t{}\nadapter/nodes/data\t{}\nb\t{}\nno tab\nc\t{}\n";
    let fixture = Fixture::start();
    let refused = "warning: line 2 was refused: 422 not-a-message: ";
    let faulty = "warning: line 4 was refused: it has no tab between a topic and a payload\n";

    let (status, log) = run(send_to(&fixture.gateway, "http").stdin(file(LINES)));
    assert_eq!(status, 1);
    assert!(log.contains(refused) && log.contains(faulty), "{log}");
    assert!(log.ends_with("error: 2 lines refused; unsent: everything behind line 4\n"), "{log}");
    assert_eq!(["a", "b"].map(|_| fixture.subscriber.next().topic), ["a", "b"]);
    fixture.assert_nothing_more_published();

    let (status, log) = run(send_to(&fixture.gateway, "http").arg("--keep-going").stdin(file(LINES)));
    assert_eq!(status, 1);
    assert!(log.contains(refused) && log.contains(faulty), "{log}");
    assert!(log.ends_with("error: 2 lines refused\n"), "{log}");
    assert_eq!(["a", "b", "c"].map(|_| fixture.subscriber.next().topic), ["a", "b", "c"]);
    fixture.assert_nothing_more_published();
}

#[test]
fn settings_that_open_no_gateway_are_3() {
    let settings = SettingsFile::absent();
    let (status, log) = run(send_with(&settings).args(["a", "{}"]));
    assert_eq!(status, 3);
    assert!(log.contains("does not exist") && log.contains("--settings"), "{log}");
    for (text, reason) in [
        (disabled(), "OPEN_REST_API is not set to True"),
        ("OPEN_REST_API = True\n", "TOKEN is not set, or empty"),
        ("OPEN_REST_API = \n", "invalid syntax"),
    ] {
        settings.write(text);
        let (status, log) = run(send_with(&settings).args(["a", "{}"]));
        assert_eq!(status, 3);
        assert!(log.starts_with("error: ") && log.contains(reason), "{log}");
    }
}

#[test]
fn no_gateway_is_4() {
    let settings = SettingsFile::absent();
    settings.write(&enabled(&token("x")));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["http", "https"] {
        let (status, log) = run(send_with(&settings).args(["--url", &format!("{scheme}://{free}"), "a", "{}"]));
        assert_eq!(status, 4, "{log}");
        assert!(log.starts_with(&format!("error: no gateway at {scheme}://{free}: ")), "{log}");
    }
    let (status, log) = run(send_with(&settings).args(["--unix", "/nonexistent/socket"]).stdin(file("a\t{}\n")));
    assert_eq!(status, 4, "{log}");
    assert!(log.contains("error: no gateway at unix:/nonexistent/socket: ") && log.contains("unsent: line 1"), "{log}");
}

#[test]
fn a_certificate_that_is_not_trusted_is_5() {
    let (one, other) = (fixture(Builder::https), fixture(Builder::https));
    let url = format!("https://localhost:{}", one.gateway.address().port());
    let absent = SettingsFile::absent();
    absent.write(&enabled(&token("of-the-test")));
    for settings in [&other.gateway.settings, &absent] {
        let (status, log) = run(send_with(settings).args(["--url", &url, "a", "{}"]));
        assert_eq!(status, 5, "{log}");
        assert!(log.contains("is not trusted: ") && log.contains("gateway-cert.pem"), "{log}");
    }
    let Fixture { gateway, subscriber } = &one;
    assert_eq!(run(send_to(gateway, "https").args(["marker", "{}"])).0, 0);
    assert_eq!(subscriber.next().topic, "marker");
}

#[test]
fn a_refused_token_is_6_and_everything_behind_it_is_unsent() {
    let fixture = Fixture::start();
    let other = SettingsFile::absent();
    other.write(&enabled(&token("another")));
    let url = format!("http://{}", fixture.gateway.address());
    for option in [None, Some("--keep-going")] {
        let (status, log) = run(send_with(&other).args(["--url", &url]).args(option).stdin(file(&lines(100))));
        assert_eq!(status, 6, "{log}");
        assert!(log.contains(&format!("refuses the token of {}", other.path().display())), "{log}");
        assert!(log.ends_with("unsent: lines 1-64 and everything behind line 64\n"), "{log}");
    }
    fixture.assert_nothing_more_published();
}

#[test]
fn a_token_that_changes_is_read_again() {
    let mut fixture = Fixture::start();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut send = Process::spawn(send_to(&fixture.gateway, "http").stdin(reader));
    writer.write_all(b"t/1\t{\"n\":1}\n").unwrap();
    assert_eq!(fixture.subscriber.next(), numbered(1));
    fixture.gateway.settings.write(&enabled(&token("changed")));
    fixture.gateway.wait_settings("reloaded");
    writer.write_all(b"t/2\t{\"n\":2}\nt/3\t{\"n\":3}\n").unwrap();
    assert_eq!([fixture.subscriber.next(), fixture.subscriber.next()], [numbered(2), numbered(3)]);
    drop(writer);
    assert_eq!(send.wait_exit(PATIENCE).code(), Some(0));
}

#[test]
fn usage_errors_are_2_and_show_no_url() {
    let settings = SettingsFile::absent();
    settings.write(&enabled(&token("x")));
    let url = format!("https://localhost/?token={}", token("x"));
    for arguments in
        [&["a"][..], &["a", "{}", "b"], &["a", "{"], &["--url", &url], &["--url", "http://a", "--unix", "b"]]
    {
        let (status, log) = run(send_with(&settings).args(arguments));
        assert_eq!(status, 2, "{arguments:?}: {log}");
    }
}

#[test]
fn input_that_cannot_be_read_is_told() {
    let fixture = Fixture::start();
    let directory = std::fs::File::open("/").unwrap();
    let (status, log) = run(send_to(&fixture.gateway, "http").stdin(directory));
    assert_eq!(status, 1);
    assert!(log.starts_with("warning: line 1 was refused: it cannot be read: "), "{log}");
}

/// More than the connection holds, and more than the lines in flight may have.
#[test]
fn large_lines_are_posted_in_order() {
    let payload = format!("\"{}\"", "x".repeat(900_000));
    let lines: String = (0..8).map(|number| format!("t/{number}\t{{\"a\":{payload}}}\n")).collect();
    for scheme in ["http", "https"] {
        let fixture = fixture(|builder| if scheme == "https" { builder.https() } else { builder });
        let (status, log) = run(send_to(&fixture.gateway, scheme).stdin(file(&lines)));
        assert_eq!(status, 0, "{log}");
        for number in 0..8 {
            assert_eq!(fixture.subscriber.next().topic, format!("t/{number}"));
        }
    }
}

/// The rest of a body that is too large is not read, and the connection ends.
#[test]
fn a_line_that_is_too_large_is_refused_and_those_behind_it_are_posted() {
    let fixture = Fixture::with(["--max-body", "1000"]);
    let lines = format!("a\t{{}}\nb\t{{\"x\":\"{}\"}}\nc\t{{}}\nd\t{{}}\n", "x".repeat(500_000));
    let (status, log) = run(send_to(&fixture.gateway, "http").arg("--keep-going").stdin(file(&lines)));
    assert_eq!(status, 1);
    assert!(log.contains("warning: line 2 was refused: 413 ") && log.contains("3 lines accepted"), "{log}");
    assert_eq!(["a", "c", "d"].map(|_| fixture.subscriber.next().topic), ["a", "c", "d"]);
    fixture.assert_nothing_more_published();
}

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

#[test]
fn a_terminal_sees_the_progress_and_the_summary() {
    let fixture = Fixture::start();
    let terminal = Terminal::open();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut command = send_to(&fixture.gateway, "http");
    command.stdin(reader);
    let stderr = Stdio::from(terminal.stream());
    let mut send = Process::spawn_with_streams(&mut command, Stdio::null(), stderr, |_| false);
    drop(command);
    // The progress is shown a while after the start.
    let mut shown = 0;
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < 0.5 {
        writer.write_all(b"a\t{}\n").unwrap();
        fixture.subscriber.next();
        shown += 1;
    }
    drop(writer);
    assert_eq!(send.wait_exit(PATIENCE).code(), Some(0));
    let screen = terminal.read_to_end();
    assert!(screen.contains(" lines accepted in 0.") && screen.contains('\r'), "{screen:?}");
    assert!(screen.contains(&format!("info: {shown} lines accepted in ")), "{screen:?}");
}
