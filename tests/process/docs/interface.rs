//! The commands and the options as the program declares them.

use adapter_gateway::cli::Arguments;
use argh::{ArgsInfo, CommandInfoWithArgs, FlagInfo, FlagInfoKind};

/// The program.
pub(crate) struct Program {
    pub(crate) description: &'static str,
    pub(crate) options: Vec<Opt>,
    pub(crate) commands: Vec<Command>,
    pub(crate) examples: &'static [&'static str],
    /// The exit statuses other than 0, each with its meaning.
    pub(crate) statuses: Vec<(i32, &'static str)>,
}

/// A command of the program.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) options: Vec<Opt>,
    /// What it takes beside options.
    pub(crate) words: Vec<&'static str>,
}

/// An option.
pub(crate) struct Opt {
    /// The name with its dashes.
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) value: Value,
}

/// What an option takes.
pub(crate) enum Value {
    /// The option is a switch.
    Nothing,
    /// One of these words.
    Word(Vec<&'static str>),
    File(&'static str),
    Directory(&'static str),
    /// Any other text. The name says which.
    Text(&'static str),
}

impl Program {
    pub(crate) fn new() -> Self {
        let info = Arguments::get_args_info();
        let commands = info.commands.iter().map(|command| Command {
            name: command.name,
            description: command.command.description,
            options: options(&command.command),
            words: command.command.positionals.iter().map(|word| word.name).collect(),
        });
        Self {
            description: info.description,
            options: options(&info),
            commands: commands.collect(),
            examples: info.examples,
            statuses: info.error_codes.iter().map(|error| (error.code, error.description)).collect(),
        }
    }
}

impl Opt {
    fn new(flag: &FlagInfo<'static>) -> Self {
        Self { name: flag.long, description: flag.description, value: Value::new(flag) }
    }

    /// Returns the description in few words, without the default.
    pub(crate) fn summary(&self) -> &'static str {
        let end = self.description.find(" (default: ").unwrap_or(self.description.len());
        &self.description[..end]
    }

    /// Returns the text in `(default: ...)`, or nothing.
    pub(crate) fn default(&self) -> &'static str {
        let stated = self.description.split_once(" (default: ").and_then(|(_, rest)| rest.split_once(')'));
        stated.map_or("", |(default, _)| default)
    }
}

impl Value {
    fn new(flag: &FlagInfo<'static>) -> Self {
        let FlagInfoKind::Option { arg_name } = flag.kind else { return Self::Nothing };
        let mut words = flag.description.split([' ', ',', ':', ';']);
        if let Some(alternatives) = words.find(|word| word.contains('|')) {
            return Self::Word(alternatives.split('|').collect());
        }
        match arg_name {
            "path" | "pem" => Self::File(arg_name),
            "dir" => Self::Directory(arg_name),
            _ => Self::Text(arg_name),
        }
    }
}

/// Returns the options of a command, without `--help`, which every command has.
fn options(command: &CommandInfoWithArgs) -> Vec<Opt> {
    let shown = command.flags.iter().filter(|flag| !flag.hidden && flag.long != "--help");
    shown.map(Opt::new).collect()
}
