//! The command line: it parses the arguments into values that are within their limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use argh::{ArgsInfo, CommandInfoWithArgs, FromArgs};

use crate::bus::QUEUE_MESSAGES;
use crate::proto::budget::BUFFERED_BYTES;
use crate::proto::message::{Check, Encoding, Vocabulary};
use crate::proto::nearest::nearest;
use crate::proto::policy::{BODY_BYTES, HEAD_BYTES};
use crate::server::connection::{BODY_TIMEOUT_S, HEAD_TIMEOUT_S, IDLE_TIMEOUT_S};
use crate::server::listen_address::ListenAddress;
use crate::server::workers::Io;

/// The default port of the gateway, as in the examples of the specification.
pub const DEFAULT_PORT: u16 = 12358;

/// The default of `--workers`.
const DEFAULT_WORKERS: u64 = 1;

/// The default of `--max-connections`.
const DEFAULT_CONNECTIONS: u64 = 10_000;

/// The default of `--drain-timeout`, in seconds.
const DEFAULT_DRAIN_TIMEOUT_S: u64 = 5;

/// The largest values that the options accept. They are far above the values of any use, so that a mistyped number is an
/// error, and far below the range of the integers, so that no sum of them overflows.
const MAX_WORKERS: u64 = 64;
const MAX_BODY_BYTES: u64 = 1 << 30;
const MAX_HEAD_BYTES: u64 = 1 << 20;
const MAX_CONNECTIONS: u64 = 1_000_000;
const MAX_BUFFERED_BYTES: u64 = 1 << 40;
const MAX_QUEUE_MESSAGES: u64 = 1 << 24;

/// The REST entrance of a local adapter: JSON messages posted to /api/message become ZeroMQ messages.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(
    note = "`{command_name} COMMAND --help` lists the options of a command.",
    example = "{command_name} demo",
    example = "{command_name} serve --plain --watch-stdin",
    error_code(2, "usage"),
    error_code(3, "configuration: certificate or endpoint"),
    error_code(4, "cannot listen"),
    error_code(5, "--io uring asked for and io_uring unavailable")
)]
pub struct Arguments {
    /// print the version and exit
    #[argh(switch)]
    pub version: bool,
    /// the command to run
    #[argh(subcommand)]
    pub command: Option<Command>,
}

/// A command.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand)]
#[expect(clippy::large_enum_variant, reason = "the program makes one value, once")]
pub enum Command {
    /// `serve`
    Serve(ServeArguments),
    /// `demo`
    Demo(DemoArguments),
    /// `listen`
    Listen(ListenArguments),
}

