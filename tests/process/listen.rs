//! The command `listen`: a person can use what it prints.

use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::gateway::Gateway;
use crate::support::net::dead_endpoint;
use crate::support::process::{Process, Transcript, binary, run};
use crate::support::subscriber::ipc_endpoint;
use crate::support::terminal::Terminal;
use crate::support::{PATIENCE, eventually};

/// Binds a publisher that receives the subscriptions of others.
fn publisher(endpoint: &str) -> zmq::Socket {
    let socket = zmq::Context::new().socket(zmq::XPUB).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    socket.bind(endpoint).unwrap();
    socket
}

#[test]
fn listen_prints_messages_of_its_topics_and_ends_after_count() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let publisher = publisher(&endpoint);
    let mut command = binary();
    command.args(["listen", "--connect", &endpoint, "--topic", "core/", "--topic", "to_", "--count", "2"]);
    let mut listen = Process::spawn(&mut command);
    let mut subscriptions = [publisher.recv_bytes(0).unwrap(), publisher.recv_bytes(0).unwrap()];
    subscriptions.sort();
    assert_eq!(subscriptions, [b"\x01core/".to_vec(), b"\x01to_".to_vec()]);

    let first = ["core/exts/operate", r#"{"content":"start","n":1.50}"#];
    let second = ["to_homeauto", "{\n \"a\": [1, 2] }"];
    for message in [first, ["adapter/nodes/data", r#"{"other":true}"#], second] {
        publisher.send_multipart(message, 0).unwrap();
    }
    assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));
    let Transcript { stdout, .. } = listen.end();
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 2, "there must be one line for each message: {stdout}");
    for (line, [topic, payload]) in lines.iter().zip([first, second]) {
        let (printed_topic, printed) = line.split_once('\t').expect("topic<TAB>payload");
        assert_eq!(printed_topic, topic);
        let json = |text| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(json(printed), json(payload));
    }
}

#[test]
fn messages_that_come_within_the_timeout_are_0() {
    let directory = tempfile::tempdir().unwrap();
    let sides = ["in", "out"].map(|name| format!("ipc://{}", directory.path().join(name).display()));
    let hub = ["--hub", "--hub-publishers", &sides[0], "--hub-subscribers", &sides[1]];
    let mut gateway = Gateway::serve().arguments(hub).start();
    gateway.wait_event("ready");
    for (options, count) in [(&["--count", "2", "--timeout", "30"][..], 2), (&["--timeout", "30"], 1)] {
        let mut listen = Process::spawn(binary().args(["listen", "--connect", &sides[1]]).args(options));
        // From this line on, no message is missed.
        logged(&listen, &[&format!("connected to {}, waiting for messages", sides[1])]);
        (0..count).for_each(|_| gateway.post(r#"{"topic":"a","payload":{}}"#).assert_accepted());
        assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));
        assert_eq!(listen.end().stdout, "a\t{}\n".repeat(count));
    }
}

#[test]
fn messages_that_do_not_come_within_the_timeout_are_1() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let _publisher = publisher(&endpoint);
    for (options, count) in [(&["--count", "2", "--timeout", "0.2"][..], 2), (&["--timeout", "0.2"], 1)] {
        let (status, Transcript { stderr, .. }) =
            run(["listen", "--connect", &endpoint].iter().chain(options).copied());
        assert_eq!(status, 1);
        assert!(stderr.ends_with(&format!("error: 0 of {count} messages came within 0.2 s\n")), "{stderr}");
    }
}

#[test]
fn listen_without_a_topic_receives_everything_until_it_is_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let publisher = publisher(&endpoint);
    let mut listen = Process::spawn(binary().args(["listen", "--connect", &endpoint]));
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    publisher.send_multipart(["anything", "{}"], 0).unwrap();
    assert_eq!(listen.next_line(Instant::now() + PATIENCE).as_deref(), Some("anything\t{}\n"));
    listen.signal(Signal::INT);
    assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));
}

