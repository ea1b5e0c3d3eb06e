//! `adapter-gateway serve`: the gateway as the adapter launches it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::bus::{BusConfig, Endpoint};
use crate::cli::ServeArguments;
use crate::connection::Timeouts;
use crate::events::{emit, log};
use crate::exit::Failure;
use crate::gate::Policy;
use crate::http1::response::AllowedOrigins;
use crate::serve::{Config, Source, serve};
use crate::settings;

/// The port of the specification's examples.
pub(crate) const PORT: u16 = 12358;

/// The publishers' side of the adapter's hub.
pub(crate) const PUBLISHERS_SIDE: &str = "tcp://127.0.0.1:16130";

/// Descriptors that are not connections: listeners, rings, ZeroMQ's sockets, standard streams, the settings.
const OTHER_DESCRIPTORS: u64 = 64;

/// Runs the command.
///
/// # Errors
/// [`Failure`].
pub fn run(arguments: ServeArguments) -> Result<(), Failure> {
    let settings = match &arguments.settings {
        Some(path) => path.clone(),
        None => settings::default_path().map_err(|error| Failure::Configuration(error.to_string()))?,
    };
    serve(config(arguments)?, Source::File(settings), Arc::new(|event| emit(event)))
}

fn config(arguments: ServeArguments) -> Result<Config, Failure> {
    if !arguments.plain {
        return Err(Failure::Usage("https is not served yet; pass --plain".into()));
    }
    let (listen, listen_optional) = if arguments.listen.is_empty() {
        // Clients that resolve localhost to ::1 first must not be refused.
        let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        (vec![SocketAddr::new(v4, PORT)], vec![SocketAddr::new(v6, PORT)])
    } else {
        (arguments.listen, Vec::new())
    };
    let default_hub = if arguments.connect.is_empty() && arguments.bind.is_empty() {
        vec![PUBLISHERS_SIDE.into()]
    } else {
        Vec::new()
    };
    let connect = arguments.connect.iter().chain(&default_hub);
    let buffered_bytes = arguments.max_buffered.size();
    Ok(Config {
        listen,
        listen_optional,
        io: arguments.io,
        workers: arguments.workers.size(),
        connections: connections(arguments.max_connections.get()),
        buffered_bytes,
        policy: Policy {
            head_bytes: arguments.max_head.size(),
            body_bytes: arguments.max_body.get(),
            check: arguments.check,
            encoding: arguments.encoding,
            origins: origins(&arguments.allow_origin),
        },
        timeouts: Timeouts {
            head: arguments.head_timeout.get(),
            body: arguments.body_timeout.get(),
            idle: arguments.idle_timeout.get(),
        },
        drain_timeout: arguments.drain_timeout.get(),
        bus: BusConfig {
            connect: connect
                .map(|url| endpoint(url)?.connectable().map_err(|error| bad_endpoint(url, &error)))
                .collect::<Result<_, _>>()?,
            bind: arguments.bind.iter().map(|url| endpoint(url)).collect::<Result<_, _>>()?,
            queue_messages: arguments.queue.size(),
            queue_bytes: buffered_bytes,
            ..BusConfig::default()
        },
        watch_stdin: arguments.watch_stdin,
        stats: arguments.stats.map(crate::cli::Seconds::get),
    })
}

fn endpoint(url: &str) -> Result<Endpoint, Failure> {
    url.parse().map_err(|error| bad_endpoint(url, &error))
}

fn bad_endpoint(url: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Configuration(format!("bad endpoint {url}: {error}"))
}

pub(crate) fn origins(allowed: &[String]) -> AllowedOrigins {
    if allowed.is_empty() || allowed.iter().any(|origin| origin == "*") {
        return AllowedOrigins::Any;
    }
    AllowedOrigins::These(allowed.iter().map(|origin| origin.as_str().into()).collect())
}

/// Raises the soft limit of descriptors as far as it goes, and caps the connections below it: without descriptors
/// nothing could be accepted, and nothing else opened.
pub(crate) fn connections(wanted: u64) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = wanted.saturating_add(OTHER_DESCRIPTORS);
    let raised = needed.min(maximum.unwrap_or(u64::MAX)).max(current.unwrap_or(u64::MAX));
    let current = match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
        Ok(()) => raised,
        Err(_) => current.unwrap_or(u64::MAX),
    };
    let possible = current.saturating_sub(OTHER_DESCRIPTORS).max(1);
    if possible < wanted {
        log(format_args!("at most {possible} connections, since the limit of descriptors is {current}"));
    }
    usize::try_from(possible.min(wanted)).unwrap_or(usize::MAX)
}