/// Run the gateway, as the adapter launches it. It prints events on stdout, one JSON object a line, and logs on stderr.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "serve")]
pub struct ServeArguments {
    /// user settings file with OPEN_REST_API and TOKEN (default: adapter/user_settings.py in $XDG_CONFIG_HOME,
    /// or in ~/.config)
    #[argh(option, arg_name = "path")]
    pub settings: Option<PathBuf>,
    /// Where to listen. Port 0 is any free port.
    #[argh(
        option,
        arg_name = "addr:port",
        description = "address, or name with all its addresses, and port to listen on, repeatable; port 0 for any free one (default: 127.0.0.1:12358, and [::1]:12358 if the host has IPv6)"
    )]
    pub listen: Vec<ListenAddress>,
    /// serve http instead of https
    #[argh(switch)]
    pub plain: bool,
    /// certificate chain in PEM, with --tls-key (default: a self-signed one, gateway-cert.pem beside the settings file)
    #[argh(option, arg_name = "pem")]
    pub tls_cert: Option<PathBuf>,
    /// private key in PEM, with --tls-cert (default: gateway-key.pem beside the settings file)
    #[argh(option, arg_name = "pem")]
    pub tls_key: Option<PathBuf>,
    /// directory of the self-signed certificate and its key (default: that of the settings file)
    #[argh(option, arg_name = "dir")]
    pub cert_dir: Option<PathBuf>,
    /// publish to this hub, repeatable (default: tcp://127.0.0.1:16130)
    #[argh(option, arg_name = "url")]
    pub connect: Vec<String>,
    /// publish on this endpoint, repeatable; given alone it replaces the default --connect
    #[argh(option, arg_name = "url")]
    pub bind: Vec<String>,
    /// run an embedded hub, and publish through it
    #[argh(switch)]
    pub hub: bool,
    /// where publishers connect to the embedded hub, port * for any (default: tcp://127.0.0.1:16130)
    #[argh(option, arg_name = "url")]
    pub hub_publishers: Option<String>,
    /// where subscribers connect to the embedded hub, port * for any (default: tcp://127.0.0.1:16103)
    #[argh(option, arg_name = "url")]
    pub hub_subscribers: Option<String>,
    /// how payloads are published: json, with the bytes as they came, or msgpack (default: json)
    #[argh(option, arg_name = "how", default = "Encoding::Json")]
    pub encoding: Encoding,
    /// check known topics field by field, or refuse all others too, or check the envelope alone:
    /// known|strict|envelope (default: known)
    #[argh(option, arg_name = "what", default = "Check::Known")]
    pub check: Check,
    /// publish messages of known topics in one vocabulary, whichever they came in: as-sent|older|newer
    /// (default: as-sent)
    #[argh(option, arg_name = "which", default = "Vocabulary::AsSent")]
    pub vocabulary: Vocabulary,
    /// origin whose pages may read the answers, repeatable (default: *)
    #[argh(option, arg_name = "origin")]
    pub allow_origin: Vec<String>,
    /// wait for sockets with io_uring or epoll: auto|uring|epoll (default: auto, which is io_uring if it is available)
    #[argh(option, arg_name = "way", default = "Io::Auto")]
    pub io: Io,
    /// worker threads, 1 to 64 (default: 1)
    #[argh(option, arg_name = "n", default = "Count::new(DEFAULT_WORKERS)")]
    pub workers: Count<MAX_WORKERS>,
    /// largest body in bytes (default: 1048576)
    #[argh(option, arg_name = "bytes", default = "Count::new(BODY_BYTES)")]
    pub max_body: Count<MAX_BODY_BYTES>,
    /// largest head in bytes (default: 16384)
    #[argh(option, arg_name = "bytes", default = "Count::new(HEAD_BYTES as u64)")]
    pub max_head: Count<MAX_HEAD_BYTES>,
    /// most connections open at once (default: 10000)
    #[argh(option, arg_name = "n", default = "Count::new(DEFAULT_CONNECTIONS)")]
    pub max_connections: Count<MAX_CONNECTIONS>,
    /// most body bytes held by all connections together, and by the queue to the bus (default: 67108864)
    #[argh(option, arg_name = "bytes", default = "Count::new(BUFFERED_BYTES as u64)")]
    pub max_buffered: Count<MAX_BUFFERED_BYTES>,
    /// seconds for a head to arrive, the TLS handshake included (default: 10)
    #[argh(option, arg_name = "s", default = "Seconds::new(HEAD_TIMEOUT_S)")]
    pub head_timeout: Seconds,
    /// seconds for a body to arrive, and for the client to take an answer (default: 30)
    #[argh(option, arg_name = "s", default = "Seconds::new(BODY_TIMEOUT_S)")]
    pub body_timeout: Seconds,
    /// seconds between two requests of a connection (default: 75)
    #[argh(option, arg_name = "s", default = "Seconds::new(IDLE_TIMEOUT_S)")]
    pub idle_timeout: Seconds,
    /// seconds for the whole stop, from the signal on (default: 5)
    #[argh(option, arg_name = "s", default = "Seconds::new(DEFAULT_DRAIN_TIMEOUT_S)")]
    pub drain_timeout: Seconds,
    /// most messages that wait between the workers and the bus thread (default: 65536)
    #[argh(option, arg_name = "n", default = "Count::new(QUEUE_MESSAGES as u64)")]
    pub queue: Count<MAX_QUEUE_MESSAGES>,
    /// stop gracefully when stdin reaches its end
    #[argh(switch)]
    pub watch_stdin: bool,
    /// stop gracefully when the process that started the gateway ends
    #[argh(switch)]
    pub watch_parent: bool,
    /// seconds between two stats events (default: none are printed; SIGUSR1 prints one at any time)
    #[argh(option, arg_name = "s")]
    pub stats: Option<Seconds>,
}

impl Default for ServeArguments {
    /// Returns the arguments of `serve` without options.
    fn default() -> Self {
        Self::from_args(&[], &[]).unwrap_or_else(|early| unreachable!("{}", early.output))
    }
}

