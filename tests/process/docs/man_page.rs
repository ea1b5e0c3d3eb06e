//! The manual page, in the macros of man(7).

use std::fmt::Write;
use std::process::Command as Process;

use adapter_gateway::cli::SERVE_GROUPS;

use super::document::repository;
use super::interface::{Command, Opt, Program, Value};

pub(crate) const PATH: &str = "packaging/man/adapter-gateway.1";

/// The day of the last change of the options. Readers of manuals expect one.
const DATE: &str = "2026-11-23";

const EVENTS: &str = r#".SH EVENTS
.B adapter-gateway serve
prints one JSON object a line on standard output, and nothing else:
.B listening
with the URL,
.B ready
and
.B not-ready
for whether a message that is posted is taken,
.B disabled
while the settings do not switch it on,
.BR bus ", " subscriber ", " settings ", " certificate " and " stats ,
.B failed
as the last line of a start that fails, and
.B stopped
with all counters as the last line of any other run. Logs for people go to standard error.
.SH SIGNALS
.TP
.BR SIGTERM ", " SIGINT
Stop: answer what is in flight, hand every accepted message to the hub, and exit with 0. A second one ends the
process at once.
.TP
.B SIGHUP
Read the settings and the certificates again.
.TP
.B SIGUSR1
Print the event
.BR stats ,
and log what subscribers and hubs have subscribed to.
"#;

const FILES: &str = r#".SH FILES
.TP
.I ~/.config/adapter/user_settings.py
The settings. The gateway is off until they say
.B OPEN_REST_API = True
and give a
.BR TOKEN .
The file is parsed as Python, and never executed.
.TP
.I ~/.config/adapter/gateway\-cert.pem
The self\-signed certificate, which clients trust. It is made on first use, with its key
.I gateway\-key.pem
and its authority
.IR gateway\-ca.pem .
.SH ENVIRONMENT
.TP
.B XDG_CONFIG_HOME
The directory to use in place of
.IR ~/.config .
.TP
.B NO_COLOR
If it is set and not empty,
.B adapter-gateway listen
prints no colours, unless
.B \-\-color
says so.
"#;

/// Returns the page.
pub(crate) fn page(program: &Program) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH ADAPTER\\-GATEWAY 1 {DATE} \"adapter\\-gateway {version}\" \"User Commands\"\n");
    let (summary, _) = program.description.split_once(':').unwrap();
    writeln!(page, ".SH NAME\nadapter\\-gateway \\- {}", roff(&lower_first(summary))).unwrap();
    page += ".SH SYNOPSIS\n";
    for Command { name, words, .. } in &program.commands {
        let words: String = words.iter().map(|word| format!(".RI [ \"{word}\" ]\n")).collect();
        writeln!(page, ".B adapter\\-gateway {name}\n.RI [ options ]\n{words}.br").unwrap();
    }
    page += ".B adapter\\-gateway\n.BR \\-\\-help \" | \" \\-\\-version\n";
    writeln!(page, ".SH DESCRIPTION\n{}", roff(program.description)).unwrap();
    page += ".SH OPTIONS\nThe value of an option follows after a space or after\n.BR = .\n";
    page += "Each command has the option\n.BR \\-\\-help ,\nwhich lists its options.\n";
    program.options.iter().for_each(|option| page += &entry(option));
    for Command { name, description, options, .. } in &program.commands {
        writeln!(page, ".SS adapter\\-gateway {name}\n{}", roff(description)).unwrap();
        for option in options {
            let group = SERVE_GROUPS.iter().find(|(_, first)| name == &"serve" && option.name == *first);
            page += &group.map(|(heading, _)| format!(".PP\n.B {}:\n", roff(heading))).unwrap_or_default();
            page += &entry(option);
        }
    }
    page += &EVENTS.replace("adapter-gateway", "adapter\\-gateway").replace("not-ready", "not\\-ready");
    page += &FILES.replace("adapter-gateway", "adapter\\-gateway");
    page += ".SH EXIT STATUS\n.TP\n.B 0\nIt stopped as it was asked to.\n";
    for (status, meaning) in &program.statuses {
        writeln!(page, ".TP\n.B {status}\n{}", roff(&sentence(meaning))).unwrap();
    }
    page += ".SH EXAMPLES\n.EX\n";
    for example in program.examples {
        writeln!(page, "{}", roff(&example.replace("{command_name}", "adapter-gateway"))).unwrap();
    }
    page + ".EE\n"
}

fn entry(option: &Opt) -> String {
    let name = roff(option.name);
    let value = match &option.value {
        Value::Nothing => String::new(),
        Value::Word(words) => words.join(" | "),
        Value::File(value) | Value::Directory(value) | Value::Text(value) => value.to_uppercase(),
    };
    let title = match (&option.value, roff(&value)) {
        (Value::Nothing, _) => format!(".B {name}"),
        (Value::Word(_), words) => format!(".BR {name} \" {words}\""),
        (_, value) => format!(".BI {name} \" {value}\""),
    };
    format!(".TP\n{title}\n{}\n", roff(&sentence(option.description)))
}

/// Returns the text as a sentence.
fn sentence(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    let end = if text.ends_with('.') { "" } else { "." };
    first.to_uppercase() + rest + end
}

fn lower_first(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_lowercase() + rest
}

/// Returns the text with what has a meaning in roff escaped (groff_char(7)), and with a line for each sentence.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('~', "\\(ti").replace('`', "\\(ga");
    let escaped = escaped.replace('"', "\\(dq").replace('^', "\\(ha").replace(". ", ".\n");
    match escaped.starts_with(['.', '\'']) {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}

#[test]
fn the_synopsis_shows_each_command_with_its_words() {
    let Ok(output) = Process::new("mandoc").args(["-T", "ascii", "-O", "width=200"]).arg(repository(PATH)).output()
    else {
        return crate::support::skip("mandoc is not installed");
    };
    // A terminal shows a character that is struck twice in bold, and one that is struck on a line as underlined.
    let mut shown = String::new();
    String::from_utf8(output.stdout).unwrap().chars().for_each(|c| match c {
        '\x08' => drop(shown.pop()),
        c => shown.push(c),
    });
    for Command { name, words, .. } in Program::new().commands {
        let words: String = words.iter().map(|word| format!(" [{word}]")).collect();
        let line = format!("adapter-gateway {name} [options]{words}\n");
        assert!(shown.contains(&line), "{line:?} is not in {shown}");
    }
}

#[test]
fn readers_of_manuals_have_no_complaint() {
    for words in [&["mandoc", "-T", "lint", "-W", "warning"][..], &["groff", "-ww", "-man", "-T", "utf8", "-z"]] {
        let reader = Process::new(words[0]).args(&words[1..]).arg(repository(PATH)).output();
        let Ok(output) = reader else {
            crate::support::skip(&format!("{} is not installed", words[0]));
            continue;
        };
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    }
}