/// A terminal takes DEL and C1 as commands, a reader of lines may end a line at U+0085, U+2028 and U+2029, and a
/// character of direction shows a text as another one, and others do not show at all. A publisher may send them raw, inside a string or as no JSON.
#[test]
fn listen_prints_no_control_character_of_a_payload() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let publisher = publisher(&endpoint);
    let mut listen = Process::spawn(binary().args(["listen", "--connect", &endpoint, "--count", "4"]));
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    let controls: String = (0x7f..=0x9f_u8).map(char::from).collect::<String>()
        + "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}\u{ad}\u{200b}\u{200d}\u{2060}\u{fff9}";
    let kept = "é \u{a0}\u{3000}漢 \u{1f469} \\u009b \\\"";
    let json = format!(r#"{{"{controls}{kept}": "{controls}{kept}" , "n": 1.50}}"#);
    publisher.send_multipart([b"a".as_slice(), json.as_bytes()], 0).unwrap();
    publisher.send_multipart([b"a".as_slice(), controls.as_bytes()], 0).unwrap();
    publisher.send_multipart([b"a".as_slice(), b"\x1b[2J\0\r\n\xff"], 0).unwrap();
    publisher.send_multipart([controls.as_bytes(), b"{}"], 0).unwrap();
    assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));

    let Transcript { stdout, .. } = listen.end();
    let raw = |c: &char| (c.is_control() && !"\n\t".contains(*c)) || controls.contains(*c);
    assert_eq!(stdout.chars().filter(raw).collect::<String>(), "", "{stdout:?}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{stdout:?}");
    let printed = lines[0].strip_prefix("a\t").unwrap();
    let value = |text| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(value(printed), value(&json));
    assert!(printed.contains(kept) && printed.ends_with(r#"" , "n": 1.50}"#), "only they are escaped: {printed}");
    assert_eq!(value(lines[1].strip_prefix("a\t").unwrap()), Value::from(controls));
    assert_eq!(value(lines[2].strip_prefix("a\t").unwrap()), Value::from("\x1b[2J\0\r\n\u{fffd}"));
}

/// The message that the tests of colours and indentation send.
const MESSAGE: [&str; 2] = ["a/topic", r#"{"k" : [1,"v"]}"#];

/// Runs `listen` with these options and variables on a terminal, or in a pipe. Sends it [`MESSAGE`], and returns what
/// it prints.
fn printed(on_terminal: bool, options: &[&str], variables: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let publisher = publisher(&endpoint);
    let mut command = binary();
    command.args(["listen", "--connect", &endpoint, "--count", "1"]).args(options);
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
    let (mut listen, terminal) = if on_terminal {
        let terminal = Terminal::open();
        (Process::spawn_printing_to(&mut command, terminal.stream()), Some(terminal))
    } else {
        (Process::spawn(&mut command), None)
    };
    drop(command); // which holds the terminal open
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    publisher.send_multipart(MESSAGE, 0).unwrap();
    assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));
    let Transcript { stdout, .. } = listen.end();
    terminal.map_or(stdout, |terminal| terminal.read_to_end().replace("\r\n", "\n"))
}

/// Returns the text without its time, which must be the first part of it and look like `14:03:07.123`.
fn without_time(text: &str) -> &str {
    let (time, rest) = text.split_once(' ').expect("a time comes first");
    let pattern = time.replace(|c: char| c.is_ascii_digit(), "0");
    assert_eq!(pattern, "00:00:00.000", "{text:?}");
    rest
}

#[test]
fn listen_prints_the_time_and_colours_on_a_terminal() {
    let text = printed(true, &[], &[]);
    assert_eq!(
        text.split_once("\x1b[1;36m").expect("a coloured topic").1,
        "a/topic\x1b[0m\t{\x1b[36m\"k\"\x1b[0m : [\x1b[33m1\x1b[0m,\x1b[32m\"v\"\x1b[0m]}\n"
    );
    let time = text.strip_prefix("\x1b[2m").expect("a coloured time");
    let colours: String = time.split("\x1b[0m").collect();
    without_time(&colours);
}

#[test]
fn colours_can_be_switched_on_and_off() {
    let plain = format!("{}\t{}\n", MESSAGE[0], MESSAGE[1]);
    for (options, variables) in [
        (&["--color", "never"][..], &[][..]),
        (&[], &[("NO_COLOR", "1")]),
        (&["--color=auto"], &[("NO_COLOR", "0")]),
        (&[], &[("TERM", "dumb")]),
    ] {
        assert_eq!(without_time(&printed(true, options, variables)), plain, "{options:?} {variables:?}");
        assert_eq!(printed(false, options, variables), plain, "{options:?} {variables:?}");
    }
    assert_eq!(printed(false, &[], &[]), plain);
    assert!(printed(true, &[], &[("NO_COLOR", "")]).contains("\x1b[1;36m"), "an empty NO_COLOR forbids nothing");
    let forced = printed(false, &["--color", "always"], &[("NO_COLOR", "1"), ("TERM", "dumb")]);
    assert!(forced.starts_with("\x1b[1;36ma/topic\x1b[0m\t"), "no time in a pipe: {forced:?}");
}