/// Show everything on one machine, with no adapter: a gateway with a fresh token and a listener that prints each
/// message as a subscriber sees it.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "demo")]
pub struct DemoArguments {
    /// address or name, and port, to listen on (default: 127.0.0.1:12358, or any free port if that is taken)
    #[argh(option, arg_name = "addr:port")]
    pub listen: Option<ListenAddress>,
    /// serve http instead of https
    #[argh(switch)]
    pub plain: bool,
    /// check known topics field by field, or refuse all others too, or check the envelope alone:
    /// known|strict|envelope (default: known)
    #[argh(option, arg_name = "what", default = "Check::Known")]
    pub check: Check,
    /// publish messages of known topics in one vocabulary, whichever they came in: as-sent|older|newer
    /// (default: as-sent)
    #[argh(option, arg_name = "which", default = "Vocabulary::AsSent")]
    pub vocabulary: Vocabulary,
    /// wait for sockets with io_uring or epoll: auto|uring|epoll (default: auto)
    #[argh(option, arg_name = "way", default = "Io::Auto")]
    pub io: Io,
}

/// Subscribe, and print each message as a line: the topic, a tab, the payload as JSON.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "listen")]
pub struct ListenArguments {
    /// subscribers' side of a hub, or an endpoint that a gateway binds, repeatable (default: tcp://127.0.0.1:16103)
    #[argh(option, arg_name = "url")]
    pub connect: Vec<String>,
    /// beginning of the topics to print, repeatable (default: all)
    #[argh(option, arg_name = "prefix")]
    pub topic: Vec<String>,
    /// how payloads are encoded: json or msgpack (default: json)
    #[argh(option, arg_name = "how", default = "Encoding::Json")]
    pub encoding: Encoding,
    /// indent the payloads, one member a line
    #[argh(switch)]
    pub pretty: bool,
    /// print in colours: auto|always|never (default: auto, which is on a terminal, unless NO_COLOR is set)
    #[argh(option, arg_name = "when", default = "Colour::Auto")]
    pub color: Colour,
    /// exit after this number of messages (default: never)
    #[argh(option, arg_name = "n")]
    pub count: Option<Count<{ u64::MAX }>>,
}

/// When `listen` prints in colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal, unless the environment forbids it.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

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
                Err(EarlyExit::Usage("a command is missing: serve, demo or listen; see --help".into()))
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
        // No command takes a word that is no option. It may be an option without its dashes.
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

/// Returns the value of the choice with this name.
fn choose<T: Copy>(name: &str, choices: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = choices.iter().find(|(known, _)| *known == name) {
        return Ok(*value);
    }
    let names = choices.iter().map(|(known, _)| *known);
    let meant = nearest(name, names.clone()).unwrap_or_default();
    Err(format!("it is none of {} (did you mean {meant}?)", names.collect::<Vec<_>>().join(", ")))
}

fn split_assignment(word: String) -> Vec<String> {
    match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => vec![option.into(), value.into()],
        _ => vec![word],
    }
}

/// A whole number from 1 to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<const MAX: u64>(u64);

impl<const MAX: u64> Count<MAX> {
    const fn new(count: u64) -> Self {
        assert!(1 <= count && count <= MAX);
        Self(count)
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// Returns the number as a size in memory.
    #[must_use]
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MAX: u64> FromStr for Count<MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // `u64::from_str` would accept `+5`.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(count @ 1..) if digits && count <= MAX => Ok(Self(count)),
            _ => Err(format!("not a whole number from 1 to {MAX}")),
        }
    }
}

/// A time in seconds, from a millisecond to a day. Fractions are allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(Duration);

impl Seconds {
    const fn new(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns the time.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = text.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
        seconds
            .map(|seconds| Self(Duration::from_secs_f64(seconds)))
            .ok_or("not a number of seconds from 0.001 to 86400")
    }
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("known", Self::Known), ("strict", Self::Strict), ("envelope", Self::Envelope)])
    }
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("json", Self::Json), ("msgpack", Self::Msgpack)])
    }
}

impl FromStr for Vocabulary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("as-sent", Self::AsSent), ("older", Self::Older), ("newer", Self::Newer)])
    }
}

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("auto", Self::Auto), ("uring", Self::Uring), ("epoll", Self::Epoll)])
    }
}

