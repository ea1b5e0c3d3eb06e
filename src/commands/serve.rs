//! `adapter-gateway serve`: the gateway as the adapter launches it.

use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argh::FromArgs;

use crate::bus::{BusConfig, Endpoint, HUB_PUBLISHERS, HUB_SUBSCRIBERS, HubEndpoints};
use crate::cli::{DEFAULT_PORT, DemoArguments, ListenAddress, ServeArguments};
use crate::gateway::event_writer;
use crate::gateway::events::{Event, EventSink};
use crate::gateway::{self, Failure, GatewayConfig, TokenSource};
use crate::http::policy::{AllowedOrigins, Policy};
use crate::message::Rules;
use crate::server::listener::{ListenTarget, ListeningSocket};
use crate::server::pool::ServerConfig;
use crate::settings;
use crate::sys::log;
use crate::tls::source::CertificateSource;

const ANY_FREE_PORT: &str = "tcp://127.0.0.1:*";

/// Runs the command.
pub fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    if arguments.log_time {
        log::show_time();
    }
    if io::stdout().is_terminal() && !arguments.events {
        return serve(arguments, &(Arc::new(|_: &Event<'_>| {}) as EventSink));
    }
    let started = event_writer::start().map_err(Failure::cannot("start a thread"));
    let (emit, writer) = started.inspect_err(|failure| {
        // No thread can write the event, so this one does.
        let event = serde_json::to_string(&Event::Failed { status: failure.status, reason: &failure.to_string() });
        let _ = event.map(|event| writeln!(io::stdout(), "{event}"));
    })?;
    let result = serve(arguments, &emit);
    // With wrong arguments, nothing was started. A person reads the fault on standard error.
    if let Err(failure) = &result
        && failure.status != Failure::USAGE
    {
        emit(&Event::Failed { status: failure.status, reason: &failure.to_string() });
    }
    event_writer::finish(&writer);
    result
}

fn serve(arguments: &ServeArguments, emit: &EventSink) -> Result<(), Failure> {
    let settings = settings_path(arguments.settings.as_ref())?;
    let mut config = gateway_config(arguments)?;
    config.certificate = certificate_source(arguments, &settings, !config.tcp_addresses().is_empty())?;
    gateway::run(config, |_| Ok(()), TokenSource::SettingsFile(settings), emit)
}

pub(super) fn settings_path(path: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    path.cloned().map_or_else(settings::default_path, Ok).map_err(Failure::configuration)
}

/// Returns the configuration of `demo`: one listener, one hub, and otherwise the defaults of `serve`. Any free port is
/// used if a default port is taken. It ends with its terminal.
pub(super) fn demo_config(demo: &DemoArguments) -> Result<GatewayConfig, Failure> {
    let default_address = SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)).into();
    let without_options = ServeArguments::from_args(&[], &[]).map_err(|early| Failure::configuration(early.output))?;
    let serve = ServeArguments {
        listen: vec![demo.listen.clone().unwrap_or(ListenAddress::Tcp(default_address))],
        hub: true,
        check: demo.check,
        vocabulary: demo.vocabulary,
        io: demo.io,
        ..without_options
    };
    let any_port = || endpoint_to_bind(ANY_FREE_PORT);
    let other_hub = Some(HubEndpoints { publishers: any_port()?, subscribers: any_port()? });
    let free_port = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let other_listen = demo.listen.is_none().then(|| vec![ListenTarget::Addresses(vec![free_port])]);
    Ok(GatewayConfig { other_listen, other_hub, stops_at_hangup: true, ..gateway_config(&serve)? })
}

fn hub_endpoints(arguments: &ServeArguments) -> Result<Option<HubEndpoints>, Failure> {
    match (arguments.hub, &arguments.hub_publishers, &arguments.hub_subscribers) {
        (false, None, None) => Ok(None),
        (false, ..) => Err(Failure::new(Failure::USAGE, "--hub-publishers and --hub-subscribers need --hub")),
        (true, publishers, subscribers) => Ok(Some(HubEndpoints {
            publishers: endpoint_to_bind(publishers.as_deref().unwrap_or(HUB_PUBLISHERS))?,
            subscribers: endpoint_to_bind(subscribers.as_deref().unwrap_or(HUB_SUBSCRIBERS))?,
        })),
    }
}

/// Refuses an endpoint that two options have. Of one that is bound twice, the system would say only that it is taken. One
/// that is connected to twice, or is the gateway's own hub, would get each message twice.
pub(super) fn refuse_repeated_endpoints(BusConfig { connect, bind, hub, .. }: &BusConfig) -> Result<(), Failure> {
    let hub = hub.iter().flat_map(|HubEndpoints { publishers, subscribers }| {
        [("--hub-publishers", publishers), ("--hub-subscribers", subscribers)]
    });
    let bind = bind.iter().map(|endpoint| ("--bind", endpoint));
    let connect = connect.iter().map(|endpoint| ("--connect", endpoint));
    let endpoints: Vec<_> = hub.chain(bind).chain(connect).collect();
    for (index, (option, url)) in endpoints.iter().enumerate() {
        if let Some((first, _)) = endpoints.iter().take(index).find(|(_, other)| other.is_same_as(url)) {
            return Err(Failure::configuration(format_args!("{option} {url}: {first} has this endpoint already")));
        }
    }
    Ok(())
}

