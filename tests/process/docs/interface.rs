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

#[test]
fn the_values_of_options_are_recognised() {
    let program = Program::new();
    let value = |command: usize, name| {
        let command = &program.commands[command];
        &command.options.iter().find(|option| option.name == name).unwrap().value
    };
    assert!(matches!(value(0, "--settings"), Value::File("path")));
    assert!(matches!(value(0, "--cert-dir"), Value::Directory("dir")));
    assert!(matches!(value(0, "--plain"), Value::Nothing));
    assert!(matches!(value(0, "--workers"), Value::Text("n")));
    for (command, name, expected) in [
        (0, "--encoding", "json msgpack"),
        (0, "--check", "known strict envelope"),
        (0, "--vocabulary", "as-sent older newer"),
        (0, "--io", "auto uring epoll"),
        (1, "--io", "auto uring epoll"),
        (2, "--encoding", "json msgpack"),
        (2, "--color", "auto always never"),
    ] {
        let Value::Word(words) = value(command, name) else { panic!("{name} takes one of some words") };
        assert_eq!(words.join(" "), expected, "{name}");
    }
}
