//! `adapter-gateway serve`: the gateway as the adapter launches it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::bus::{BusConfig, Endpoint, EndpointError, HUB_PUBLISHERS, HUB_SUBSCRIBERS, Hub};
use crate::cli::{DemoArguments, Seconds, ServeArguments};
use crate::gateway::events::Stdout;
use crate::gateway::exit::Failure;
use crate::gateway::{Config, Source, serve};
use crate::log::log;
use crate::process;
use crate::proto::policy::{AllowedOrigins, Policy};
use crate::server::connection::Timeouts;
use crate::settings;
use crate::tls::source::CertificateSource;

/// The port of the specification's examples.
pub(crate) const PORT: u16 = 12358;

/// Descriptors that are not connections, with one worker: listeners, rings, ZeroMQ's sockets, standard streams, the
/// settings.
const OTHER_DESCRIPTORS: u64 = 64;

/// Those of each further worker: its ring, what tokio waits and is woken by.
const WORKER_DESCRIPTORS: u64 = 5;

/// And for each listener of a further worker: its handle on it, and an accepted connection that waits for its turn.
const LISTENER_DESCRIPTORS: u64 = 2;

/// Runs the command.
///
/// # Errors
/// [`Failure`].
pub fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let settings = match &arguments.settings {
        Some(path) => path.clone(),
        None => settings::default_path().map_err(Failure::configuration)?,
    };
    let mut config = config(arguments)?;
    config.certificate = certificate(arguments, &settings)?;
    config.hub = hub(arguments)?;
    if let Some(hub) = &config.hub {
        config.bus.connect.push(hub.publishers().clone());
    }
    let (emit, stdout) = Stdout::start();
    let served = serve(config, Source::File(settings), emit);
    stdout.finish();
    served
}

/// What `demo` serves: on the one address given, or on the usual one or any where that is taken; to one hub; and else
/// as `serve` does by default.
pub(crate) fn demo_config(demo: &DemoArguments, hub: &Endpoint) -> Result<Config, Failure> {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let serve = ServeArguments {
        listen: vec![demo.listen.unwrap_or(usual)],
        connect: vec![hub.as_str().into()],
        check: demo.check,
        io: demo.io,
        ..ServeArguments::default()
    };
    Ok(Config { any_port: demo.listen.is_none(), ..config(&serve)? })
}

/// The embedded hub, where one is asked for.
fn hub(arguments: &ServeArguments) -> Result<Option<Hub>, Failure> {
    match (arguments.hub, &arguments.hub_publishers, &arguments.hub_subscribers) {
        (false, None, None) => Ok(None),
        (false, ..) => Err(Failure::Usage("--hub-publishers and --hub-subscribers need --hub".into())),
        (true, publishers, subscribers) => {
            let publishers = publishers.as_deref().unwrap_or(HUB_PUBLISHERS);
            let hub = start_hub(publishers, subscribers.as_deref().unwrap_or(HUB_SUBSCRIBERS))?;
            log(format_args!("publishers may connect to {}, subscribers to {}", hub.publishers(), hub.subscribers()));
            Ok(Some(hub))
        }
    }
}

/// An embedded hub at these endpoints.
pub(crate) fn start_hub(publishers: &str, subscribers: &str) -> Result<Hub, Failure> {
    Hub::start(&bindable(publishers)?, &bindable(subscribers)?).map_err(Failure::configuration)
}

fn config(arguments: &ServeArguments) -> Result<Config, Failure> {
    let (listen, listen_optional) = if arguments.listen.is_empty() {
        // Clients that resolve localhost to ::1 first must not be refused.
        let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        (vec![SocketAddr::new(v4, PORT)], vec![SocketAddr::new(v6, PORT)])
    } else {
        (arguments.listen.clone(), Vec::new())
    };
    let listeners = (listen.len() + listen_optional.len()) as u64;
    let further_workers = arguments.workers.get() - 1;
    let others = OTHER_DESCRIPTORS + further_workers * (WORKER_DESCRIPTORS + LISTENER_DESCRIPTORS * listeners);
    Ok(Config {
        listen,
        listen_optional,
        any_port: false,
        certificate: None,
        io: arguments.io,
        workers: arguments.workers.size(),
        connections: connections(arguments.max_connections.get(), others),
        buffered_bytes: arguments.max_buffered.size(),
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
        bus: bus(arguments)?,
        hub: None,
        watch_stdin: arguments.watch_stdin,
        stats: arguments.stats.map(Seconds::get),
    })
}

fn certificate(arguments: &ServeArguments, settings: &Path) -> Result<Option<CertificateSource>, Failure> {
    match (arguments.plain, &arguments.tls_cert, &arguments.tls_key) {
        (true, None, None) => Ok(None),
        (true, ..) => Err(Failure::Usage("--plain serves http, which has no certificate".into())),
        (false, None, None) => Ok(Some(CertificateSource::beside(settings))),
        (false, Some(certificate), Some(key)) => {
            Ok(Some(CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }))
        }
        (false, ..) => Err(Failure::Usage("--tls-cert and --tls-key go together".into())),
    }
}

fn bus(arguments: &ServeArguments) -> Result<BusConfig, Failure> {
    let mut connect = arguments.connect.iter().map(|url| connectable(url)).collect::<Result<Vec<_>, _>>()?;
    if connect.is_empty() && arguments.bind.is_empty() && !arguments.hub {
        connect.push(connectable(HUB_PUBLISHERS)?);
    }
    Ok(BusConfig {
        connect,
        bind: arguments.bind.iter().map(|url| bindable(url)).collect::<Result<_, _>>()?,
        queue_messages: arguments.queue.size(),
        // What was accepted and is not published yet is body bytes too.
        queue_bytes: arguments.max_buffered.size(),
        ..BusConfig::default()
    })
}

/// An endpoint to connect to.
pub(crate) fn connectable(url: &str) -> Result<Endpoint, Failure> {
    url.parse().and_then(Endpoint::connectable).map_err(|error| bad_endpoint(url, error))
}

/// An endpoint to bind, on any port too.
fn bindable(url: &str) -> Result<Endpoint, Failure> {
    url.parse().map_err(|error| bad_endpoint(url, error))
}

fn bad_endpoint(url: &str, error: EndpointError) -> Failure {
    Failure::Configuration(format!("bad endpoint {url}: {error}"))
}

fn origins(allowed: &[String]) -> AllowedOrigins {
    if allowed.is_empty() || allowed.iter().any(|origin| origin == "*") {
        return AllowedOrigins::Any;
    }
    AllowedOrigins::These(allowed.iter().map(|origin| origin.as_str().into()).collect())
}

/// Raises the soft limit of descriptors as far as it goes, and caps the connections below it: without descriptors
/// nothing could be accepted, and nothing else opened.
fn connections(wanted: u64, others: u64) -> usize {
    let current = process::raise_descriptor_limit(wanted.saturating_add(others));
    let possible = current.saturating_sub(others).max(1);
    if possible < wanted {
        log(format_args!("at most {possible} connections, since the limit of descriptors is {current}"));
    }
    usize::try_from(possible.min(wanted)).unwrap_or(usize::MAX)
}
