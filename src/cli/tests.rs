//! What command lines become, and what the help says.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use super::*;
use crate::bus::{HUB_PUBLISHERS, HUB_SUBSCRIBERS};

fn parse(line: &str) -> Result<Command, EarlyExit> {
    Arguments::parse(line.split_whitespace().map(OsString::from))
}

/// argh takes the text of an option as a literal, so the help states each default a second time.
#[test]
fn the_help_states_the_defaults() {
    for command in ["serve", "demo", "listen", "send"] {
        let Err(EarlyExit::Help(help)) = parse(&format!("{command} --help")) else { panic!() };
        let without = format!("{:?}", parse(command));
        for entry in help.split("\n  --").skip(1) {
            let entry = entry.split_whitespace().collect::<Vec<_>>().join(" ");
            let (name, _) = entry.split_once(' ').unwrap();
            let stated = entry.split_once("(default: ").map(|(_, stated)| stated.split([')', ',']).next().unwrap());
            if let Some(stated) = stated.filter(|it| it.parse::<u64>().is_ok() || entry.contains(&format!("{it}|"))) {
                let with = format!("{:?}", parse(&format!("{command} --{name} {stated}")));
                assert_eq!(with, without, "{command} --{name}: the help says that its default is {stated}");
            }
        }
    }
}

/// Those that stand where their option is given or not, so that no value of the option is the default.
#[test]
fn the_help_states_the_addresses_that_are_the_defaults() {
    for (command, option, default) in [
        ("serve", "--listen", format!("127.0.0.1:{DEFAULT_PORT}, and [::1]:{DEFAULT_PORT} if")),
        ("serve", "--connect", format!("{HUB_PUBLISHERS})")),
        ("serve", "--hub-publishers", format!("{HUB_PUBLISHERS})")),
        ("serve", "--hub-subscribers", format!("{HUB_SUBSCRIBERS})")),
        ("demo", "--listen", format!("127.0.0.1:{DEFAULT_PORT}, or")),
        ("listen", "--connect", format!("{HUB_SUBSCRIBERS})")),
        ("send", "--url", format!("https://localhost:{DEFAULT_PORT})")),
    ] {
        let Err(EarlyExit::Help(help)) = parse(&format!("{command} --help")) else { panic!() };
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, text) = help.split_once(&format!(" {option} ")).unwrap();
        let (_, stated) = text.split_once("(default: ").unwrap();
        assert!(stated.starts_with(&default), "{command} {option}: {stated}");
    }
}

#[test]
fn a_value_may_follow_an_equals_sign() {
    let Ok(Command::Serve(serve)) = parse("serve --listen=[::1]:0 --listen 127.0.0.1:0 --drain-timeout=0.5") else {
        panic!()
    };
    assert_eq!(serve.listen, ["[::1]:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()]);
    assert_eq!(serve.drain_timeout, Duration::from_millis(500));
}

#[test]
fn a_value_may_look_like_an_option_with_a_value() {
    let Ok(Command::Listen(listen)) = parse("listen --topic --a=b --topic=--count=c --count=7") else { panic!() };
    assert_eq!((listen.topic.as_slice(), listen.count), (&["--a=b", "--count=c"].map(String::from)[..], Some(7)));
    let Ok(Command::Listen(listen)) = parse("listen --topic --topic --count=3 --topic -- --timeout=2") else {
        panic!()
    };
    assert_eq!((listen.topic.as_slice(), listen.count), (&["--topic", "--"].map(String::from)[..], Some(3)));
}

#[test]
fn a_fault_shows_no_value_of_an_option_that_is_not_known() {
    for line in ["serve --token=s3cr3t", "send --token=s3cr3t t {}", "--token=s3cr3t serve"] {
        let Err(EarlyExit::Usage(fault)) = parse(line) else { panic!("{line}") };
        assert!(fault.contains("--token") && !fault.contains("s3cr3t"), "{fault}");
    }
}

#[test]
fn a_path_may_hold_any_bytes_and_nothing_else_may() {
    let path = OsString::from_vec(b"a\xffb/\xc3\xa9\xc3".to_vec());
    let parse_with = |words: [&str; 2], behind: &str| {
        let [command, option] = words;
        let mut last = OsString::from(behind);
        last.push(&path);
        let words = [command, option].into_iter().filter(|word| !word.is_empty()).map(OsString::from);
        Arguments::parse(words.chain([last]))
    };
    for words in [["enable", "--settings"], ["enable", ""]] {
        let behind = if words[1].is_empty() { "--settings=" } else { "" };
        let Ok(Command::Enable(enable)) = parse_with(words, behind) else { panic!("{words:?}") };
        assert_eq!(enable.settings.unwrap().into_os_string(), path);
    }
    for (words, behind) in
        [(["serve", "--connect"], ""), (["send", ""], "--url="), (["send", ""], ""), (["", ""], "--settings")]
    {
        let Err(EarlyExit::Usage(fault)) = parse_with(words, behind) else { panic!("{words:?}") };
        assert!(fault.contains("UTF-8"), "{words:?} {fault}");
    }
}

#[test]
fn an_empty_path_is_refused() {
    for option in ["serve --settings=", "serve --tls-key=", "send --unix=", "enable --settings="] {
        let Err(EarlyExit::Usage(fault)) = parse(option) else { panic!("{option}") };
        assert!(fault.contains("an empty path"), "{fault}");
    }
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
fn behind_two_dashes_every_word_is_a_message_as_it_stands() {
    let Ok(Command::Send(send)) = parse("send --url=http://h -- --a=b -h") else { panic!() };
    assert_eq!(
        (send.message.as_slice(), send.url.as_deref()),
        (&["--a=b", "-h"].map(String::from)[..], Some("http://h"))
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
fn a_usage_error_is_one_sentence() {
    let Err(EarlyExit::Usage(text)) = parse("serve --stats") else { panic!() };
    assert_eq!(text, "No value provided for option '--stats'; see --help");
}

#[test]
fn an_origin_is_taken_as_browsers_send_it() {
    for origin in [
        "*",
        "null",
        "https://example.org",
        "http://localhost:3000",
        "http://[::1]:8080",
        "chrome-extension://abcdef",
        "http://a_b:443",
        "file://",
    ] {
        let Ok(Command::Serve(serve)) = parse(&format!("serve --allow-origin {origin}")) else { panic!("{origin}") };
        assert_eq!(serve.allow_origin, [origin]);
    }
    for origin in [
        "example.org",
        "https://example.org/",
        "https://example.org/a",
        "https://Example.org",
        "HTTPS://example.org",
        "https://example.org:443",
        "http://example.org:80",
        "http://example.org:080",
        "http://example.org:",
        "http://example.org:65536",
        "https://",
        "file:///",
        "file:",
        "://a",
        "https://user@example.org",
        "https://[::0001]",
        "https://é.example",
        "Null",
        "https://*.example.org",
    ] {
        let Err(EarlyExit::Usage(text)) = parse(&format!("serve --allow-origin {origin}")) else { panic!("{origin}") };
        assert!(text.contains("scheme://host or scheme://host:port in lower case"), "{text}");
    }
}

#[test]
fn help_and_version_are_not_usage_errors() {
    for line in [
        "--help",
        "-h",
        "serve --help",
        "serve -h",
        "serve --plain -h",
        "demo --help",
        "listen --help",
        "send --help",
        "--version",
        "-V",
    ] {
        assert!(matches!(parse(line), Err(EarlyExit::Help(_))), "{line}");
    }
}
