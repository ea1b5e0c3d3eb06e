//! What `send` posts: one message, or lines in order.

use super::*;
use crate::listen::listen;

#[test]
fn one_message_is_posted_by_http_https_and_a_unix_socket_and_the_default_settings_are_those_of_the_user() {
    let (_directory, socket) = temporary_path("socket");
    let [plain, https] = ["http", "https"].map(|scheme| fixture_by(scheme, []));
    let unix = Fixture::of(Gateway::serve().listen_at(&socket));
    let mut by_socket = send_with(&unix.gateway.settings);
    by_socket.arg("--unix").arg(&socket);
    let mut by_default = binary();
    by_default.args(["send", "--url", &format!("http://{}", plain.gateway.address())]);
    by_default.env("XDG_CONFIG_HOME", plain.gateway.settings.config_home());
    for (fixture, mut command) in [
        (&plain, send_to(&plain.gateway, "http")),
        (&plain, by_default),
        (&https, send_to(&https.gateway, "https")),
        (&unix, by_socket),
    ] {
        // A topic of the arguments is no line of `listen`: a backslash is one.
        let log = run(command.args([r"a\tb", r#"{"n" : 1.50}"#]), 0);
        assert_eq!(log, "info: 1 message accepted\n");
        assert_eq!(fixture.subscriber.next(), Message::new(r"a\tb", r#"{"n" : 1.50}"#));
    }
}

#[test]
fn lines_are_posted_in_order_over_one_connection() {
    const LINES: usize = 5_000;
    for scheme in ["http", "https"] {
        let mut fixture = fixture_by(scheme, []);
        run(send_to(&fixture.gateway, scheme).stdin(file(&lines(LINES))), 0).begins("info: 5000 lines accepted in ");
        (1..=LINES).for_each(|number| assert_eq!(fixture.subscriber.next(), numbered(number)));
        let stats = fixture.gateway.stats();
        assert_eq!(stats["connections_accepted"], 1, "{stats}");

        // More than the connection holds, and more than the lines in flight may have.
        let payload = format!("\"{}\"", "x".repeat(900_000));
        let large: String = (0..8).map(|number| format!("t/{number}\t{{\"a\":{payload}}}\n")).collect();
        run(send_to(&fixture.gateway, scheme).stdin(file(&large)), 0);
        (0..8).for_each(|number| assert_eq!(fixture.subscriber.next().topic, format!("t/{number}")));
    }
}

#[test]
fn what_listen_records_is_replayed() {
    let (directory, endpoint) = temporary_endpoint();
    let (publisher, _) = bound_socket(zmq::XPUB, &endpoint);
    let messages = [
        ["a/b", r#"{"n": 1.50}"#],
        [r"back\slash", "{}"],
        [r"\\t\u{9}\", r#"{"a":"\u001b"}"#],
        ["\u{202e}é 漢\u{2028}\u{feff}\"'", r#"{"a":"\u202e"}"#],
        [" two  blanks ", "{}"],
    ];
    let record = directory.path().join("record");
    let mut listen = listen(&endpoint, &["--count", &messages.len().to_string()]);
    let mut listen = Process::spawn_printing_to(&mut listen, File::create(&record).unwrap());
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    for message in messages {
        publisher.send_multipart(message, 0).unwrap();
    }
    listen.finish(0);

    let fixture = Fixture::start();
    let record = File::open(record).unwrap();
    run(send_to(&fixture.gateway, "http").stdin(record), 0);
    for [topic, payload] in messages {
        assert_eq!(fixture.subscriber.next(), Message::new(topic, payload));
    }
}

/// A pipe that stays open, as from `listen`.
#[test]
fn a_line_is_posted_before_the_next_one_comes_and_a_token_that_changes_is_read_again() {
    let mut fixture = Fixture::start();
    let (reader, mut writer) = io::pipe().unwrap();
    let mut send = Process::spawn(send_to(&fixture.gateway, "http").stdin(reader));
    for number in 1..=3 {
        writer.write_all(format!("t/{number}\t{{\"n\":{number}}}\nt/").as_bytes()).unwrap();
        assert_eq!(fixture.subscriber.next(), numbered(number));
        writer.write_all(b"x\t{}\n").unwrap();
        assert_eq!(fixture.subscriber.next(), Message::new("t/x", "{}"));
    }
    fixture.gateway.change_token("changed");
    writer.write_all(b"t/2\t{\"n\":2}\nt/3\t{\"n\":3}\n").unwrap();
    assert_eq!([fixture.subscriber.next(), fixture.subscriber.next()], [numbered(2), numbered(3)]);
    drop(writer);
    send.finish(0);
}

/// When lines come, all are told of it, and one of them takes what is there.
#[test]
fn several_share_a_pipe_that_does_not_block() {
    const LINES: usize = 20_000;
    let fixture = Fixture::start();
    let (reader, mut writer) = io::pipe().unwrap();
    set_nonblocking(&reader, true);
    let send = |reader| Process::spawn(send_to(&fixture.gateway, "http").stdin(Stdio::from(reader)));
    let mut sends = [(); 4].map(|()| send(reader.try_clone().unwrap()));
    drop(reader);
    // A write of a line is never split.
    let write = |line| writer.write_all(line);
    lines(LINES).as_bytes().split_inclusive(|byte| *byte == b'\n').try_for_each(write).unwrap();
    drop(writer);
    sends.iter_mut().for_each(|send| drop(send.finish(0)));
    let mut published: Vec<_> = (0..LINES).map(|_| fixture.subscriber.next().topic).collect();
    let mut all: Vec<_> = (1..=LINES).map(|number| numbered(number).topic).collect();
    published.sort();
    all.sort();
    assert!(published == all, "each is published once");
}

#[test]
fn an_idle_connection_that_the_gateway_closes_is_no_fault() {
    for scheme in ["http", "https"] {
        let mut fixture = fixture_by(scheme, ["--idle-timeout", "0.05"]);
        let (reader, mut writer) = io::pipe().unwrap();
        let mut send = Process::spawn(send_to(&fixture.gateway, scheme).stdin(reader));
        for number in 1..=3 {
            writeln!(writer, "t/{number}\t{{\"n\":{number}}}").unwrap();
            assert_eq!(fixture.subscriber.next(), numbered(number));
            fixture.gateway.wait_count("connections", 0);
        }
        drop(writer);
        send.finish(0).stderr.begins("info: 3 lines accepted").lacks("warning");
    }
}

#[test]
fn a_line_that_the_gateway_cannot_take_now_is_sent_again() {
    let (directory, endpoint) = temporary_endpoint();
    let gateway = Gateway::serve().connect(&endpoint).start();
    let (reader, mut writer) = io::pipe().unwrap();
    let mut send = Process::spawn(send_to(&gateway, "http").stdin(reader));
    writer.write_all(lines(100).as_bytes()).unwrap();
    wait_until("it is announced", || send.log().contains("503 bus-not-connected"));
    let subscriber = Subscriber::bound_with(directory, text);
    (1..=100).for_each(|number| assert_eq!(subscriber.next(), numbered(number)));
    drop(writer);
    let log = send.finish(0).stderr.has_times(1, "warning:").has("info: 100 lines accepted");
    log.begins("warning: line 1 waits until the gateway takes it: 503");
}

#[test]
fn a_terminal_sees_the_progress_and_the_summary() {
    let fixture = Fixture::start();
    let terminal = Terminal::open();
    let (reader, mut writer) = io::pipe().unwrap();
    let mut command = send_to(&fixture.gateway, "http");
    command.stdin(reader);
    let stderr = Stdio::from(terminal.stream());
    let mut send = Process::spawn_with_streams(&mut command, Stdio::null(), stderr);
    for _ in 0..2 {
        writer.write_all(b"a\t{}\n").unwrap();
        fixture.subscriber.next();
        // The progress is shown with an answer, 200 ms after the start at the earliest.
        thread::sleep(Duration::from_millis(300));
    }
    drop(writer);
    send.finish(0);
    terminal.read_to_end().has("\r\x1b[K2 lines accepted in ").has("info: 2 lines accepted in ");
}

#[test]
fn a_terminal_sees_which_share_of_a_file_is_done() {
    let fixture = Fixture::start();
    let terminal = Terminal::open();
    let mut command = send_to(&fixture.gateway, "http");
    // It is long enough for the progress to be shown, and ends behind that at a signal.
    command.stdin(file(&lines(2_000_000)));
    let mut send = Process::spawn_with_streams(&mut command, Stdio::null(), Stdio::from(terminal.stream()));
    for number in 1..=5 {
        assert_eq!(fixture.subscriber.next().topic, format!("t/{number}"));
    }
    thread::sleep(Duration::from_millis(500));
    send.signal(Signal::INT);
    send.finish(1);
    let screen = terminal.read_to_end().has(" % done, ").has(" s left");
    screen.has("error: ended by a signal; unsent: everything from line ");
}

/// Nothing takes messages for as long as lines are sent again.
#[test]
fn a_message_without_a_hub_is_refused_for_good_and_the_cure_is_told() {
    let gateway = Gateway::serve().connect(&dead_endpoint()).start();
    run(send_to(&gateway, "http").args(["t", "{}"]), 1)
        .has("warning: the message was refused: 503 bus-not-connected: ")
        .has("start the adapter, or run a hub here with `--hub`")
        .ends("error: 1 message refused\n");
}
