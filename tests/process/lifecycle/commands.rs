//! The command line: the help, and wrong arguments.

use crate::support::process::{Transcript, run};

const SERVE: &[&str] = &[
    "--settings",
    "--listen",
    "--plain",
    "--tls-cert",
    "--tls-key",
    "--connect",
    "--bind",
    "--hub",
    "--encoding",
    "--check",
    "--allow-origin",
    "--io",
    "--workers",
    "--max-body",
    "--max-head",
    "--max-connections",
    "--max-buffered",
    "--head-timeout",
    "--body-timeout",
    "--idle-timeout",
    "--drain-timeout",
    "--queue",
    "--watch-stdin",
    "--watch-parent",
    "--log-time",
    "--events",
    "--stats",
];

fn help<'a>(arguments: impl IntoIterator<Item = &'a str>) -> String {
    let (code, Transcript { stdout, .. }) = run(arguments);
    assert_eq!(code, 0);
    stdout
}

#[test]
fn the_help_names_every_command() {
    let text = help(["--help"]);
    for command in ["serve", "demo", "listen", "send", "enable", "disable"] {
        assert!(text.contains(command), "{command} is not in\n{text}");
    }
}

#[test]
fn the_help_names_every_option() {
    let listen: &[&str] = &["--connect", "--topic", "--encoding", "--count", "--timeout"];
    let send: &[&str] = &["--settings", "--url", "--unix", "--keep-going"];
    for (command, options) in [
        ("serve", SERVE),
        ("listen", listen),
        ("send", send),
        ("enable", &["--settings"]),
        ("disable", &["--settings"]),
    ] {
        let text = help([command, "--help"]);
        let words: Vec<&str> = text.split(|it: char| !(it.is_alphanumeric() || it == '-')).collect();
        for option in options {
            assert!(words.contains(option), "{option} is not in\n{text}");
        }
    }
    help(["demo", "--help"]);
}

#[test]
fn wrong_arguments_are_2_with_a_message_on_stderr() {
    let wrong: [&[&str]; 10] = [
        &[],
        &["sreve"],
        &["serve", "--no-such-option"],
        &["serve", "--workers", "many"],
        &["serve", "--workers", "0"],
        &["serve", "--listen", "localhost"],
        &["serve", "--encoding", "xml"],
        &["serve", "--check", "nothing"],
        &["serve", "--io", "magic"],
        &["listen", "--count", "-1"],
    ];
    for arguments in wrong {
        let (code, output) = run(arguments.iter().copied());
        assert_eq!(code, 2, "{arguments:?}");
        assert!(!output.stderr.trim().is_empty(), "{arguments:?}");
        assert_eq!(output.stdout, "", "{arguments:?}");
    }
}

#[test]
fn a_mistyped_command_option_or_value_names_the_nearest() {
    for (arguments, meant) in [
        (&["sreve"][..], "serve"),
        (&["serve", "--listne", "127.0.0.1:0"], "--listen"),
        (&["serve", "--io", "ep0ll"], "epoll"),
        (&["listen", "--color", "nevr"], "never"),
    ] {
        let (code, output) = run(arguments.iter().copied());
        assert_eq!(code, 2, "{arguments:?}");
        assert!(output.stderr.contains(&format!("did you mean {meant}?")), "{arguments:?}: {}", output.stderr);
    }
}
