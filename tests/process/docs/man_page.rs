//! The manual page, in the macros of man(7).

use std::fmt::Write;

use adapter_gateway::cli::SERVE_GROUPS;

use super::interface::{Command, Opt, Value};
use super::*;

pub(crate) const PATH: &str = "packaging/man/adapter-gateway.1";
/// The day of the last change of the options. Readers of manuals expect one.
const DATE: &str = "2026-11-23";

/// Returns the parts of the page that come from the options, and from what else the program says of itself.
pub(crate) fn parts(program: &Command) -> [(&'static str, String); 2] {
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH ADAPTER\\-GATEWAY 1 {DATE} \"adapter\\-gateway {version}\" \"User Commands\"\n");
    let (summary, _) = program.info.description.split_once(':').unwrap();
    let summary = summary[..1].to_lowercase() + &summary[1..];
    writeln!(page, ".SH NAME\nadapter\\-gateway \\- {}", roff(&summary)).unwrap();
    page += ".SH SYNOPSIS\n";
    for Command { name, info, .. } in program.commands() {
        let words: String = info.positionals.iter().map(|word| format!(".RI [ \"{}\" ]\n", word.name)).collect();
        writeln!(page, ".B adapter\\-gateway {name}\n.RI [ options ]\n{words}.br").unwrap();
    }
    page += ".B adapter\\-gateway\n.BR \\-\\-help \" | \" \\-\\-version\n";
    writeln!(page, ".SH DESCRIPTION\n{}", roff(program.info.description)).unwrap();
    page += ".SH OPTIONS\nThe value of an option follows after a space or after\n.BR = .\n";
    page += "Each command has the option\n.BR \\-\\-help ,\nwhich lists its options.\n";
    program.options.iter().for_each(|option| page += &entry(option));
    for Command { name, info, options } in program.commands() {
        writeln!(page, ".SS adapter\\-gateway {name}\n{}", roff(info.description)).unwrap();
        for option in &options {
            let group = SERVE_GROUPS.iter().find(|(_, first)| name == "serve" && option.name == *first);
            page += &group.map(|(heading, _)| format!(".PP\n.B {}:\n", roff(heading))).unwrap_or_default();
            page += &entry(option);
        }
    }
    let mut last = ".SH EXIT STATUS\n.TP\n.B 0\nIt stopped as it was asked to.\n".to_owned();
    for status in program.info.error_codes {
        writeln!(last, ".TP\n.B {}\n{}", status.code, roff(&sentence(status.description))).unwrap();
    }
    last += ".SH EXAMPLES\n.EX\n";
    for example in program.info.examples {
        writeln!(last, "{}", roff(&example.replace("{command_name}", "adapter-gateway"))).unwrap();
    }
    [("options", page), ("statuses and examples", last + ".EE\n")]
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

fn sentence(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    let end = if text.ends_with('.') { "" } else { "." };
    first.to_uppercase() + rest + end
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
fn readers_of_manuals_have_no_complaint_and_show_each_command_with_its_words() {
    for words in [
        &["mandoc", "-T", "lint", "-W", "warning"][..],
        &["mandoc", "-T", "ascii", "-O", "width=200"],
        &["groff", "-ww", "-man", "-T", "utf8", "-z"],
    ] {
        if !is_possible(&format!("command -v {}", words[0])) {
            continue;
        }
        let Transcript { stdout: shown, stderr } = Process::spawn(command(words).arg(repository(PATH))).finish(0);
        assert_eq!(stderr, "", "{words:?}");
        if !words.contains(&"ascii") {
            assert_eq!(shown, "", "{words:?}");
            continue;
        }
        // A terminal shows a character that is struck twice in bold, and one that is struck on a line as underlined.
        let mut characters: Vec<&str> = shown.split("").collect();
        while let Some(at) = characters.iter().position(|&c| c == "\x08") {
            characters.drain(at - 1..=at);
        }
        let shown = characters.concat();
        for Command { name, info, .. } in Command::program().commands() {
            let words: String = info.positionals.iter().map(|word| format!(" [{}]", word.name)).collect();
            shown.as_str().has(format!("adapter-gateway {name} [options]{words}\n"));
        }
    }
}