/// Returns what the arguments say, without the certificate, which depends on the path of the settings file.
fn gateway_config(arguments: &ServeArguments) -> Result<GatewayConfig, Failure> {
    let &ServeArguments { max_connections, workers, io, check, vocabulary, encoding, .. } = arguments;
    let &ServeArguments { drain_timeout, watch_stdin, watch_parent, stats_interval, .. } = arguments;
    let origins = &arguments.allow_origin;
    let origins = if origins.is_empty() || origins.iter().any(|origin| origin == "*") {
        AllowedOrigins::Any
    } else {
        AllowedOrigins::These(origins.iter().map(|origin| origin.as_str().into()).collect())
    };
    let policy = Policy { limits: arguments.limits(), rules: Rules { check, vocabulary }, encoding, origins };
    let bus = bus_config(arguments, &policy)?;
    let (listen, inherited) = listeners(&arguments.listen)?;
    let server = ServerConfig { io, workers, max_connections, inherited, policy, timeouts: arguments.timeouts() };
    Ok(GatewayConfig {
        listen,
        other_listen: None,
        certificate: None,
        server,
        drain_timeout,
        bus,
        other_hub: None,
        watch_stdin,
        watch_parent,
        stops_at_hangup: false,
        stats_interval,
    })
}

/// Returns where each `--listen` listens. It looks names up.
fn listeners(listen: &[ListenAddress]) -> Result<(Vec<ListenTarget>, Vec<Arc<ListeningSocket>>), Failure> {
    if listen.is_empty() {
        // Clients that resolve localhost to ::1 first must not be refused.
        let both = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let both = both.map(|ip| SocketAddr::new(ip, DEFAULT_PORT));
        return Ok((vec![ListenTarget::Addresses(both.into())], Vec::new()));
    }
    let (mut targets, mut inherited) = (Vec::new(), Vec::new());
    for (index, address) in listen.iter().enumerate() {
        let refused = |error| Failure::new(Failure::CANNOT_LISTEN, format_args!("cannot listen on {address}: {error}"));
        // Port 0 is another port each time.
        if !matches!(address, ListenAddress::Tcp(_)) && listen.iter().take(index).any(|before| before == address) {
            return Err(Failure::new(Failure::USAGE, format_args!("--listen {address} is given twice")));
        }
        match address {
            ListenAddress::Tcp(address) => {
                targets.push(ListenTarget::Addresses(address.addresses_in_time().map_err(refused)?))
            }
            ListenAddress::Path(path) => targets.push(ListenTarget::Path(path.clone())),
            ListenAddress::Descriptor(number) => {
                inherited.push(ListeningSocket::inherited(*number).map_err(refused)?);
            }
        }
    }
    Ok((targets, inherited))
}

/// Returns where the certificate is; `None` without a listener that speaks https.
fn certificate_source(
    arguments: &ServeArguments,
    settings: &Path,
    has_tcp: bool,
) -> Result<Option<CertificateSource>, Failure> {
    let has_self_signed = arguments.cert_dir.is_some() || !arguments.cert_name.is_empty();
    let has_any = has_self_signed || arguments.tls_cert.is_some() || arguments.tls_key.is_some();
    let usage = |reason: &str| Err(Failure::new(Failure::USAGE, reason));
    match (&arguments.tls_cert, &arguments.tls_key) {
        _ if arguments.plain && has_any => {
            usage("--plain serves http, so --tls-cert, --tls-key, --cert-dir and --cert-name cannot be given with it")
        }
        _ if !has_tcp && has_any => usage(
            "Unix sockets serve http, so --tls-cert, --tls-key, --cert-dir and --cert-name need an address to listen on too",
        ),
        _ if arguments.plain || !has_tcp => Ok(None),
        (None, None) => {
            let names = arguments.cert_name.clone();
            Ok(Some(match arguments.cert_dir.clone() {
                Some(directory) => CertificateSource::SelfSigned { directory, names },
                None => CertificateSource::beside(settings, names),
            }))
        }
        _ if has_self_signed => usage(
            "--cert-dir and --cert-name are for the self-signed certificate, so they cannot be given with --tls-cert and \
             --tls-key",
        ),
        (Some(certificate), Some(key)) => {
            Ok(Some(CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }))
        }
        _ => usage("--tls-cert and --tls-key must be given together"),
    }
}

fn bus_config(arguments: &ServeArguments, policy: &Policy) -> Result<BusConfig, Failure> {
    let mut connect = arguments.connect.iter().map(|url| endpoint_to_connect(url)).collect::<Result<Vec<_>, _>>()?;
    if connect.is_empty() && arguments.bind.is_empty() && !arguments.hub {
        connect.push(endpoint_to_connect(HUB_PUBLISHERS)?);
    }
    let bind = arguments.bind.iter().map(|url| endpoint_to_bind(url)).collect::<Result<Vec<_>, _>>()?;
    let config = BusConfig {
        connect,
        bind,
        hub: hub_endpoints(arguments)?,
        payload_bytes: policy.payload_bytes(),
        limits: policy.limits,
        stall_timeout: arguments.stall_timeout,
        ..BusConfig::default()
    };
    refuse_repeated_endpoints(&config)?;
    Ok(config)
}

pub(super) fn endpoint_to_connect(url: &str) -> Result<Endpoint, Failure> {
    url.parse().and_then(Endpoint::connectable).map_err(|error| bad_endpoint(url, error))
}

/// Its port may be `*`, which is any free one.
fn endpoint_to_bind(url: &str) -> Result<Endpoint, Failure> {
    url.parse().map_err(|error| bad_endpoint(url, error))
}

fn bad_endpoint(url: &str, error: &str) -> Failure {
    Failure::configuration(format_args!("bad endpoint {url}: {error}"))
}
