//! The command line: from its words to a command, or to the text of the help or of a usage error. `arguments` has the
//! options of each command, and `values`, `listen_address` and `gateway_url` turn the word behind an option into its
//! value.

mod arguments;
mod gateway_url;
mod listen_address;
#[cfg(test)]
mod tests;
mod values;

use std::ffi::OsString;

use argh::{ArgsInfo, FlagInfoKind, FromArgs};

pub use self::arguments::{
    Arguments, Command, DEFAULT_PORT, DemoArguments, DisableArguments, EnableArguments, ListenArguments, SERVE_GROUPS,
    SendArguments, ServeArguments,
};
pub use self::gateway_url::GatewayUrl;
pub use self::listen_address::ListenAddress;
pub use self::values::Colour;
use self::values::text_of;

/// Why the program ends before it runs a command.
#[derive(Debug)]
pub enum EarlyExit {
    /// The help or the version was asked for: the text for stdout.
    Help(String),
    /// The arguments are wrong: the text for stderr.
    Usage(String),
}

impl Arguments {
    /// Parses the arguments without the program's name. `--option=value` means `--option value`, and `-h` means
    /// `--help`, unless it stands behind `--` or is a value; `-V` alone means `--version`.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, EarlyExit> {
        let words: Vec<_> = arguments.into_iter().map(|word| text_of(&word)).collect();
        let flags: Vec<_> = Self::get_args_info().commands.into_iter().flat_map(|it| it.command.flags).collect();
        let takes_path = |option: &&str| {
            let is_path =
                |kind| ["path", "pem", "dir"].map(|arg_name| FlagInfoKind::Option { arg_name }).contains(kind);
            flags.iter().any(|it| it.long == *option && is_path(&it.kind))
        };
        let is_switch = |option: &str| flags.iter().any(|it| it.long == option && it.kind == FlagInfoKind::Switch);
        let (mut are_options, mut is_value) = (true, false);
        let split = words.iter().enumerate().flat_map(|(at, word)| match word.split_once('=') {
            _ if std::mem::take(&mut is_value) || !are_options || !word.starts_with('-') => vec![word.as_str()],
            // What is not known is split too: the fault names the option alone, and its value may be a token.
            Some((option, value)) if !is_switch(option) => vec![option, value],
            _ if word == "-h" => vec!["--help"],
            _ if at == 0 && word == "-V" => vec!["--version"],
            _ => {
                (are_options, is_value) = (word != "--", !is_switch(word));
                vec![word.as_str()]
            }
        });
        let words: Vec<&str> = split.collect();
        let options = [""].iter().chain(&words);
        if words.iter().zip(options).any(|(word, option)| word.contains('\0') && !takes_path(option)) {
            return Err(EarlyExit::Usage("the arguments must be UTF-8, but for the paths of files".into()));
        }
        let parsed = Self::from_args(&[env!("CARGO_PKG_NAME")], &words).map_err(|early| match early.status {
            Ok(()) => EarlyExit::Help(grouped(early.output)),
            Err(()) => EarlyExit::Usage(format!("{}; see --help", early.output.trim_end().trim_end_matches('.'))),
        })?;
        if parsed.version {
            let version = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
            return Err(EarlyExit::Help(version.into()));
        }
        let missing = "a command is missing: serve, demo, listen, send, enable or disable; see --help";
        parsed.command.ok_or_else(|| EarlyExit::Usage(missing.into()))
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
