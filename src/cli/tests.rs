//! What command lines become, and what the help says.

use std::ffi::OsString;
use std::time::Duration;

use super::arguments::{DEFAULT_CONNECTIONS, DEFAULT_DRAIN_TIMEOUT_S, DEFAULT_WORKERS};
use super::*;
use crate::bus::{HUB_PUBLISHERS, HUB_SUBSCRIBERS, QUEUE_MESSAGES};
use crate::proto::budget::BUFFERED_BYTES;
use crate::proto::message::{Check, Encoding, Vocabulary};
use crate::proto::policy::{BODY_BYTES, HEAD_BYTES};
use crate::server::connection::{BODY_TIMEOUT_S, HEAD_TIMEOUT_S, IDLE_TIMEOUT_S};
use crate::server::workers::Io;

fn parse(line: &str) -> Result<Command, EarlyExit> {
    Arguments::parse(line.split_whitespace().map(OsString::from))
}

#[test]
fn options_have_these_defaults() {
    let Ok(Command::Serve(serve)) = parse("serve") else { panic!() };
    assert_eq!((serve.max_body.get(), serve.max_head.get(), serve.workers.get()), (1_048_576, 16_384, 1));
    assert_eq!((serve.max_connections.get(), serve.max_buffered.get()), (10_000, 67_108_864));
    assert_eq!(serve.queue.get(), 65_536);
    let timeouts = [serve.head_timeout, serve.body_timeout, serve.idle_timeout, serve.drain_timeout];
    assert_eq!(timeouts.map(Seconds::get), [10, 30, 75, 5].map(Duration::from_secs));
    assert!(serve.listen.is_empty() && !serve.plain && serve.io == Io::Auto);
    assert_eq!((serve.check, serve.encoding), (Check::Known, Encoding::Json));
    assert_eq!(serve.vocabulary, Vocabulary::AsSent);
}

/// argh takes the text of an option as a literal, so the help states each default a second time.
#[test]
fn the_help_states_the_defaults() {
    let serve = [
        ("--listen", format!("127.0.0.1:{DEFAULT_PORT}, and [::1]:{DEFAULT_PORT} if")),
        ("--connect", format!("{HUB_PUBLISHERS})")),
        ("--hub-publishers", format!("{HUB_PUBLISHERS})")),
        ("--hub-subscribers", format!("{HUB_SUBSCRIBERS})")),
        ("--workers", format!("{DEFAULT_WORKERS})")),
        ("--max-body", format!("{BODY_BYTES})")),
        ("--max-head", format!("{HEAD_BYTES})")),
        ("--max-connections", format!("{DEFAULT_CONNECTIONS})")),
        ("--max-buffered", format!("{BUFFERED_BYTES})")),
        ("--head-timeout", format!("{HEAD_TIMEOUT_S})")),
        ("--body-timeout", format!("{BODY_TIMEOUT_S})")),
        ("--idle-timeout", format!("{IDLE_TIMEOUT_S})")),
        ("--drain-timeout", format!("{DEFAULT_DRAIN_TIMEOUT_S})")),
        ("--queue", format!("{QUEUE_MESSAGES})")),
    ];
    let demo = [("--listen", format!("127.0.0.1:{DEFAULT_PORT}, or"))];
    let listen = [("--connect", format!("{HUB_SUBSCRIBERS})"))];
    let send = [("--url", format!("https://localhost:{DEFAULT_PORT})"))];
    for (command, defaults) in [("serve", &serve[..]), ("demo", &demo), ("listen", &listen), ("send", &send)] {
        let Err(EarlyExit::Help(help)) = parse(&format!("{command} --help")) else { panic!() };
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for (option, default) in defaults {
            let (_, text) = help.split_once(&format!(" {option} ")).unwrap();
            let (_, stated) = text.split_once("(default: ").unwrap();
            assert!(stated.starts_with(default), "{command} {option}: {stated}");
        }
    }
}

#[test]
fn a_value_may_follow_an_equals_sign() {
    let Ok(Command::Serve(serve)) = parse("serve --listen=[::1]:0 --listen 127.0.0.1:0 --drain-timeout=0.5") else {
        panic!()
    };
    assert_eq!(serve.listen, ["[::1]:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()]);
    assert_eq!(serve.drain_timeout.get(), Duration::from_millis(500));
}

#[test]
fn words_that_are_no_options_are_a_message() {
    let Ok(Command::Send(send)) = parse("send --keep-going a/b {\"c\":1} --url=http://h") else { panic!() };
    assert_eq!(
        (send.message.as_slice(), send.url.as_deref()),
        (&["a/b", "{\"c\":1}"].map(String::from)[..], Some("http://h"))
    );
}

#[test]
fn wrong_arguments_are_usage_errors() {
    for line in [
        "",
        "server",
        "serve --port 1",
        "serve --listen localhost",
        "serve --listen unix:",
        "serve --listen unix:@name",
        "serve --listen fd:2",
        "demo --listen fd:x",
        "serve --workers 0",
        "serve --workers 65",
        "serve --max-body +5",
        "serve --max-body -1",
        "serve --head-timeout 0",
        "serve --head-timeout nan",
        "serve --io select",
        "serve --check all",
        "serve --vocabulary old",
        "serve --encoding xml",
        "serve x",
    ] {
        assert!(matches!(parse(line), Err(EarlyExit::Usage(_))), "{line}");
    }
}

#[test]
fn the_nearest_command_option_or_value_is_named() {
    for (line, meant) in [
        ("sreve --plain", "serve"),
        ("server", "serve"),
        ("Listen", "listen"),
        ("serve --lisen 127.0.0.1:0", "--listen"),
        ("serve --max_body=1", "--max-body"),
        ("serve -plain", "--plain"),
        ("serve --plain --hlep", "--help"),
        ("demo --plian", "--plain"),
        ("listen --colour never", "--color"),
        ("listen --count 1 pretty", "--pretty"),
        ("--verison", "--version"),
        ("--hepl", "--help"),
        ("--listen 127.0.0.1:0", "serve --listen"),
        ("--tpoic a", "listen --topic"),
        ("serve --io epol", "epoll"),
        ("serve --check knwon", "known"),
        ("serve --encoding messagepack", "msgpack"),
        ("listen --encoding JSON", "json"),
        ("listen --color=alway", "always"),
    ] {
        let Err(EarlyExit::Usage(text)) = parse(line) else { panic!("{line}") };
        assert!(text.contains(&format!("(did you mean {meant}?)")), "{line}: {text}");
    }
    let Err(EarlyExit::Usage(text)) = parse("serve x") else { panic!() };
    assert!(!text.contains("did you mean"), "{text}");
}

#[test]
fn help_and_version_are_not_usage_errors() {
    for line in ["--help", "-h", "serve --help", "serve -h", "demo --help", "listen --help", "send --help", "--version"]
    {
        assert!(matches!(parse(line), Err(EarlyExit::Help(_))), "{line}");
    }
}
