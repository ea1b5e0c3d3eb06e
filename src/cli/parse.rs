//! From the words of the command line to a command, or to the text of the help or of a usage error.

use std::ffi::OsString;

use argh::{ArgsInfo, CommandInfoWithArgs, FromArgs};

use super::arguments::{Arguments, Command};
use crate::proto::nearest::nearest;

/// Why the program ends before it runs a command.
#[derive(Debug)]
pub enum EarlyExit {
    /// The help or the version was asked for: the text for stdout.
    Help(String),
    /// The arguments are wrong: the text for stderr.
    Usage(String),
}

impl Arguments {
    /// Parses the arguments without the program's name. `--option=value` means `--option value`; `-h`, alone or right
    /// after the command, means `--help`.
    ///
    /// # Errors
    /// Returns an [`EarlyExit`] with the text to print.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, EarlyExit> {
        let words: Result<Vec<_>, _> = arguments.into_iter().map(OsString::into_string).collect();
        let words = words.map_err(|_| EarlyExit::Usage("the arguments must be UTF-8".into()))?;
        let words: Vec<String> = words.into_iter().flat_map(split_assignment).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        // Behind these two words, `-h` may be the value of an option.
        for word in words.iter_mut().take(2).filter(|word| **word == "-h") {
            *word = "--help";
        }
        let parsed = Self::from_args(&[env!("CARGO_PKG_NAME")], &words).map_err(|early| match early.status {
            Ok(()) => EarlyExit::Help(early.output),
            Err(()) => EarlyExit::Usage(usage_error(&words, early.output.trim_end())),
        })?;
        match parsed {
            Self { version: true, .. } => {
                Err(EarlyExit::Help(concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).into()))
            }
            Self { command: Some(command), .. } => Ok(command),
            Self { command: None, .. } => {
                Err(EarlyExit::Usage("a command is missing: serve, demo, listen or send; see --help".into()))
            }
        }
    }
}

/// Returns the text of a usage error that argh reports as `error`. It names what an unknown command or option may have
/// been meant to be.
fn usage_error(words: &[&str], error: &str) -> String {
    match error.strip_prefix("Unrecognized argument: ").and_then(|unknown| meant(words, unknown)) {
        Some(meant) => format!("{error} (did you mean {meant}?); see --help"),
        None => format!("{error}; see --help"),
    }
}

/// Returns the command or option that is nearest to the word `unknown`; `None` for a word that can be neither.
fn meant(words: &[&str], unknown: &str) -> Option<String> {
    let program = Arguments::get_args_info();
    let command = words.iter().find_map(|word| program.commands.iter().find(|command| command.name == *word));
    match (command, unknown.starts_with('-')) {
        (Some(command), true) => nearest(unknown, options(&command.command)).map(str::to_owned),
        // A word that the command does not take may be an option without its dashes.
        (Some(command), false) => {
            let option = format!("--{unknown}");
            options(&command.command).any(|known| known == option).then_some(option)
        }
        (None, true) => {
            let of_commands = program.commands.iter().flat_map(|command| options(&command.command));
            let option = nearest(unknown, options(&program).chain(of_commands))?;
            if options(&program).any(|known| known == option) {
                return Some(option.into());
            }
            // An option of a command stands behind the command.
            let command = program.commands.iter().find(|it| options(&it.command).any(|known| known == option))?;
            Some(format!("{} {option}", command.name))
        }
        (None, false) => nearest(unknown, program.commands.iter().map(|command| command.name)).map(str::to_owned),
    }
}

/// Returns the options of a command with their dashes.
fn options(command: &CommandInfoWithArgs) -> impl Iterator<Item = &'static str> {
    command.flags.iter().map(|flag| flag.long)
}

fn split_assignment(word: String) -> Vec<String> {
    match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => vec![option.into(), value.into()],
        _ => vec![word],
    }
}