#[test]
fn pretty_indents_on_a_terminal_and_in_a_pipe() {
    let indented = "a/topic\t{\n  \"k\": [\n    1,\n    \"v\"\n  ]\n}\n";
    assert_eq!(printed(false, &["--pretty"], &[]), indented);
    assert_eq!(without_time(&printed(true, &["--pretty", "--color", "never"], &[])), indented);
}

#[test]
fn listen_ends_quietly_when_its_reader_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let publisher = publisher(&endpoint);
    let mut command = binary();
    command.args(["listen", "--connect", &endpoint]);
    let mut listen = Process::spawn_reading_until(&mut command, |_line| true);
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    publisher.send_multipart(MESSAGE, 0).unwrap();
    assert!(listen.next_line(Instant::now() + PATIENCE).is_some());
    // The first message may be sent before the reader has closed its end.
    let status = eventually("it ends", || {
        publisher.send_multipart(MESSAGE, 0).unwrap();
        (!listen.is_running()).then(|| listen.wait_exit(PATIENCE))
    });
    assert_eq!(status.code(), Some(0));
    let Transcript { stderr, .. } = listen.end();
    assert!(!stderr.contains("panic"), "{stderr}");
}

#[test]
fn listen_ends_quietly_when_its_terminal_hangs_up() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let publisher = publisher(&endpoint);
    // With a controlling terminal, the hang-up is a signal as well; without, only the next message shows it.
    for mut command in [Command::new("setsid"), Command::new("env")] {
        let terminal = Terminal::open();
        command.args((command.get_program() == "setsid").then_some("--ctty"));
        command.arg(binary().get_program()).args(["listen", "--connect", &endpoint]).stdin(terminal.stream());
        let mut listen = Process::spawn_printing_to(&mut command, terminal.stream());
        drop(command);
        assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
        drop(terminal);
        eventually("it ends", || {
            publisher.send_multipart(MESSAGE, 0).unwrap();
            (!listen.is_running()).then_some(())
        });
        let Transcript { stderr, .. } = listen.end();
        assert!(!stderr.contains("panic"), "{stderr}");
        assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x00");
    }
}

/// A pager that does not go on reading.
#[test]
fn listen_stops_although_its_reader_does_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let publisher = publisher(&endpoint);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = binary();
    let mut listen = Process::spawn_printing_to(command.args(["listen", "--connect", &endpoint]), writer);
    drop(command);
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    let payload = format!("\"{}\"", "x".repeat(1 << 20));
    for _ in 0..3 {
        publisher.send_multipart(["a", &payload], 0).unwrap();
    }
    let readable = PollFd::new(&reader, PollFlags::IN);
    assert_eq!(rustix::event::poll(&mut [readable], Some(&PATIENCE.try_into().unwrap())), Ok(1));
    listen.signal(Signal::TERM);
    assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));
    drop(reader);
}

#[test]
fn listen_says_which_encoding_the_payloads_have() {
    for (option, payload, hint) in [
        ("json", &b"\x81\xa1k\x01"[..], "a payload of a is MessagePack: `--encoding msgpack` shows it"),
        ("msgpack", b"{}", "a payload of a is JSON: `--encoding json` shows it"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = ipc_endpoint(&directory);
        let publisher = publisher(&endpoint);
        let mut command = binary();
        let mut listen =
            Process::spawn(command.args(["listen", "--connect", &endpoint, "--encoding", option, "--count", "2"]));
        assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
        for _ in 0..2 {
            publisher.send_multipart([b"a", payload], 0).unwrap();
        }
        assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));
        let Transcript { stderr, .. } = listen.end();
        assert_eq!(stderr.matches(hint).count(), 1, "{stderr}");
    }
}

/// Waits until the process has logged a line with each of these texts, and returns the log.
fn logged(process: &Process, texts: &[&str]) -> String {
    eventually(&format!("the log says {texts:?}"), || {
        let Transcript { stderr, .. } = process.transcript();
        texts.iter().all(|text| stderr.contains(text)).then_some(stderr)
    })
}

