//! The commands, and the options of each with their help, defaults and limits.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use super::listen_address::ListenAddress;
use super::values::{Colour, count, origin, path, seconds, seconds_or_never};
use crate::bus::STALL_TIMEOUT;
use crate::message::{Check, Encoding, Vocabulary};
use crate::terms::Io;
use crate::terms::limits::{Limits, Timeouts};
use crate::tls::certificate::CertificateName;

/// The default port of the gateway, as in the examples of the specification.
pub const DEFAULT_PORT: u16 = 12358;

/// The largest values that the options accept. They are far above the values of any use, so that a mistyped number is
/// an error, and far below the range of the integers, so that no sum of them overflows.
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
    error_code(1, "send: a line was refused or is in doubt; listen: not all messages that were asked for came"),
    error_code(2, "usage"),
    error_code(
        3,
        "configuration: certificate or endpoint; send: the settings open no gateway; enable: they cannot be edited"
    ),
    error_code(4, "cannot listen; send: no gateway there"),
    error_code(5, "--io uring asked for and io_uring unavailable; send: certificate not trusted"),
    error_code(6, "send: token refused")
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
#[expect(missing_docs, reason = "the names say it")]
pub enum Command {
    Serve(ServeArguments),
    Demo(DemoArguments),
    Listen(ListenArguments),
    Send(SendArguments),
    Enable(EnableArguments),
    Disable(DisableArguments),
}

/// The groups of the options of `serve` behind those that everybody needs: the heading and the first option of each.
pub const SERVE_GROUPS: [(&str, &str); 3] =
    [("The bus", "--connect"), ("TLS", "--tls-cert"), ("Limits, rarely changed", "--io")];

