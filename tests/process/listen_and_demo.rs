//! The commands `listen` and `demo`: a person can use what they print.

use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::http::Client;
use crate::support::io_mode::io_mode;
use crate::support::process::{Process, Transcript, binary, run};
use crate::support::request::Request;
use crate::support::subscriber::ipc_endpoint;
use crate::support::{PATIENCE, eventually, skip};

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

#[test]
fn a_second_signal_ends_listen_while_nobody_reads_its_output() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = ipc_endpoint(&directory);
    let publisher = publisher(&endpoint);
    let mut command = binary();
    command.args(["listen", "--connect", &endpoint]).stdout(Stdio::piped());
    let mut listen = command.spawn().unwrap();
    assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01");
    let unread = listen.stdout.take().unwrap();
    eventually("a full pipe", || {
        publisher.send_multipart(["t", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(10_000))], 0).unwrap();
        (ioctl_fionread(&unread).unwrap() > 50_000).then_some(())
    });
    let status = eventually("the end", || {
        let status = listen.try_wait().unwrap();
        if status.is_none() {
            kill_process(Pid::from_child(&listen), Signal::INT).unwrap();
        }
        status
    });
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_curl_line_that_demo_prints_posts_a_message() {
    let (_, help) = run(["demo", "--help"]);
    let plain = help.stdout.contains("--plain").then_some("--plain");
    let mut demo = Process::spawn(binary().args(["demo", "--io", io_mode()]).args(plain));
    let line = next_line(&demo, |line| line.trim_start().starts_with("curl "));
    let message = paste(&line);

    let topic = message["topic"].as_str().expect("the line posts a topic");
    let seen = next_line(&demo, |line| line.contains(topic));
    let content = message["payload"]["content"].as_str().unwrap_or_default();
    assert!(seen.contains(content), "{content:?} is not in {seen:?}");

    demo.signal(Signal::INT);
    assert_eq!(demo.wait_exit(PATIENCE).code(), Some(0));
    let output = demo.end();
    for stream in [output.stdout, output.stderr] {
        assert!(!stream.contains('\x1b'), "an escape sequence in a pipe: {stream:?}");
    }
}

/// A demo takes no port or endpoint that an adapter or another demo may use.
#[test]
fn two_demos_run_side_by_side() {
    let demos = [(); 2].map(|()| Process::spawn(binary().args(["demo", "--io", io_mode()])));
    let lines = demos.each_ref().map(|demo| next_line(demo, |line| line.trim_start().starts_with("curl ")));
    assert_ne!(lines[0], lines[1], "each has its own token");
    for mut demo in demos {
        demo.signal(Signal::TERM);
        assert_eq!(demo.wait_exit(PATIENCE).code(), Some(0));
    }
}

/// Returns the next line of stdout that `wanted` accepts.
fn next_line(process: &Process, wanted: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let line = process.next_line(deadline).expect("stdout is closed before the line");
        if wanted(&line) {
            return line;
        }
    }
}

/// Runs the line in a shell and returns the message that it posts. Where curl is not installed, it says so and posts
/// the message with the client of these tests.
fn paste(line: &str) -> Value {
    let arguments = shell_words(line);
    let data = arguments.iter().rev().find(|it| it.starts_with('{')).expect("the line posts JSON");
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    if has_curl {
        let output = Command::new("sh").args(["-c", line]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("accepted"), "{output:?}");
    } else {
        skip("curl is not installed, so the line is not run as it stands");
        let url = arguments.iter().find_map(|it| it.strip_prefix("http://")).expect("a plain URL");
        let (host, target) = url.split_at(url.find('/').unwrap());
        let mut client = Client::connect(host.parse().unwrap());
        client.exchange(&Request::post(target, data)).assert_accepted();
    }
    serde_json::from_str(data).unwrap()
}

/// Returns the arguments as a shell passes them to curl.
fn shell_words(line: &str) -> Vec<String> {
    let script = format!("curl() {{ printf '%s\\0' \"$@\"; }}\n{line}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let words = String::from_utf8(output.stdout).unwrap();
    words.split_terminator('\0').map(str::to_owned).collect()
}
