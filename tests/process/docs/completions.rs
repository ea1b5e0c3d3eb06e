//! The completions for bash, zsh and fish. The crate argh_complete completes neither words nor files as values.

use std::fmt::Write;
use std::io::Write as _;

use serde_json::Value as Json;

use super::interface::{Command, Opt, Value};
use super::messages;
use super::*;

pub(crate) const BASH: &str = "packaging/completions/adapter-gateway.bash";
pub(crate) const ZSH: &str = "packaging/completions/_adapter-gateway";
pub(crate) const FISH: &str = "packaging/completions/adapter-gateway.fish";

/// Returns the cases of the completion for bash: what may follow an option, and what a command takes.
pub(crate) fn bash(program: &Command) -> String {
    let mut text = String::new();
    for Command { name: command, options, .. } in program.commands() {
        for Opt { name, value, .. } in &options {
            let follows = match value {
                Value::Nothing => continue,
                Value::Word(words) => format!("words=\"{}\"", words.join(" ")),
                Value::File(_) => "_adapter_gateway_paths -f && return".to_owned(),
                Value::Directory(_) => "_adapter_gateway_paths -d && return".to_owned(),
                Value::Text(_) => "return".to_owned(),
            };
            writeln!(text, "        \"{command} {name}\") {follows} ;;").unwrap();
        }
        let first = first_words(command).map(|words| {
            format!("\n            [[ $current == -* ]] || ((COMP_CWORD != 2)) || words=\"{words}\"\n            ")
        });
        let first = first.unwrap_or_default();
        writeln!(text, "        \"{command} \"*) words=\"{} --help\"{first} ;;", names(&options)).unwrap();
    }
    writeln!(text, "        \" -\") words=\"{} --help\" ;;", names(&program.options)).unwrap();
    let commands: Vec<_> = program.commands().map(|command| command.name).collect();
    writeln!(text, "        *) words=\"{}\" ;;", commands.join(" ")).unwrap();
    text
}

/// Returns what may be the first word of a command that is no option: a topic of `send`.
fn first_words(command: &str) -> Option<String> {
    let topics = || messages::topics().iter().map(|topic| topic.name).collect::<Vec<_>>().join(" ");
    (command == "send").then(topics)
}

fn names(options: &[Opt]) -> String {
    options.iter().map(|option| option.name).collect::<Vec<_>>().join(" ")
}

/// Returns the parts of the completion for zsh: what the program takes, and what each command takes.
pub(crate) fn zsh(program: &Command) -> [(&'static str, String); 2] {
    let commands = program.commands().map(|command| {
        let sentence = command.info.description.split(". ").next().unwrap();
        let phrase = zsh_phrase(sentence.trim_end_matches('.')).replace('"', "\\\"").replace('\'', "'\\''");
        format!("{}\\:\"{phrase}\"", command.name)
    });
    let mut first = "    _arguments -C \\\n".to_owned() + &zsh_options(&program.options, "        ");
    writeln!(first, "        '1:command:(({}))' \\", commands.collect::<Vec<_>>().join(" ")).unwrap();
    first += "        '*:: :->options' && ret=0\n";
    let mut rest = String::new();
    for Command { name, options, .. } in program.commands() {
        writeln!(rest, "        {name})\n            _arguments \\").unwrap();
        rest += &zsh_options(&options, "                ");
        if let Some(words) = first_words(name) {
            writeln!(rest, "                '1:topic:({words})' \\").unwrap();
        }
        rest += "                && ret=0\n            ;;\n";
    }
    [("program", first), ("commands", rest)]
}

fn zsh_options(options: &[Opt], indent: &str) -> String {
    let mut text = String::new();
    for option in options {
        let (name, summary) = (option.name, zsh_phrase(option.summary()));
        // An option that can be repeated is offered again.
        let star = if option.description.contains("repeatable") { "*" } else { "" };
        let line = match &option.value {
            Value::Nothing => format!("{star}{name}[{summary}]"),
            Value::Word(words) => format!("{star}{name}=[{summary}]:word:({})", words.join(" ")),
            Value::File(value) => format!("{star}{name}=[{summary}]:{value}:_files"),
            Value::Directory(value) => format!("{star}{name}=[{summary}]:{value}:_files -/"),
            Value::Text(value) => format!("{star}{name}=[{summary}]:{}: ", value.replace(':', "\\:")),
        };
        writeln!(text, "{indent}'{}' \\", line.replace('\'', "'\\''")).unwrap();
    }
    text + indent + "'(- *)--help[print the help and exit]' \\\n"
}

/// Returns the text with what has a meaning in a specification of `_arguments` escaped.
fn zsh_phrase(text: &str) -> String {
    text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:")
}

pub(crate) fn fish(program: &Command) -> String {
    let complete = "complete -c adapter-gateway";
    let mut text = String::new();
    let help = "-l help -d 'print the help and exit'";
    for option in &program.options {
        writeln!(text, "{complete} -n __fish_use_subcommand {}", fish_option(option)).unwrap();
    }
    for Command { name, info, .. } in program.commands() {
        writeln!(text, "{complete} -n __fish_use_subcommand -a {name} -d {}", fish_quoted(info.description)).unwrap();
    }
    writeln!(text, "{complete} {help}").unwrap();
    for Command { name, options, .. } in program.commands() {
        for option in &options {
            writeln!(text, "{complete} -n '__fish_seen_subcommand_from {name}' {}", fish_option(option)).unwrap();
        }
        if let Some(words) = first_words(name) {
            let is_first = format!("__fish_seen_subcommand_from {name}; and not __fish_seen_subcommand_from {words}");
            writeln!(text, "{complete} -n '{is_first}' -a '{words}' -d topic").unwrap();
        }
    }
    text
}

fn fish_option(option: &Opt) -> String {
    let value = match &option.value {
        Value::Nothing => String::new(),
        Value::Word(words) => format!("-x -a '{}' ", words.join(" ")),
        Value::File(_) => "-r -F ".into(),
        Value::Directory(_) => "-x -a '(__fish_complete_directories)' ".into(),
        Value::Text(_) => "-x ".into(),
    };
    format!("-l {} {value}-d {}", option.name.trim_start_matches('-'), fish_quoted(option.summary()))
}

fn fish_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Each script prints what is offered for the last word of each typed line, in the order of the alphabet.
#[test]
fn every_shell_completes() {
    // fish completes the whole word.
    let fish = format!(
        "source {FISH}; while read -l line; complete -C \"$line\" | string split -f 1 \\t | sort | string join ' '; end"
    );
    let shells: [(&str, &[&str]); 3] = [
        ("bash", &["--norc", "tests/process/docs/completions.bash"]),
        ("fish", &["--no-config", "-c", &fish]),
        ("zsh", &["-f", "tests/process/docs/completions.zsh"]),
    ];
    for (shell, arguments) in shells {
        let typed: Json = serde_json::from_str(include_str!("../../data/completions.json")).unwrap();
        let typed = ["every shell", shell].into_iter().flat_map(|group| typed[group].as_object().unwrap());
        let (lines, expected): (Vec<_>, Vec<_>) =
            typed.map(|(line, offered)| (format!("{line}\n"), offered.clone())).unzip();
        if !is_possible(&format!("command -v {shell}")) {
            continue;
        }
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(lines.concat().as_bytes()).unwrap();
        drop(writer);
        let output = command(&[shell]).args(arguments).current_dir(repository("")).stdin(reader).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let offered: Vec<Json> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_same(format!("{shell}, by tests/data/completions.json"), &offered, &expected);
    }
}
