//! The command `listen`: a person can use what it prints.

use rustix::event::{PollFd, PollFlags};

use crate::support::*;

fn publisher() -> (zmq::Socket, String) {
    bound_socket(zmq::XPUB, "tcp://127.0.0.1:*")
}

pub(crate) fn listen(endpoint: &str, options: &[&str]) -> Command {
    let mut command = binary();
    command.args(["listen", "--connect", endpoint]).args(options);
    command
}

/// Starts `listen` for everything, and returns it and its publisher once the subscription has arrived there.
fn started(options: &[&str], start: impl FnOnce(&mut Command) -> Process) -> (Process, zmq::Socket) {
    let (publisher, endpoint) = publisher();
    let listen = start(&mut listen(&endpoint, options));
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    (listen, publisher)
}

/// Sends [`MESSAGE`] again and again, until `listen` has noticed that nobody reads what it prints.
fn send_until_it_ends(publisher: &zmq::Socket, listen: &mut Process) {
    wait_until("it ends", || {
        publisher.send_multipart(MESSAGE, 0).unwrap();
        !listen.is_running()
    });
}

#[test]
fn listen_prints_messages_of_its_topics_and_ends_after_count() {
    let (publisher, endpoint) = publisher();
    let mut listen = Process::spawn(&mut listen(&endpoint, &["--topic", "core/", "--topic", "to_", "--count", "2"]));
    let mut subscriptions = [publisher.recv_bytes(0).unwrap(), publisher.recv_bytes(0).unwrap()];
    subscriptions.sort();
    assert_eq!(subscriptions, [b"\x01core/".to_vec(), b"\x01to_".to_vec()]);

    let first = ["core/exts/operate", r#"{"content":"start","n":1.50}"#];
    let second = ["to_homeauto", "{\n \"a\": [1, 2] }"];
    for message in [first, ["adapter/nodes/data", r#"{"other":true}"#], second] {
        publisher.send_multipart(message, 0).unwrap();
    }
    let Transcript { stdout, .. } = listen.finish(0);
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
fn an_endpoint_that_is_given_twice_is_refused() {
    let log = Process::spawn(&mut listen("tcp://localhost:1", &["--connect", "tcp://localhost:1"])).finish(3).stderr;
    log.has("--connect tcp://localhost:1: --connect has this endpoint already");
}

#[test]
fn messages_that_come_within_the_timeout_are_0_and_those_that_do_not_come_1() {
    let (_directory, [publishers, subscribers]) = hub_endpoints();
    let gateway = Gateway::serve().only_hub(&publishers, &subscribers).start_ready();
    for (options, count) in [(&["--count", "2", "--timeout", "120"][..], 2), (&["--timeout", "120"], 1)] {
        let mut listen = Process::spawn(&mut listen(&subscribers, options));
        // From this line on, no message is missed.
        listen.wait_log(&format!("connected to {subscribers}, waiting for messages"));
        (0..count).for_each(|_| gateway.post(r#"{"topic":"a","payload":{}}"#).assert_accepted());
        assert_eq!(listen.finish(0).stdout, "a\t{}\n".repeat(count));
    }
    let (_publisher, endpoint) = publisher();
    for (options, count) in [(&["--count", "2", "--timeout", "0.2"][..], 2), (&["--timeout", "0.2"], 1)] {
        let log = Process::spawn(&mut listen(&endpoint, options)).finish(1).stderr;
        log.ends(format!("error: 0 of {count} messages came within 0.2 s\n"));
    }
}

/// Another process that shares the pipe has made it non-blocking. The pipe takes no line as a whole.
#[test]
fn a_stdout_that_does_not_block_gets_every_line() {
    let (mut late, stdout) = FullPipe::new();
    set_nonblocking(&stdout, true);
    let (mut listen, publisher) = started(&["--count", "2"], |it| Process::spawn_printing_to(it, stdout));
    let payload = format!("\"{}\"", "x".repeat(300_000));
    (0..2).for_each(|_| publisher.send_multipart(["a", &payload], 0).unwrap());
    let printed = late.read_until(|printed| printed.lines().count() == 2 && printed.ends_with('\n'));
    assert!(printed == format!("a\t{payload}\n").repeat(2), "{} bytes", printed.len());
    listen.finish(0);
}

/// They come raw, in a string, as no JSON, and in a topic. The unit tests of `commands::print` have each of them.
#[test]
fn listen_prints_no_control_character_of_a_payload() {
    let (mut listen, publisher) = started(&["--count", "3"], Process::spawn);
    let controls = "\u{7f}\u{9b}2J\u{2028}\u{202e}\u{200b}";
    let kept = "é \u{a0}\u{3000}\\u009b";
    let json = format!(r#"{{"{controls}": "{controls}{kept}" , "n": 1.50}}"#);
    publisher.send_multipart([b"a".as_slice(), json.as_bytes()], 0).unwrap();
    publisher.send_multipart([b"a".as_slice(), b"\x1b[2J\0\r\n\xff"], 0).unwrap();
    publisher.send_multipart([controls.as_bytes(), b"{}"], 0).unwrap();
    let Transcript { stdout, .. } = listen.finish(0);
    let raw =
        |c: &char| (c.is_control() && !"\n\t".contains(*c)) || (controls.contains(*c) && !c.is_ascii_alphanumeric());
    assert_eq!(stdout.chars().filter(raw).collect::<String>(), "", "{stdout:?}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{stdout:?}");
    let value = |text| serde_json::from_str::<Value>(text).unwrap();
    let printed = lines[0].strip_prefix("a\t").unwrap();
    assert_eq!(value(printed), value(&json));
    let rest = format!(r#"{kept}" , "n": 1.50}}"#);
    assert!(printed.ends_with(&rest), "only they are escaped: {printed}");
    assert_eq!(value(lines[1].strip_prefix("a\t").unwrap()), Value::from("\x1b[2J\0\r\n\u{fffd}"));
}

const MESSAGE: [&str; 2] = ["a/topic", r#"{"k" : [1,"v"]}"#];

/// Runs `listen` on a terminal, or in a pipe, sends it [`MESSAGE`], and returns what it prints.
fn printed(on_terminal: bool, options: &[&str], variables: &[(&str, &str)]) -> String {
    let terminal = on_terminal.then(Terminal::open);
    let (mut listen, publisher) = started(&["--count", "1"], |command| {
        command.args(options).env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
        Process::spawn_printing_to(command, terminal.as_ref().map_or_else(Stdio::piped, |it| it.stream().into()))
    });
    publisher.send_multipart(MESSAGE, 0).unwrap();
    let Transcript { stdout, .. } = listen.finish(0);
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
fn listen_prints_the_time_colours_and_indents_as_the_terminal_the_options_and_the_variables_have_it() {
    let coloured = "\x1b[1;36ma/topic\x1b[0m\t{\x1b[36m\"k\"\x1b[0m : [\x1b[33m1\x1b[0m,\x1b[32m\"v\"\x1b[0m]}\n";
    for variables in [&[][..], &[("NO_COLOR", "")]] {
        let text = printed(true, &[], variables);
        let time = text.strip_prefix("\x1b[2m").and_then(|text| text.strip_suffix(coloured));
        let time = time.unwrap_or_else(|| panic!("a coloured time and message: {text:?}"));
        assert_eq!(without_time(&time.replace("\x1b[0m", "")), "");
    }
    let always = ["--color", "always"];
    assert_eq!(printed(false, &always, &[("NO_COLOR", "1"), ("TERM", "dumb")]), coloured, "no time in a pipe");

    let plain = format!("{}\t{}\n", MESSAGE[0], MESSAGE[1]);
    assert_eq!(printed(false, &[], &[]), plain);
    let indented = "a/topic\t{\n  \"k\": [\n    1,\n    \"v\"\n  ]\n}\n".to_owned();
    for (options, variables, expected) in [
        (&["--color", "never"][..], &[][..], &plain),
        (&[], &[("NO_COLOR", "1")], &plain),
        (&["--color=auto"], &[("NO_COLOR", "0")], &plain),
        (&[], &[("TERM", "dumb")], &plain),
        (&["--pretty", "--color", "never"], &[], &indented),
    ] {
        assert_eq!(without_time(&printed(true, options, variables)), expected, "{options:?} {variables:?}");
        assert_eq!(&printed(false, options, variables), expected, "{options:?} {variables:?}");
    }
}

#[test]
fn a_full_disk_is_the_reason_that_listen_and_the_help_fail() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for options in [&[][..], &["--count", "1"]] {
        let (mut listen, publisher) = started(options, |command| Process::spawn_printing_to(command, full()));
        publisher.send_multipart(MESSAGE, 0).unwrap();
        listen.finish(3).stderr.has("standard output").has("No space left");
    }
    for option in ["--help", "--version"] {
        Process::spawn_printing_to(binary().arg(option), full()).finish(3).stderr.has("No space left");
    }
}

/// A script that asks for ten messages learns that it did not get them.
#[test]
fn listen_ends_quietly_when_its_reader_is_gone_and_tells_by_its_status_whether_messages_are_missing() {
    for (options, is_interrupted, status) in
        [(&[][..], false, 0), (&["--count", "10"], true, 1), (&["--count", "10"], false, 1)]
    {
        let (reader, writer) = io::pipe().unwrap();
        let (mut listen, publisher) = started(options, |command| Process::spawn_printing_to(command, writer));
        publisher.send_multipart(MESSAGE, 0).unwrap();
        assert!(BufReader::new(reader).lines().next().is_some());
        if is_interrupted {
            listen.signal(Signal::INT);
        }
        // Nobody reads from standard output any more, which the next lines find out.
        send_until_it_ends(&publisher, &mut listen);
        listen.finish(status).stderr.lacks("panic");
    }
}

#[test]
fn listen_ends_quietly_when_its_terminal_hangs_up() {
    let (publisher, endpoint) = publisher();
    // With a controlling terminal, the hang-up is a signal as well; without, only the next message shows it.
    for mut command in [Command::new("setsid"), Command::new("env")] {
        let terminal = Terminal::open();
        command.args((command.get_program() == "setsid").then_some("--ctty"));
        command.arg(binary().get_program()).args(["listen", "--connect", &endpoint]).stdin(terminal.stream());
        let mut listen = Process::spawn_printing_to(&mut command, terminal.stream());
        assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
        drop(terminal);
        send_until_it_ends(&publisher, &mut listen);
        listen.end().stderr.lacks("panic");
        assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x00");
    }
}

#[test]
fn listen_stops_although_its_reader_does_not_read() {
    let (reader, writer) = io::pipe().unwrap();
    let (mut listen, publisher) = started(&[], |command| Process::spawn_printing_to(command, writer));
    let payload = format!("\"{}\"", "x".repeat(1 << 20));
    (0..3).for_each(|_| publisher.send_multipart(["a", &payload], 0).unwrap());
    let readable = PollFd::new(&reader, PollFlags::IN);
    assert_eq!(rustix::event::poll(&mut [readable], Some(&PATIENCE.try_into().unwrap())), Ok(1));
    listen.stop(Signal::TERM);
    drop(reader);
}

/// A pager that is paused, or a terminal after Ctrl-S, costs little memory and no message.
#[test]
fn listen_reads_no_more_than_it_may_hold_while_nobody_reads_what_it_prints() {
    const MOST_POSTED: usize = 150;
    let (_directory, [_, endpoint]) = hub_endpoints();
    let bounds = ["--queue", "4", "--stall-timeout", "0"];
    let gateway = Gateway::serve().arguments(bounds).bind(&endpoint).start_ready();
    let (reader, writer) = io::pipe().unwrap();
    let mut listen = Process::spawn_printing_to(&mut listen(&endpoint, &[]), writer);
    listen.wait_log("waiting for messages");
    let padding = "x".repeat(1_000_000);
    // A message is refused while `listen` reads the ones before it, too.
    let is_taken = |number: &usize| {
        let body = format!(r#"{{"topic":"a","payload":{{"n":{number},"padding":"{padding}"}}}}"#);
        let refused_at = Instant::now() + Duration::from_secs(1);
        loop {
            match gateway.post(&body).status {
                200 => return true,
                status => assert_eq!(status, 503),
            }
            if Instant::now() >= refused_at {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
    };
    let posted = (0..MOST_POSTED).take_while(is_taken).count();
    let peak_kib = peak_resident_kib(listen.id());
    assert!(posted < MOST_POSTED && peak_kib < 64 * 1024, "{posted} messages are taken, {peak_kib} KiB");

    let mut lines = BufReader::new(reader).lines();
    for number in 0..posted {
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with(&format!(r#"a	{{"n":{number},"#)), "message {number}: {}", &line[..20]);
    }
    listen.stop(Signal::INT);
}

/// One line stands for all of them, until a minute is over.
#[test]
fn listen_warns_once_of_messages_that_it_cannot_print() {
    let (mut listen, publisher) = started(&["--count", "1"], Process::spawn);
    (0..100).for_each(|_| publisher.send_multipart(["a", "b", "c"], 0).unwrap());
    publisher.send_multipart(MESSAGE, 0).unwrap();
    let log = listen.finish(0).stderr;
    log.has_times(1, "ignored a message of 3 frames, since a message has two").has_times(1, "frames");
}

#[test]
fn listen_says_which_encoding_the_payloads_have() {
    for (option, payload, hint) in [
        ("json", &b"\x81\xa1k\x01"[..], "a payload of a is MessagePack: `--encoding msgpack` shows it"),
        ("msgpack", b"{}", "a payload of a is JSON: `--encoding json` shows it"),
    ] {
        let (mut listen, publisher) = started(&["--encoding", option, "--count", "2"], Process::spawn);
        (0..2).for_each(|_| publisher.send_multipart([b"a", payload], 0).unwrap());
        listen.finish(0).stderr.has_times(1, hint);
    }
}

#[test]
fn listen_says_that_a_hub_is_away_and_that_it_is_back() {
    let (_directory, [publishers, subscribers]) = hub_endpoints();
    let hub = || {
        let gateway = Gateway::serve().no_settings().only_hub(&publishers, &subscribers).spawn();
        gateway.wait_log("subscribers to");
        gateway
    };
    hub().terminate();

    let mut listen = Process::spawn(&mut listen(&subscribers, &[]));
    let away =
        format!("not connected to {subscribers}: connection refused, nothing listens there; waiting until it is there");
    listen.wait_log(&away);
    let mut second = hub();
    listen.wait_log(&format!("connected to {subscribers}, waiting for messages"));
    second.terminate();
    let lost = format!("not connected to {subscribers}: the connection was closed");
    let log = eventually("the loss is logged, and then its reason", || {
        let Transcript { stderr, .. } = listen.transcript();
        (stderr.contains(&lost) && stderr.matches(&away).count() == 2).then_some(stderr)
    });
    assert_eq!(log.lines().count(), 4, "a line for each change, and not for each attempt: {log}");
    listen.stop(Signal::INT);
}

#[test]
fn listen_says_why_each_endpoint_is_not_connected_and_connects_after_another_socket_had_the_port() {
    let (publishers_side, wrong) = bound_socket(zmq::XSUB, &dead_endpoint());
    let (publisher, right) = publisher();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("tcp://{}", stranger.local_addr().unwrap());
    let unresolved = "tcp://nonexistent.invalid:16103";

    let others = ["--connect", &silent, "--connect", &wrong, "--connect", &right];
    let mut listen = Process::spawn(&mut listen(unresolved, &others));
    for line in [
        format!("not connected to {unresolved}: the name cannot be resolved: "),
        format!("not connected to {silent}: no answer"),
        format!("not connected to {wrong}: the publishers' side of a hub listens there (a socket of type XSUB)"),
        format!("connected to {right}, waiting for messages"),
    ] {
        listen.wait_log(&line);
    }
    // No endpoint holds up another one.
    let is_heard = |publisher: &zmq::Socket| {
        assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
        publisher.send_multipart(MESSAGE, 0).unwrap();
        assert!(listen.next_line().is_some());
    };
    is_heard(&publisher);
    publishers_side.unbind(&wrong).unwrap();
    let publisher = socket(zmq::XPUB);
    eventually("the port is free", || publisher.bind(&wrong).ok());
    listen.wait_log(&format!("connected to {wrong}, waiting for messages"));
    is_heard(&publisher);
    listen.stop(Signal::INT);
}