#[test]
fn listen_says_that_a_hub_is_away_and_that_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let hub = || {
        let path = |name: &str| format!("ipc://{}", directory.path().join(name).display());
        let sides = [path("in"), path("out")];
        let mut command = binary();
        command.args(["serve", "--plain", "--listen", "127.0.0.1:0", "--settings", "/nonexistent/user_settings.py"]);
        command.args(["--hub", "--hub-publishers", &sides[0], "--hub-subscribers", &sides[1]]);
        (Process::spawn(&mut command), sides)
    };
    let (mut first, [_, subscribers]) = hub();
    logged(&first, &["subscribers to"]);
    first.signal(Signal::TERM);
    first.wait_exit(PATIENCE);

    let mut listen = Process::spawn(binary().args(["listen", "--connect", &subscribers]));
    let away =
        format!("not connected to {subscribers}: connection refused, nothing listens there; waiting until it is there");
    logged(&listen, &[&away]);
    let (mut second, _) = hub();
    let back = format!("connected to {subscribers}, waiting for messages");
    logged(&listen, &[&back]);
    second.signal(Signal::TERM);
    second.wait_exit(PATIENCE);
    let lost = format!("not connected to {subscribers}: the connection was closed");
    let log = eventually("the loss is logged, and then its reason", || {
        let Transcript { stderr, .. } = listen.transcript();
        (stderr.contains(&lost) && stderr.matches(&away).count() == 2).then_some(stderr)
    });
    assert_eq!(log.lines().count(), 4, "a line for each change, and not for each attempt: {log}");
    listen.signal(Signal::INT);
    assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));
}

#[test]
fn listen_says_why_each_endpoint_is_not_connected() {
    let context = zmq::Context::new();
    let bound = |kind| {
        let socket = context.socket(kind).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        (socket, endpoint)
    };
    let (_publishers_side, wrong) = bound(zmq::XSUB);
    let (publisher, right) = bound(zmq::XPUB);
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("tcp://{}", stranger.local_addr().unwrap());
    let refused = dead_endpoint();
    let unresolved = "tcp://nonexistent.invalid:16103";

    let mut command = binary();
    command.arg("listen");
    for endpoint in [unresolved, &silent, &refused, &wrong, &right] {
        command.args(["--connect", endpoint]);
    }
    let mut listen = Process::spawn(&mut command);
    logged(
        &listen,
        &[
            &format!("not connected to {unresolved}: the name cannot be resolved: "),
            &format!("not connected to {silent}: no answer"),
            &format!("not connected to {refused}: connection refused, nothing listens there"),
            &format!("not connected to {wrong}: the publishers' side of a hub listens there (a socket of type XSUB)"),
            &format!("connected to {right}, waiting for messages"),
        ],
    );
    // No endpoint holds up another one.
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    publisher.send_multipart(MESSAGE, 0).unwrap();
    assert!(listen.next_line(Instant::now() + PATIENCE).is_some());
    listen.signal(Signal::INT);
    assert_eq!(listen.wait_exit(PATIENCE).code(), Some(0));
}

#[test]
fn listen_connects_after_another_socket_had_the_port() {
    let context = zmq::Context::new();
    let wrong = context.socket(zmq::XSUB).unwrap();
    wrong.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = wrong.get_last_endpoint().unwrap().unwrap();
    let listen = Process::spawn(binary().args(["listen", "--connect", &endpoint]));
    logged(&listen, &["(a socket of type XSUB)"]);
    wrong.unbind(&endpoint).unwrap();
    let publisher = eventually("the port is free", || {
        let publisher = context.socket(zmq::XPUB).unwrap();
        publisher.bind(&endpoint).ok().map(|()| publisher)
    });
    logged(&listen, &[&format!("connected to {endpoint}, waiting for messages")]);
    publisher.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    publisher.send_multipart(MESSAGE, 0).unwrap();
    assert!(listen.next_line(Instant::now() + PATIENCE).is_some());
}

/// A script that asks for ten messages learns that it did not get them.
#[test]
fn fewer_messages_than_asked_for_are_1() {
    for is_interrupted in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = ipc_endpoint(&directory);
        let publisher = publisher(&endpoint);
        let mut command = binary();
        command.args(["listen", "--connect", &endpoint, "--count", "10"]);
        let mut listen = Process::spawn_reading_until(&mut command, |_| true);
        assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
        publisher.send_multipart(["topic", "1"], 0).unwrap();
        assert!(listen.next_line(Instant::now() + PATIENCE).is_some());
        if is_interrupted {
            listen.signal(Signal::INT);
        }
        // Nobody reads from standard output any more, which the next lines find out.
        eventually("the end", || {
            publisher.send_multipart(["topic", "2"], 0).unwrap();
            (!listen.is_running()).then_some(())
        });
        assert_eq!(listen.wait_exit(PATIENCE).code(), Some(1), "{is_interrupted}");
    }
}
