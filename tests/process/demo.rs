//! The command `demo`: a person can use what it prints, and it ends with its terminal.

use crate::support::*;

const PLAIN: [&str; 3] = ["--plain", "--listen", "127.0.0.1:0"];

#[test]
fn a_demo_that_cannot_keep_its_certificate_names_the_variable() {
    Process::spawn(demo(&[]).env("TMPDIR", "/dev/null")).finish(3).stderr.has("TMPDIR").lacks("--cert-dir");
}

#[test]
fn the_curl_line_that_demo_prints_posts_a_message() {
    let mut demo = Process::spawn(&mut demo(&["--plain"]));
    assert_pasted_line_is_seen(&demo, &curl_line(&demo));
    // A publisher is seen too, and a stranger is not.
    let log = demo.wait_log(", subscribers to ");
    let (_, publishers) = log.split_once("publishers may connect to ").unwrap();
    let (publishers, _) = publishers.split_once(", subscribers to ").unwrap();
    let mut stranger = RawPeer::connect(publishers);
    stranger.send(b"\x01\x00\x06\x01a/b/c\x03\x00{}");
    stranger.read_to_end();
    RawPeer::speaking(publishers, "PUB").send_all(&message(&[b"marker", b"{}"]));
    assert_eq!(demo.wait_line("a message", |line| line.contains('\t')), "marker\t{}\n");
    let output = demo.stop(Signal::INT);
    for stream in [output.stdout, output.stderr] {
        assert!(!stream.contains('\x1b'), "an escape sequence in a pipe: {stream:?}");
    }
}

/// With https, curl accepts the certificate for the address in the line.
#[test]
fn the_curl_line_posts_a_message_wherever_the_demo_listens() {
    for place in ["127.0.0.1:0", "127.0.0.2:0", "0.0.0.0:0", "unix:it's here"] {
        let directory = tempfile::tempdir().unwrap();
        let mut demo = Process::spawn(demo(&["--listen", place]).current_dir(directory.path()));
        assert_pasted_line_is_seen(&demo, &curl_line(&demo));
        demo.stop(Signal::INT);
        assert_eq!(entries(&directory).count(), 0, "{place}");
    }
}

#[test]
fn a_demo_stops_although_its_reader_reads_no_more_or_nothing() {
    let (_unread, stdout) = FullPipe::new();
    let mut unread = Process::spawn_printing_to(&mut demo(&PLAIN), stdout);
    unread.wait_log("listening");
    unread.stop(Signal::TERM);

    let (reader, writer) = io::pipe().unwrap();
    let mut demo = Process::spawn_printing_to(&mut demo(&["--plain"]), writer);
    let mut printed = BufReader::new(reader);
    let mut line = String::new();
    while !line.starts_with("curl ") {
        line.clear();
        assert!(printed.read_line(&mut line).unwrap() > 0, "stdout is closed before the line");
    }
    let url = shell_words(&line).into_iter().find_map(|word| Some(word.strip_prefix("http://")?.to_owned())).unwrap();
    let (host, target) = url.split_at(url.find('/').unwrap());
    let content = "x".repeat(500_000);
    let body = format!(r#"{{"topic":"a","payload":{{"content":"{content}"}}}}"#);
    let mut client = Client::connect(host.parse().unwrap());
    (0..3).for_each(|_| client.exchange(&Request::post(target, &body)).assert_accepted());
    // The rest of the welcome is read, and the beginning of the first message, and no more.
    while !printed.fill_buf().unwrap().starts_with(b"a\t") {
        printed.read_line(&mut line).unwrap();
    }
    demo.stop(Signal::TERM);
}

#[test]
fn a_demo_ends_when_its_terminal_hangs_up() {
    let terminal = Terminal::open();
    let mut command = Command::new("setsid");
    // The tests may run where SIGHUP is ignored, for example under nohup(1).
    command.args(["--ctty", "env", "--default-signal=HUP"]).arg(binary().get_program()).stdin(terminal.stream());
    command.args(["demo", "--listen", "127.0.0.1:0", "--io", io_mode()]);
    let temporary = tempfile::tempdir().unwrap();
    command.env("TMPDIR", temporary.path());
    let mut demo = Process::spawn_printing_to(&mut command, terminal.stream());
    demo.wait_log("listening on");
    drop(terminal);
    demo.finish(0);
    assert_eq!(entries(&temporary).count(), 0, "the demo removes its certificate");
}

/// The shell does as nohup(1) does.
#[test]
fn a_demo_that_is_started_with_sighup_ignored_outlives_its_terminal() {
    let mut demo = Process::spawn(&mut after("trap '' HUP", &demo(&PLAIN)));
    let line = curl_line(&demo);
    demo.signal(Signal::HUP);
    assert_pasted_line_is_seen(&demo, &line);
    demo.stop(Signal::TERM);
}

/// A demo takes no port or endpoint that an adapter or another demo may use.
#[test]
fn two_demos_run_side_by_side() {
    let demos = [(); 2].map(|()| Process::spawn(&mut demo(&[])));
    let lines = demos.each_ref().map(curl_line);
    assert_ne!(lines[0], lines[1], "each has its own token");
    for mut demo in demos {
        demo.stop(Signal::TERM);
    }
}

fn demo(options: &[&str]) -> Command {
    let mut command = binary();
    command.args(["demo", "--io", io_mode()]).args(options);
    command
}

fn curl_line(demo: &Process) -> String {
    demo.wait_line("curl", |line| line.trim_start().starts_with("curl "))
}

/// Pastes the line that the demo prints into a shell, and waits for the message.
fn assert_pasted_line_is_seen(demo: &Process, line: &str) {
    needs!(is_possible("curl --version"));
    Process::spawn(&mut command(&["sh", "-c", line])).finish(0).stdout.has("accepted");
    let data = shell_words(line).into_iter().rfind(|it| it.starts_with('{')).expect("the line posts JSON");
    let message: Value = serde_json::from_str(&data).unwrap();
    let topic = message["topic"].as_str().expect("the line posts a topic");
    let content = message["payload"]["content"].as_str().unwrap_or_default();
    demo.wait_line(topic, |line| line.contains(topic)).has(content);
}

/// Returns the arguments as a shell passes them to curl.
fn shell_words(line: &str) -> Vec<String> {
    let script = format!("curl() {{ printf '%s\\0' \"$@\"; }}\n{line}");
    let words = Process::spawn(&mut command(&["sh", "-c", &script])).finish(0).stdout;
    words.split_terminator('\0').map(str::to_owned).collect()
}
