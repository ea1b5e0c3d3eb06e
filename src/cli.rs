//! The command line: arguments to values that hold.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use argh::FromArgs;

use crate::proto::message::{Check, Encoding};
use crate::server::workers::Io;

/// The REST entrance of a local adapter: JSON messages posted to /api/message become ZeroMQ messages.
#[derive(FromArgs, Debug)]
#[argh(
    note = "`{command_name} COMMAND --help` lists the options of a command.",
    example = "{command_name} demo",
    example = "{command_name} serve --plain --watch-stdin",
    error_code(2, "usage"),
    error_code(3, "configuration: settings, certificate or endpoint"),
    error_code(4, "cannot listen"),
    error_code(5, "--io uring asked for and io_uring unavailable")
)]
pub struct Arguments {
    /// print the version and exit
    #[argh(switch)]
    pub version: bool,
    /// the command
    #[argh(subcommand)]
    pub command: Option<Command>,
}

/// A command.
#[derive(FromArgs, Debug)]
#[argh(subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, and it is made once")]
pub enum Command {
    /// `serve`
    Serve(ServeArguments),
    /// `demo`
    Demo(DemoArguments),
    /// `listen`
    Listen(ListenArguments),
}

/// Run the gateway, as the adapter launches it. Events are printed on stdout, one JSON object a line; logs on stderr.
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "serve")]
pub struct ServeArguments {
    /// user settings file with OPEN_REST_API and TOKEN (default: adapter/user_settings.py in $XDG_CONFIG_HOME,
    /// or in ~/.config)
    #[argh(option, arg_name = "path")]
    pub settings: Option<PathBuf>,
    /// Addresses and ports to listen on; port 0 for any free one.
    #[argh(
        option,
        arg_name = "addr:port",
        description = "address and port to listen on, repeatable; port 0 for any free one (default: 127.0.0.1:12358, and [::1]:12358 where there is IPv6)"
    )]
    pub listen: Vec<SocketAddr>,
    /// serve http instead of https
    #[argh(switch)]
    pub plain: bool,
    /// certificate chain in PEM, with --tls-key (default: a self-signed one, gateway-cert.pem beside the settings file)
    #[argh(option, arg_name = "pem")]
    pub tls_cert: Option<PathBuf>,
    /// private key in PEM, with --tls-cert (default: gateway-key.pem beside the settings file)
    #[argh(option, arg_name = "pem")]
    pub tls_key: Option<PathBuf>,
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
    /// how payloads are published: json, as they came, or msgpack (default: json)
    #[argh(option, arg_name = "how", default = "Encoding::Json")]
    pub encoding: Encoding,
    /// check the messages of known topics field by field, or the envelope alone: known|envelope (default: known)
    #[argh(option, arg_name = "what", default = "Check::Known")]
    pub check: Check,
    /// origin whose pages may read the answers, repeatable (default: *)
    #[argh(option, arg_name = "origin")]
    pub allow_origin: Vec<String>,
    /// wait for sockets with io_uring or epoll: auto|uring|epoll (default: auto, io_uring where it is available)
    #[argh(option, arg_name = "way", default = "Io::Auto")]
    pub io: Io,
    /// worker threads, 1 to 64 (default: 1)
    #[argh(option, arg_name = "n", default = "Count(1)")]
    pub workers: Count<64>,
    /// largest body in bytes (default: 1048576)
    #[argh(option, arg_name = "bytes", default = "Count(1 << 20)")]
    pub max_body: Count<{ 1 << 30 }>,
    /// largest head in bytes (default: 16384)
    #[argh(option, arg_name = "bytes", default = "Count(16 << 10)")]
    pub max_head: Count<{ 1 << 20 }>,
    /// most connections at once (default: 10000)
    #[argh(option, arg_name = "n", default = "Count(10_000)")]
    pub max_connections: Count<1_000_000>,
    /// most body bytes held by all connections together, and by the queue to the bus (default: 67108864)
    #[argh(option, arg_name = "bytes", default = "Count(64 << 20)")]
    pub max_buffered: Count<{ 1 << 40 }>,
    /// seconds for a head to arrive, the TLS handshake included (default: 10)
    #[argh(option, arg_name = "s", default = "Seconds::new(10)")]
    pub head_timeout: Seconds,
    /// seconds for a body to arrive, and for an answer to be taken (default: 30)
    #[argh(option, arg_name = "s", default = "Seconds::new(30)")]
    pub body_timeout: Seconds,
    /// seconds between two requests of a connection (default: 75)
    #[argh(option, arg_name = "s", default = "Seconds::new(75)")]
    pub idle_timeout: Seconds,
    /// seconds for the whole stop, once asked for (default: 5)
    #[argh(option, arg_name = "s", default = "Seconds::new(5)")]
    pub drain_timeout: Seconds,
    /// most messages that wait between the HTTP side and the bus thread (default: 65536)
    #[argh(option, arg_name = "n", default = "Count(65_536)")]
    pub queue: Count<{ 1 << 24 }>,
    /// stop gracefully when stdin reaches its end
    #[argh(switch)]
    pub watch_stdin: bool,
    /// print a stats event every so many seconds (default: never; SIGUSR1 prints one at any time)
    #[argh(option, arg_name = "s")]
    pub stats: Option<Seconds>,
}

