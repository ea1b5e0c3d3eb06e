//! The command line: from its words to a command, or to the text of the help or of a usage error. `arguments` has the
//! options of each command, `values` and `listen_address` turn the word behind an option into its value.

mod arguments;
mod listen_address;
#[cfg(test)]
mod tests;
mod values;

use std::ffi::OsString;

use argh::{ArgsInfo, CommandInfoWithArgs, FromArgs};

pub use self::arguments::{
    Arguments, Command, DEFAULT_PORT, DemoArguments, DisableArguments, EnableArguments, ListenArguments, SERVE_GROUPS,
    SendArguments, ServeArguments,
};
pub use self::listen_address::{ListenAddress, TcpAddress};
pub use self::values::Colour;
use self::values::nearest;

/// What other programs call an option, and the option.
const SYNONYMS: &[(&str, &str)] = &[
    ("--port", "--listen"),
    ("--host", "--listen"),
    ("--address", "--listen"),
    ("--config", "--settings"),
    ("--cert", "--tls-cert"),
    ("--key", "--tls-key"),
    ("-v", "--version"),
    ("-V", "--version"),
];

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
    /// after the command, means `--help`, and `-V` alone `--version`.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, EarlyExit> {
        let words: Result<Vec<_>, _> = arguments.into_iter().map(OsString::into_string).collect();
        let words = words.map_err(|_| EarlyExit::Usage("the arguments must be UTF-8".into()))?;
        let mut words: Vec<&str> = words
            .iter()
            .flat_map(|word| match word.split_once('=') {
                Some((option, value)) if option.starts_with("--") => vec![option, value],
                _ => vec![word.as_str()],
            })
            .collect();
        // Behind these two words, `-h` may be the value of an option.
        for word in words.iter_mut().take(2).filter(|word| **word == "-h") {
            *word = "--help";
        }
        if let Some(word) = words.first_mut().filter(|word| **word == "-V") {
            *word = "--version";
        }
        let mut pairs = words.iter().zip(words.iter().skip(1));
        if let Some(fault) = pairs.find_map(|(option, value)| unexpanded(option, value)) {
            return Err(EarlyExit::Usage(fault));
        }
        let parsed = Self::from_args(&[env!("CARGO_PKG_NAME")], &words).map_err(|early| match early.status {
            Ok(()) => EarlyExit::Help(grouped(early.output)),
            Err(()) => EarlyExit::Usage(usage_error(&words, early.output.trim_end().trim_end_matches('.'))),
        })?;
        if parsed.version {
            let version = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
            return Err(EarlyExit::Help(version.into()));
        }
        let missing = || {
            EarlyExit::Usage("a command is missing: serve, demo, listen, send, enable or disable; see --help".into())
        };
        parsed.command.ok_or_else(missing)
    }
}

/// Returns the help, with a heading before each group of the options of `serve`. argh knows none.
fn grouped(mut help: String) -> String {
    if help.starts_with(concat!("Usage: ", env!("CARGO_PKG_NAME"), " serve ")) {
        for (heading, first) in SERVE_GROUPS {
            if let Some(at) = help.find(&format!("\n  {first} ")) {
                help.insert_str(at, &format!("\n\n{heading}:"));
            }
        }
    }
    help
}

/// Returns the text of a usage error for a path that begins with `~`, which a shell expands only at the beginning of a
/// word.
fn unexpanded(option: &str, value: &str) -> Option<String> {
    let path = ["unix:", "ipc://"].iter().find_map(|prefix| value.strip_prefix(prefix)).unwrap_or(value);
    let is_path = option.starts_with("--") && !matches!(option, "--topic" | "--allow-origin");
    (is_path && (path == "~" || path.starts_with("~/")))
        .then(|| format!("{option} {value}: the shell has not expanded the `~`; write $HOME in its place"))
}

/// Returns the text of a usage error that argh reports as `error`. It names what an unknown command or option may have
/// been meant to be.
fn usage_error(words: &[&str], error: &str) -> String {
    let unknown = error.strip_prefix("Unrecognized argument: ");
    match unknown.and_then(|unknown| meant(words, unknown)).or_else(|| port_alone(error)) {
        Some(meant) => format!("{error} (did you mean {meant}?); see --help"),
        None => format!("{error}; see --help"),
    }
}

/// Returns the address that a refused value of `--listen` may have been meant to be, if it is a port.
fn port_alone(error: &str) -> Option<String> {
    let (value, _) = error.strip_prefix("Error parsing option '--listen' with value '")?.split_once("': ")?;
    let port: u16 = value.strip_prefix(':').unwrap_or(value).parse().ok()?;
    Some(format!("127.0.0.1:{port}"))
}

fn near<'a>(unknown: &str, words: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == unknown).map(|(_, option)| *option);
    let same = synonym.and_then(|synonym| words.clone().find(|word| *word == synonym));
    same.or_else(|| nearest(unknown, words))
}

/// Returns the command or option that the word `unknown` was likely meant to be.
fn meant(words: &[&str], unknown: &str) -> Option<String> {
    let program = Arguments::get_args_info();
    let command = words.iter().find_map(|word| program.commands.iter().find(|command| command.name == *word));
    match (command, unknown.starts_with('-')) {
        (Some(command), true) => near(unknown, options(&command.command)).map(str::to_owned),
        // A word that the command does not take may be an option without its dashes.
        (Some(command), false) => {
            let option = format!("--{unknown}");
            options(&command.command).any(|known| known == option).then_some(option)
        }
        (None, true) => {
            let of_commands = program.commands.iter().flat_map(|command| options(&command.command));
            let option = near(unknown, options(&program).chain(of_commands))?;
            if options(&program).any(|known| known == option) {
                return Some(option.into());
            }
            // An option of a command stands behind the command.
            let command = program.commands.iter().find(|it| options(&it.command).any(|known| known == option))?;
            Some(format!("{} {option}", command.name))
        }
        (None, false) => near(unknown, program.commands.iter().map(|command| command.name)).map(str::to_owned),
    }
}

/// Returns the options of a command with their dashes.
fn options(command: &CommandInfoWithArgs) -> impl Iterator<Item = &'static str> + Clone {
    command.flags.iter().map(|flag| flag.long)
}