/// Run the gateway, as the adapter launches it. It prints events on stdout, one JSON object a line, and logs on stderr.
/// On a terminal it prints the logs alone.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "serve")]
pub struct ServeArguments {
    /// user settings file with OPEN_REST_API and TOKEN (default: adapter/user_settings.py in $XDG_CONFIG_HOME,
    /// or in ~/.config)
    #[argh(option, arg_name = "path", from_str_fn(path))]
    pub settings: Option<PathBuf>,
    /// Where to listen. Port 0 is any free port.
    #[argh(
        option,
        arg_name = "where",
        description = "where to listen, repeatable: addr:port, or a name with all its addresses, port 0 for any free one; unix:PATH for a Unix socket, in http; fd:N for a socket that the parent passes (default: 127.0.0.1:12358, and [::1]:12358 if the host has IPv6)"
    )]
    pub listen: Vec<ListenAddress>,
    /// serve http instead of https
    #[argh(switch)]
    pub plain: bool,
    /// check known topics field by field, or refuse all others too, or check the envelope alone:
    /// known|strict|envelope (default: known)
    #[argh(option, arg_name = "what", default = "Check::Known")]
    pub check: Check,
    /// origin whose pages may read the answers, repeatable: scheme://host or scheme://host:port as browsers send it,
    /// null or file:// for pages from files (default: *)
    #[argh(option, arg_name = "origin", from_str_fn(origin))]
    pub allow_origin: Vec<String>,
    /// stop gracefully when stdin reaches its end
    #[argh(switch)]
    pub watch_stdin: bool,
    /// stop gracefully when the process that started the gateway ends
    #[argh(switch)]
    pub watch_parent: bool,
    /// write the time before each line of the log, in UTC
    #[argh(switch)]
    pub log_time: bool,
    /// print the events on stdout even if it is a terminal
    #[argh(switch)]
    pub events: bool,
    /// seconds between two stats events (default: none are printed; SIGUSR1 prints one at any time)
    #[argh(option, long = "stats", arg_name = "s", from_str_fn(seconds))]
    pub stats_interval: Option<Duration>,
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
    /// how payloads are published: json|msgpack, where json keeps the bytes as they came (default: json)
    #[argh(option, arg_name = "how", default = "Encoding::Json")]
    pub encoding: Encoding,
    /// publish messages of known topics in one vocabulary, whichever they came in: as-sent|older|newer
    /// (default: as-sent)
    #[argh(option, arg_name = "which", default = "Vocabulary::AsSent")]
    pub vocabulary: Vocabulary,
    /// certificate chain in PEM, with --tls-key (default: a self-signed one, gateway-cert.pem beside the settings file)
    #[argh(option, arg_name = "pem", from_str_fn(path))]
    pub tls_cert: Option<PathBuf>,
    /// private key in PEM, with --tls-cert (default: gateway-key.pem beside the settings file)
    #[argh(option, arg_name = "pem", from_str_fn(path))]
    pub tls_key: Option<PathBuf>,
    /// directory of the self-signed certificate and its key (default: that of the settings file)
    #[argh(option, arg_name = "dir", from_str_fn(path))]
    pub cert_dir: Option<PathBuf>,
    /// one more name or address in the self-signed certificate, repeatable; the certificate is made anew if it is
    /// missing there (default: localhost, 127.0.0.1 and ::1)
    #[argh(option, arg_name = "name")]
    pub cert_name: Vec<CertificateName>,
    /// wait for sockets with io_uring or epoll: auto|uring|epoll (default: auto, which is io_uring if it is available)
    #[argh(option, arg_name = "way", default = "Io::Auto")]
    pub io: Io,
    /// worker threads, 1 to 64 (default: 1)
    #[argh(option, arg_name = "n", default = "NonZero::<usize>::MIN", from_str_fn(count::<MAX_WORKERS, _>))]
    pub workers: NonZero<usize>,
    /// largest body in bytes (default: 1048576)
    #[argh(option, long = "max-body", arg_name = "bytes", default = "Limits::DEFAULT.body_bytes", from_str_fn(count::<MAX_BODY_BYTES, _>))]
    pub body_bytes: u64,
    /// largest head in bytes (default: 16384)
    #[argh(option, long = "max-head", arg_name = "bytes", default = "Limits::DEFAULT.head_bytes", from_str_fn(count::<MAX_HEAD_BYTES, _>))]
    pub head_bytes: usize,
    /// most connections open at once (default: 10000)
    #[argh(option, arg_name = "n", default = "10_000", from_str_fn(count::<MAX_CONNECTIONS, _>))]
    pub max_connections: u64,
    /// most body bytes held by all connections together, and by the queue to the bus (default: 67108864)
    #[argh(
        option,
        long = "max-buffered",
        arg_name = "bytes",
        default = "Limits::DEFAULT.buffered_bytes",
        from_str_fn(count::<MAX_BUFFERED_BYTES, _>)
    )]
    pub buffered_bytes: usize,
    /// seconds for each of these: the first byte, the TLS handshake, the first byte behind it, a head (default: 30)
    #[argh(option, arg_name = "s", default = "Timeouts::DEFAULT.head", from_str_fn(seconds))]
    pub head_timeout: Duration,
    /// seconds for a body to arrive, and for the client to take an answer (default: 30)
    #[argh(option, arg_name = "s", default = "Timeouts::DEFAULT.body", from_str_fn(seconds))]
    pub body_timeout: Duration,
    /// seconds between two requests of a connection (default: 75)
    #[argh(option, arg_name = "s", default = "Timeouts::DEFAULT.idle", from_str_fn(seconds))]
    pub idle_timeout: Duration,
    /// seconds for the whole stop, from the signal on (default: 5)
    #[argh(option, arg_name = "s", default = "Duration::from_secs(5)", from_str_fn(seconds))]
    pub drain_timeout: Duration,
    /// most messages that were accepted and wait for a hub or a subscriber (default: 65536)
    #[argh(option, long = "queue", arg_name = "n", default = "Limits::DEFAULT.queue_messages", from_str_fn(count::<MAX_QUEUE_MESSAGES, _>))]
    pub queue_messages: NonZero<usize>,
    /// seconds that a message may wait for one subscriber of --bind or --hub while others are refused because of it;
    /// then that subscriber is disconnected; 0 is never (default: 120)
    #[argh(option, arg_name = "s", default = "STALL_TIMEOUT", from_str_fn(seconds_or_never))]
    pub stall_timeout: Duration,
}