impl Default for ServeArguments {
    /// No option given.
    fn default() -> Self {
        // The defaults stand once, in the attributes above.
        Self::from_args(&[], &[]).unwrap_or_else(|early| unreachable!("{}", early.output))
    }
}

/// Show everything on one machine, with no adapter: a gateway with a fresh token and a listener that prints each
/// message as a subscriber sees it.
#[derive(FromArgs, Debug)]
#[argh(subcommand, name = "demo")]
pub struct DemoArguments {
    /// address and port to listen on (default: 127.0.0.1:12358, or any free port where it is taken)
    #[argh(option, arg_name = "addr:port")]
    pub listen: Option<SocketAddr>,
    /// serve http instead of https
    #[argh(switch)]
    pub plain: bool,
    /// check the messages of known topics field by field, or the envelope alone: known|envelope (default: known)
    #[argh(option, arg_name = "what", default = "Check::Known")]
    pub check: Check,
    /// wait for sockets with io_uring or epoll: auto|uring|epoll (default: auto)
    #[argh(option, arg_name = "way", default = "Io::Auto")]
    pub io: Io,
}

/// Subscribe, and print each message as a line: the topic, a tab, the payload as JSON.
#[derive(FromArgs, Debug)]
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
    /// exit after so many messages
    #[argh(option, arg_name = "n")]
    pub count: Option<Count<{ u64::MAX }>>,
}

/// Why the program ends before it runs.
#[derive(Debug)]
pub enum Exit {
    /// Help or the version, for stdout.
    Asked(String),
    /// A usage error, for stderr.
    Usage(String),
}

impl Arguments {
    /// Parses what follows the program's name. `--option=value` is `--option value`; `-h`, alone or right after the
    /// command, is `--help`.
    ///
    /// # Errors
    /// [`Exit`], with what to print.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Exit> {
        let words: Result<Vec<_>, _> = arguments.into_iter().map(OsString::into_string).collect();
        let words = words.map_err(|_| Exit::Usage("the arguments must be UTF-8".into()))?;
        let words: Vec<String> = words.into_iter().flat_map(split_assignment).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        // Further on it may be the value of an option.
        for word in words.iter_mut().take(2).filter(|word| **word == "-h") {
            *word = "--help";
        }
        let parsed = Self::from_args(&[env!("CARGO_PKG_NAME")], &words).map_err(|early| match early.status {
            Ok(()) => Exit::Asked(early.output),
            Err(()) => Exit::Usage(format!("{}; see --help", early.output.trim_end())),
        })?;
        match parsed {
            Self { version: true, .. } => {
                Err(Exit::Asked(concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).into()))
            }
            Self { command: Some(command), .. } => Ok(command),
            Self { command: None, .. } => {
                Err(Exit::Usage("a command is missing: serve, demo or listen; see --help".into()))
            }
        }
    }
}

fn split_assignment(word: String) -> Vec<String> {
    match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => vec![option.into(), value.into()],
        _ => vec![word],
    }
}

/// A whole number from 1 to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<const MOST: u64>(u64);

impl<const MOST: u64> Count<MOST> {
    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// The number, as a size in memory.
    #[must_use]
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MOST: u64> FromStr for Count<MOST> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // `u64::from_str` takes `+5`.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(count @ 1..) if digits && count <= MOST => Ok(Self(count)),
            _ => Err(format!("not a whole number from 1 to {MOST}")),
        }
    }
}

/// A time in seconds, from a millisecond to a day; fractions allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(Duration);

impl Seconds {
    const fn new(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The time.
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
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "known" => Ok(Self::Known),
            "envelope" => Ok(Self::Envelope),
            _ => Err("neither known nor envelope"),
        }
    }
}

impl FromStr for Encoding {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "msgpack" => Ok(Self::Msgpack),
            _ => Err("neither json nor msgpack"),
        }
    }
}

impl FromStr for Io {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            _ => Err("none of auto, uring and epoll"),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked(text) | Self::Usage(text) => f.write_str(text.trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, Exit> {
        Arguments::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn defaults() {
        let Ok(Command::Serve(serve)) = parse("serve") else { panic!() };
        assert_eq!((serve.max_body.get(), serve.max_head.get(), serve.workers.get()), (1_048_576, 16_384, 1));
        assert_eq!(serve.head_timeout.get(), Duration::from_secs(10));
        assert!(serve.listen.is_empty() && !serve.plain && serve.io == Io::Auto);
        assert_eq!(serve.encoding, Encoding::Json);
    }

    #[test]
    fn values_behind_an_equals_sign() {
        let Ok(Command::Serve(serve)) = parse("serve --listen=[::1]:0 --listen 127.0.0.1:0 --drain-timeout=0.5") else {
            panic!()
        };
        assert_eq!(serve.listen, ["[::1]:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()]);
        assert_eq!(serve.drain_timeout.get(), Duration::from_millis(500));
    }

    #[test]
    fn usage_errors() {
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
            "serve --encoding xml",
            "serve x",
        ] {
            assert!(matches!(parse(line), Err(Exit::Usage(_))), "{line}");
        }
    }

    #[test]
    fn help_and_version_are_no_errors() {
        for line in ["--help", "-h", "serve --help", "serve -h", "demo --help", "listen --help", "--version"] {
            assert!(matches!(parse(line), Err(Exit::Asked(_))), "{line}");
        }
    }
}
