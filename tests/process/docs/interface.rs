//! The commands and the options as the program declares them.

use adapter_gateway::cli::Arguments;
use argh::{ArgsInfo, CommandInfoWithArgs, FlagInfo, FlagInfoKind};

/// A command of the program, or the program itself.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) info: CommandInfoWithArgs,
    /// All but `--help`, which every command has.
    pub(crate) options: Vec<Opt>,
}

pub(crate) struct Opt {
    /// The name with its dashes.
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    /// The option is a switch.
    Nothing,
    Word(Vec<&'static str>),
    File(&'static str),
    Directory(&'static str),
    /// Any other text. The name says which.
    Text(&'static str),
}

impl Command {
    pub(crate) fn program() -> Self {
        Self::new("adapter-gateway", Arguments::get_args_info())
    }

    pub(crate) fn commands(&self) -> impl Iterator<Item = Self> {
        self.info.commands.iter().map(|command| Self::new(command.name, command.command.clone()))
    }

    fn new(name: &'static str, info: CommandInfoWithArgs) -> Self {
        let shown = info.flags.iter().filter(|flag| !flag.hidden && flag.long != "--help");
        let option =
            |flag: &FlagInfo<'static>| Opt { name: flag.long, description: flag.description, value: Value::new(flag) };
        let options = shown.map(option).collect();
        Self { name, info, options }
    }
}

impl Opt {
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