impl ServeArguments {
    /// What a run holds at most.
    pub fn limits(&self) -> Limits {
        let &Self { head_bytes, body_bytes, buffered_bytes, queue_messages, .. } = self;
        Limits { head_bytes, body_bytes, buffered_bytes, queue_messages }
    }

    /// The deadlines of a connection.
    pub fn timeouts(&self) -> Timeouts {
        Timeouts { head: self.head_timeout, body: self.body_timeout, idle: self.idle_timeout }
    }
}

/// Show everything on one machine, with no adapter: a gateway with a fresh token and a subscriber that prints each
/// message.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "demo")]
pub struct DemoArguments {
    /// where to listen: addr:port, unix:PATH or fd:N (default: 127.0.0.1:12358, or any free port if that is taken)
    #[argh(option, arg_name = "where")]
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
    /// how payloads are encoded: json|msgpack (default: json)
    #[argh(option, arg_name = "how", default = "Encoding::Json")]
    pub encoding: Encoding,
    /// indent the payloads, one member a line
    #[argh(switch)]
    pub pretty: bool,
    /// print in colours: auto|always|never (default: auto, which is on a terminal, unless NO_COLOR is set)
    #[argh(option, arg_name = "when", default = "Colour::Auto")]
    pub color: Colour,
    /// exit after this number of messages (default: never)
    #[argh(option, arg_name = "n", from_str_fn(count::<{ u64::MAX }, _>))]
    pub count: Option<u64>,
    /// seconds from the start on in which the messages of --count must come, one without it; exit status 1 if they do
    /// not (default: any time)
    #[argh(option, arg_name = "s", from_str_fn(seconds))]
    pub timeout: Option<Duration>,
}

/// Post a message to a gateway, or the lines of standard input: topic, tab, payload. It undoes the escapes of `listen`,
/// and takes the token from the settings file.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "send")]
pub struct SendArguments {
    /// topic and payload of the message, the payload in JSON (default: the lines of standard input)
    #[argh(positional, arg_name = "topic payload")]
    pub message: Vec<String>,
    /// user settings file with the token, the certificate of the gateway beside it (default: that of `serve`)
    #[argh(option, arg_name = "path", from_str_fn(path))]
    pub settings: Option<PathBuf>,
    /// URL of the gateway (default: https://localhost:12358)
    #[argh(option, arg_name = "url")]
    pub url: Option<String>,
    /// path of the gateway's Unix socket, in the place of a URL
    #[argh(option, arg_name = "path", from_str_fn(path))]
    pub unix: Option<PathBuf>,
    /// go on behind a line that is refused or in doubt
    #[argh(switch)]
    pub keep_going: bool,
}

/// Switch the REST API on in the user settings: set OPEN_REST_API, and make a random TOKEN where there is none. Nothing
/// else of the file changes. A gateway that runs follows within a second.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "enable")]
pub struct EnableArguments {
    /// user settings file, which is made if it is missing (default: that of `serve`)
    #[argh(option, arg_name = "path", from_str_fn(path))]
    pub settings: Option<PathBuf>,
}

/// Switch the REST API off in the user settings: set OPEN_REST_API to False. Nothing else of the file changes.
#[derive(FromArgs, ArgsInfo, Debug)]
#[argh(subcommand, name = "disable")]
pub struct DisableArguments {
    /// user settings file (default: that of `serve`)
    #[argh(option, arg_name = "path", from_str_fn(path))]
    pub settings: Option<PathBuf>,
}