impl FromStr for Colour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{HUB_PUBLISHERS, HUB_SUBSCRIBERS};

    fn parse(line: &str) -> Result<Command, EarlyExit> {
        Arguments::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_have_these_defaults() {
        let Ok(Command::Serve(serve)) = parse("serve") else { panic!() };
        assert_eq!((serve.max_body.get(), serve.max_head.get(), serve.workers.get()), (1_048_576, 16_384, 1));
        assert_eq!((serve.max_connections.get(), serve.max_buffered.get()), (10_000, 67_108_864));
        assert_eq!(serve.queue.get(), 65_536);
        let timeouts = [serve.head_timeout, serve.body_timeout, serve.idle_timeout, serve.drain_timeout];
        assert_eq!(timeouts.map(Seconds::get), [10, 30, 75, 5].map(Duration::from_secs));
        assert!(serve.listen.is_empty() && !serve.plain && serve.io == Io::Auto);
        assert_eq!((serve.check, serve.encoding), (Check::Known, Encoding::Json));
        assert_eq!(serve.vocabulary, Vocabulary::AsSent);
    }

    /// argh takes the text of an option as a literal, so the help states each default a second time.
    #[test]
    fn the_help_states_the_defaults() {
        let serve = [
            ("--listen", format!("127.0.0.1:{DEFAULT_PORT}, and [::1]:{DEFAULT_PORT} if")),
            ("--connect", format!("{HUB_PUBLISHERS})")),
            ("--hub-publishers", format!("{HUB_PUBLISHERS})")),
            ("--hub-subscribers", format!("{HUB_SUBSCRIBERS})")),
            ("--workers", format!("{DEFAULT_WORKERS})")),
            ("--max-body", format!("{BODY_BYTES})")),
            ("--max-head", format!("{HEAD_BYTES})")),
            ("--max-connections", format!("{DEFAULT_CONNECTIONS})")),
            ("--max-buffered", format!("{BUFFERED_BYTES})")),
            ("--head-timeout", format!("{HEAD_TIMEOUT_S})")),
            ("--body-timeout", format!("{BODY_TIMEOUT_S})")),
            ("--idle-timeout", format!("{IDLE_TIMEOUT_S})")),
            ("--drain-timeout", format!("{DEFAULT_DRAIN_TIMEOUT_S})")),
            ("--queue", format!("{QUEUE_MESSAGES})")),
        ];
        let demo = [("--listen", format!("127.0.0.1:{DEFAULT_PORT}, or"))];
        let listen = [("--connect", format!("{HUB_SUBSCRIBERS})"))];
        for (command, defaults) in [("serve", &serve[..]), ("demo", &demo), ("listen", &listen)] {
            let Err(EarlyExit::Help(help)) = parse(&format!("{command} --help")) else { panic!() };
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            for (option, default) in defaults {
                let (_, text) = help.split_once(&format!(" {option} ")).unwrap();
                let (_, stated) = text.split_once("(default: ").unwrap();
                assert!(stated.starts_with(default), "{command} {option}: {stated}");
            }
        }
    }

    #[test]
    fn a_value_may_follow_an_equals_sign() {
        let Ok(Command::Serve(serve)) = parse("serve --listen=[::1]:0 --listen 127.0.0.1:0 --drain-timeout=0.5") else {
            panic!()
        };
        assert_eq!(serve.listen, ["[::1]:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()]);
        assert_eq!(serve.drain_timeout.get(), Duration::from_millis(500));
    }

    #[test]
    fn wrong_arguments_are_usage_errors() {
        for line in [
            "",
            "server",
            "serve --port 1",
            "serve --listen localhost",
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
    fn the_nearest_command_option_or_value_is_named() {
        for (line, meant) in [
            ("sreve --plain", "serve"),
            ("server", "serve"),
            ("Listen", "listen"),
            ("serve --lisen 127.0.0.1:0", "--listen"),
            ("serve --max_body=1", "--max-body"),
            ("serve -plain", "--plain"),
            ("serve --plain --hlep", "--help"),
            ("demo --plian", "--plain"),
            ("listen --colour never", "--color"),
            ("listen --count 1 pretty", "--pretty"),
            ("--verison", "--version"),
            ("--hepl", "--help"),
            ("--listen 127.0.0.1:0", "serve --listen"),
            ("--tpoic a", "listen --topic"),
            ("serve --io epol", "epoll"),
            ("serve --check knwon", "known"),
            ("serve --encoding messagepack", "msgpack"),
            ("listen --encoding JSON", "json"),
            ("listen --color=alway", "always"),
        ] {
            let Err(EarlyExit::Usage(text)) = parse(line) else { panic!("{line}") };
            assert!(text.contains(&format!("(did you mean {meant}?)")), "{line}: {text}");
        }
        let Err(EarlyExit::Usage(text)) = parse("serve x") else { panic!() };
        assert!(!text.contains("did you mean"), "{text}");
    }

    #[test]
    fn help_and_version_are_not_usage_errors() {
        for line in ["--help", "-h", "serve --help", "serve -h", "demo --help", "listen --help", "--version"] {
            assert!(matches!(parse(line), Err(EarlyExit::Help(_))), "{line}");
        }
    }
}
