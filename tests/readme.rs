//! The README, held against the program: its tables name what there is, and its examples run as they stand.
//!
//! A comment `<!-- run: NAME -->` marks a block of code, `<!-- options: COMMAND -->` and `<!-- statuses -->` a table.
//! An example needs its client; where that is not installed, its test says so and passes.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets the unexpected has one thing to do: fail where it stands"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use adapter_gateway::proto::problem::Status;
use serde_json::Value;

const README: &str = include_str!("../README.md");

/// The program, and what its source says of problems.
const GATEWAY: &str = env!("CARGO_BIN_EXE_adapter-gateway");
const PROBLEMS: &str = include_str!("../src/proto/problem.rs");

/// How long a message may take to arrive, in ms.
const PATIENCE_MS: i32 = 30_000;

/// What each client's example posts, in its order.
const POSTED: [(&str, &str); 11] = [
    ("adapter/extensions/data", r#"{"extension_id":"demo","content":"hello"}"#),
    ("visual/extensions/command", r#"{"extension_id":"demo","content":"blink()"}"#),
    ("core/extensions/operate", r#"{"extension_name":"demo","content":"start"}"#),
    ("core/extension/statu/change", r#"{"extension_name":"demo","content":"start"}"#),
    (
        "to_homeauto",
        r#"{"extension_id":"demo","content":{"type":"call_service","domain":"light","service":"turn_on","service_data":{"entity_id":"light.desk"}}}"#,
    ),
    ("adapter/nodes/data", r#"{"node_id":"demo","content":"hello"}"#),
    ("visual/extensions/command", r#"{"node_id":"demo","content":"blink()"}"#),
    ("core/exts/operate", r#"{"node_name":"demo","content":"stop"}"#),
    ("core/nodes/operate", r#"{"node_name":"demo","content":"stop"}"#),
    ("core/node/statu/change", r#"{"node_name":"demo","content":"stop"}"#),
    (
        "to_homeauto",
        r#"{"node_id":"demo","content":{"type":"call_service","domain":"cover","service":"close_cover","service_data":{"entity_id":"cover.blind"}}}"#,
    ),
];

/// What follows the one place of `mark`.
fn behind(mark: &str) -> &'static str {
    let mark = format!("<!-- {mark} -->\n");
    let mut parts = README.split(mark.as_str());
    let rest = parts.nth(1).unwrap_or_else(|| panic!("the README has no {mark}"));
    assert!(parts.next().is_none(), "the README has {mark} twice");
    rest
}

/// The block of code behind `<!-- run: NAME -->`.
fn block(name: &str) -> &'static str {
    let (fence, rest) = behind(&format!("run: {name}")).split_once('\n').unwrap();
    assert!(fence.starts_with("```"), "{fence}");
    rest.split_once("```").unwrap().0
}

/// The rows behind a mark, without the heading.
fn rows(mark: &str) -> impl Iterator<Item = &'static str> {
    behind(mark).lines().take_while(|line| line.starts_with('|')).skip(2)
}

/// The first column's words that begin with two dashes.
fn options(rows: impl Iterator<Item = &'static str>) -> BTreeSet<String> {
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    let words = cells.flat_map(|cell| cell.split([' ', '`']));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

/// Every option that `--help` of the command lists.
fn offered(command: &str) -> BTreeSet<String> {
    let help = Command::new(GATEWAY).args([command, "--help"]).output().unwrap();
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.lines().filter_map(|line| line.strip_prefix("  --")?.split([' ', ',']).next());
    listed.filter(|&option| option != "help").map(|option| format!("--{option}")).collect()
}

#[test]
fn the_tables_of_options_are_those_of_the_help() {
    for command in ["serve", "demo", "listen"] {
        let (described, offered) = (options(rows(&format!("options: {command}"))), offered(command));
        let missing: Vec<_> = described.difference(&offered).collect();
        assert!(missing.is_empty(), "{command} has no {missing:?}");
        let silent: Vec<_> = offered.difference(&described).collect();
        assert!(silent.is_empty(), "the README says nothing of {silent:?} of {command}");
    }
}

#[test]
fn the_table_of_answers_has_every_status_and_every_problem() {
    let documented: BTreeSet<u16> = rows("statuses").map(|row| row.get(2..5).unwrap().parse().unwrap()).collect();
    assert_eq!(documented, Status::ALL.iter().map(|status| status.code()).collect());

    let described: BTreeSet<&str> = rows("statuses").filter_map(|row| row.split('`').nth(1)).collect();
    let kinds = PROBLEMS.split("(Status::").skip(1).filter_map(|rest| {
        let (_, kind) = rest.lines().next()?.split_once(", \"")?;
        Some(kind.split_once('"')?.0)
    });
    for kind in kinds {
        assert!(described.contains(kind), "the README's table has no {kind}");
    }
}

#[test]
fn curl() {
    run_client("curl", &["curl", "--version"], &["sh", "-e", "-c"]);
}

#[test]
fn httpie() {
    run_client("http", &["http", "--version"], &["sh", "-e", "-c"]);
}

#[test]
fn python_requests() {
    run_client("python3", &["python3", "-c", "import requests"], &["python3", "-c"]);
}

#[test]
fn ajax() {
    let has_fetch = ["node", "-e", "process.exit(typeof fetch === 'function' ? 0 : 1)"];
    run_client("node", &has_fetch, &["node", "--input-type=module", "-e"]);
}

#[test]
fn the_parent_in_python() {
    if !succeeds(&["python3", "--version"]) {
        println!("skipped: there is no python3");
        return;
    }
    for options in [&[][..], &["--plain"]] {
        let mut python = Command::new("python3");
        python.arg("-c").arg(block("parent")).args(options).env("ADAPTER_GATEWAY", GATEWAY).env("no_proxy", "*");
        let output = python.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.ends_with("every accepted message was published\n"), "{output:?}");
    }
}

/// Runs an example against a gateway of its own, whose hub is this process, if its client is there.
fn run_client(name: &str, probe: &[&str], interpreter: &[&str]) {
    if !succeeds(probe) {
        println!("skipped: `{}` fails", probe.join(" "));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let hub = zmq::Context::new().socket(zmq::SUB).unwrap();
    let endpoint = format!("ipc://{}/hub", directory.path().display());
    hub.set_rcvtimeo(PATIENCE_MS).unwrap();
    hub.set_subscribe(b"").unwrap();
    hub.bind(&endpoint).unwrap();
    // A socket that binds subscribes when it is called, not before.
    let hub = std::thread::spawn(move || POSTED.map(|_| hub.recv_multipart(0).unwrap()));
    let (gateway, url) = Gateway::serve(directory.path(), &endpoint);

    let script = block(name)
        .replace("https://localhost:12358/api/message", &url)
        .replace("<ACCESS_TOKEN>", "t0ken")
        .replace("~/.config/adapter", directory.path().to_str().unwrap());
    let certificate = directory.path().join("gateway-cert.pem");
    let mut client = command(interpreter);
    client.arg(script).env("no_proxy", "*").env("NODE_EXTRA_CA_CERTS", certificate);
    let output = client.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for ((topic, payload), frames) in POSTED.into_iter().zip(hub.join().unwrap()) {
        let [seen, content] = frames.as_slice() else { panic!("{frames:?}") };
        let content: Value = serde_json::from_slice(content).unwrap();
        assert_eq!((seen.as_slice(), content), (topic.as_bytes(), serde_json::from_str(payload).unwrap()));
    }
    drop(gateway);
}

fn command(words: &[&str]) -> Command {
    let (program, arguments) = words.split_first().unwrap();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn succeeds(words: &[&str]) -> bool {
    command(words).output().is_ok_and(|output| output.status.success())
}

/// Killed when dropped.
struct Gateway(Child);

impl Gateway {
    /// A gateway in https that is connected to its hub, and where it listens.
    fn serve(directory: &Path, hub: &str) -> (Self, String) {
        let settings = directory.join("user_settings.py");
        std::fs::write(&settings, "OPEN_REST_API = True\nTOKEN = 't0ken'\n").unwrap();
        let mut serve = command(&[GATEWAY, "serve", "--listen", "127.0.0.1:0", "--connect", hub]);
        let mut child = serve.arg("--settings").arg(settings).stdout(Stdio::piped()).spawn().unwrap();
        let mut events = BufReader::new(child.stdout.take().unwrap());
        let gateway = Self(child);
        let (mut url, mut connected) = (None, false);
        while url.is_none() || !connected {
            let event = next_event(&mut events);
            match event["event"].as_str() {
                Some("listening") => url = event["url"].as_str().map(str::to_owned),
                Some("bus") => connected = event["state"] == "connected",
                _ => {}
            }
        }
        (gateway, url.unwrap())
    }
}

fn next_event(events: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    events.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
