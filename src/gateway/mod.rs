//! The gateway as a whole: the settings decide whether it listens, signals end it, and the parent is told.

mod certificates;
pub mod events;
pub mod exit;
pub(crate) mod signals;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{Interval, interval_at};

use crate::bus::{Bus, BusConfig, BusEvent, Hub, HubCounters};
use crate::gateway::certificates::Certificates;
use crate::gateway::events::{Emit, EndpointStats, Event, HubStats, Stats};
use crate::gateway::exit::Failure;
use crate::gateway::signals::{Asked, EndOfInput, Signals};
use crate::log::log;
use crate::proto::admission::ENDPOINT;
use crate::proto::policy::Policy;
use crate::proto::token::Token;
use crate::server::connection::Timeouts;
use crate::server::listener::{ListenError, Listening};
use crate::server::workers::{Io, Workers, WorkersConfig};
use crate::settings::{self, Access, DisabledReason};
use crate::tls::source::CertificateSource;
use crate::watch::Watch;

/// The part of the drain that is kept for the bus, at most: connections are cut off so long before its end.
const BUS_DRAIN: Duration = Duration::from_secs(1);

/// How long an address that is taken is tried again. The kernel takes a ring apart, and with it the listening socket
/// that has an accept pending, only after its process was killed and reaped: some 20 ms later.
const RELEASE: Duration = Duration::from_secs(1);

/// The pause between two such attempts.
const RELEASE_PAUSE: Duration = Duration::from_millis(5);

/// How the gateway runs. Every value holds.
#[derive(Debug)]
pub struct Config {
    /// Addresses that must be listened on.
    pub listen: Vec<SocketAddr>,
    /// Addresses that are listened on where the host has them.
    pub listen_optional: Vec<SocketAddr>,
    /// Whether any free port will do where one of `listen` is taken.
    pub any_port: bool,
    /// The certificate of https; none for plain http.
    pub certificate: Option<CertificateSource>,
    /// How sockets are waited for.
    pub io: Io,
    /// Worker threads.
    pub workers: usize,
    /// Connections at once.
    pub connections: usize,
    /// Bytes of bodies held by all connections together.
    pub buffered_bytes: usize,
    /// Limits and rules of a request.
    pub policy: Policy,
    /// Deadlines of a connection.
    pub timeouts: Timeouts,
    /// The whole stop, at most.
    pub drain_timeout: Duration,
    /// What is published to, and the queue to it.
    pub bus: BusConfig,
    /// The embedded hub, which runs already and is stopped after the bus.
    pub hub: Option<Hub>,
    /// Whether the end of stdin stops the gateway.
    pub watch_stdin: bool,
    /// How often the counters are told.
    pub stats: Option<Duration>,
}

/// Where the token comes from.
#[derive(Debug)]
pub enum Source {
    /// The user settings file, watched.
    File(PathBuf),
    /// A token made for this run.
    Fixed(Token),
}

/// Runs the gateway until it is asked to stop.
///
/// # Errors
/// [`Failure`], with its exit status.
pub fn serve(config: Config, source: Source, emit: Emit) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Configuration(format!("no event loop: {error}")))?;
    runtime.block_on(async {
        let mut signals = Signals::install().map_err(|error| Failure::Configuration(format!("no signals: {error}")))?;
        let mut gateway = Gateway::start(config, emit)?;
        let ran = gateway.run(source, &mut signals).await;
        gateway.stop(&mut signals).await;
        ran
    })
}

struct Gateway {
    config: Config,
    emit: Emit,
    bus: Arc<Bus>,
    workers: Workers,
    listening: Option<Arc<Listening>>,
    /// Loaded, or made, when it is first needed.
    certificates: Option<Certificates>,
    /// What the settings said last; `None` before they were read.
    access: Option<Access>,
    /// Why they were refused last, since when nothing else was read.
    rejected: Option<String>,
    started: Instant,
}

impl Gateway {
    fn start(config: Config, emit: Emit) -> Result<Self, Failure> {
        let told = Arc::clone(&emit);
        let bus = Bus::start(config.bus.clone(), move |event| {
            let (state, endpoint) = match &event {
                BusEvent::Connected { endpoint } => ("connected", endpoint),
                BusEvent::Disconnected { endpoint } => ("disconnected", endpoint),
            };
            told(&Event::Bus { state, endpoint: endpoint.as_str() });
        })
        .map_err(|error| Failure::Configuration(error.to_string()))?;
        let bus = Arc::new(bus);
        let workers_config = WorkersConfig {
            io: config.io,
            workers: config.workers,
            policy: config.policy.clone(),
            timeouts: config.timeouts,
            buffered_bytes: config.buffered_bytes,
            connections: config.connections,
        };
        let workers = Workers::start(&workers_config, &bus.publisher())?;
        let certificates = match &config.certificate {
            // Files that are given are known to be good before anything is promised.
            Some(source @ CertificateSource::Files { .. }) => Some(Certificates::load(source.clone())?),
            _ => None,
        };
        let (listening, access, rejected) = (None, None, None);
        let started = Instant::now();
        Ok(Self { config, emit, bus, workers, listening, certificates, access, rejected, started })
    }

    /// Follows the settings until it is time to stop.
    async fn run(&mut self, source: Source, signals: &mut Signals) -> Result<(), Failure> {
        let mut watch = match &source {
            Source::Fixed(token) => {
                self.apply(Access::Open(token.clone()))?;
                None
            }
            Source::File(path) => {
                // The watch comes first: what changes after it was read is seen.
                let watch =
                    Watch::start(path).map_err(|error| log(format_args!("{error}; SIGHUP reads the settings again")));
                self.apply(settings::read(path).map_err(|error| Failure::Configuration(error.to_string()))?)?;
                watch.ok()
            }
        };
        let mut stdin = self.config.watch_stdin.then(EndOfInput::of_stdin);
        let mut stats = self.config.stats.map(|period| interval_at(tokio::time::Instant::now() + period, period));
        loop {
            let asked = tokio::select! {
                asked = signals.next() => asked,
                () = or_never(stdin.as_mut().map(EndOfInput::reached)) => Asked::Stop,
                _ = or_never(stats.as_mut().map(Interval::tick)) => Asked::Stats,
                () = or_never(watch.as_mut().map(Watch::changed)) => {
                    self.reload(&source, false)?;
                    continue;
                }
                () = or_never(self.certificates.as_mut().map(Certificates::due)) => {
                    self.reload_certificates();
                    continue;
                }
            };
            match asked {
                Asked::Stop => return Ok(()),
                Asked::Stats => (self.emit)(&Event::Stats(self.stats())),
                Asked::Reload => {
                    self.reload_certificates();
                    self.reload(&source, true)?;
                }
            }
        }
    }

    /// Puts what the settings say into force. Settings that cannot be understood change nothing.
    fn reload(&mut self, source: &Source, forced: bool) -> Result<(), Failure> {
        let Source::File(path) = source else { return Ok(()) };
        match settings::read(path) {
            Ok(access) => {
                let news = forced || self.rejected.take().is_some() || self.access.as_ref() != Some(&access);
                if news {
                    self.apply(access)?;
                    (self.emit)(&Event::Settings { state: "reloaded", reason: None });
                }
            }
            Err(error) => {
                let reason = error.to_string();
                if forced || self.rejected.as_ref() != Some(&reason) {
                    log(format_args!("{reason}; the last good settings stay in force"));
                    (self.emit)(&Event::Settings { state: "rejected", reason: Some(&reason) });
                }
                self.rejected = Some(reason);
            }
        }
        Ok(())
    }

    fn apply(&mut self, access: Access) -> Result<(), Failure> {
        match &access {
            Access::Open(token) => self.open(token)?,
            Access::Disabled(reason) if self.access.as_ref() != Some(&access) => self.close(reason),
            Access::Disabled(_) => {}
        }
        self.access = Some(access);
        Ok(())
    }

    fn open(&mut self, token: &Token) -> Result<(), Failure> {
        if let (Some(source), None) = (&self.config.certificate, &self.certificates) {
            self.certificates = Some(Certificates::load(source.clone())?);
        }
        let fresh = self.listening.is_none();
        let listening = match self.listening.take() {
            Some(listening) => listening,
            None => Arc::new(self.listen()?),
        };
        let tls = self.certificates.as_ref().map(Certificates::acceptor);
        let scheme = if tls.is_some() { "https" } else { "http" };
        self.workers.open(Arc::clone(&listening), token.clone(), tls);
        if fresh {
            let io = self.workers.io().to_string();
            for address in listening.addresses() {
                let url = format!("{scheme}://{address}{ENDPOINT}");
                (self.emit)(&Event::Listening { url: &url, pid: std::process::id(), io: &io });
                log(format_args!("listening on {url}, waiting by {io}"));
            }
        }
        self.listening = Some(listening);
        Ok(())
    }

    fn listen(&self) -> Result<Listening, ListenError> {
        let Config { listen, listen_optional, any_port, .. } = &self.config;
        let until = Instant::now() + RELEASE;
        loop {
            let taken = match Listening::bind(listen, listen_optional) {
                Err(taken) if taken.error.kind() == std::io::ErrorKind::AddrInUse => taken,
                bound => return bound,
            };
            if *any_port {
                let anywhere: Vec<_> = listen.iter().map(|address| SocketAddr::new(address.ip(), 0)).collect();
                return Listening::bind(&anywhere, &[]);
            }
            if Instant::now() >= until {
                return Err(taken);
            }
            // Nothing is served yet that would have to wait for this thread.
            std::thread::sleep(RELEASE_PAUSE);
        }
    }

    fn reload_certificates(&mut self) {
        if let Some(certificates) = &mut self.certificates {
            certificates.reload();
        }
    }

    fn close(&mut self, reason: &DisabledReason) {
        if let Some(listening) = self.listening.take() {
            listening.close();
            self.workers.close();
        }
        let reason = reason.to_string();
        (self.emit)(&Event::Disabled { reason: &reason });
        log(format_args!("not listening: {reason}"));
    }

    /// Lets what is in flight be answered, hands everything accepted to the bus, and says so.
    async fn stop(mut self, signals: &mut Signals) {
        let deadline = Instant::now() + self.config.drain_timeout;
        let bus_share = BUS_DRAIN.min(self.config.drain_timeout / 2);
        if let Some(listening) = self.listening.take() {
            listening.close();
        }
        let in_time = tokio::select! {
            () = self.workers.drain(deadline - bus_share) => true,
            // Asked twice: what is not done now is not done.
            () = signals.stop() => false,
        };
        if !in_time {
            self.workers.drain(Instant::now()).await;
        }
        let left = || if in_time { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
        // What the bus hands over last must pass through the hub within the same time.
        let hub_share = if self.config.hub.is_some() { left() / 2 } else { Duration::ZERO };
        let hub_left = tokio::select! {
            () = stop_bus(Arc::clone(&self.bus), left().saturating_sub(hub_share)) => left(),
            // The process ends with the bus's thread at work: nothing in libzmq can be told to hurry.
            () = signals.stop() => Duration::ZERO,
        };
        let hub = self.config.hub.take().map(|hub| hub.stop(hub_left));
        let stats = Stats { hub: hub.map(hub_stats), ..self.stats() };
        let undelivered = stats.queue_depth;
        if undelivered > 0 {
            log(format_args!("{undelivered} accepted messages could not be handed to the bus in time"));
        }
        (self.emit)(&Event::Stopped { undelivered, stats });
    }

    fn stats(&self) -> Stats {
        let bus = self.bus.counters();
        let http = self.workers.totals();
        let endpoints = bus.endpoints.into_iter().map(|endpoint| EndpointStats {
            endpoint: endpoint.endpoint.as_str().into(),
            connected: endpoint.connected,
            reconnects: endpoint.reconnects,
        });
        Stats {
            uptime_s: self.started.elapsed().as_secs(),
            answers: http.answers,
            refused: http.refused,
            accepted: bus.accepted,
            published: bus.published,
            queue_depth: bus.depth,
            queue_high_water: bus.high_water,
            queue_bytes: bus.bytes as u64,
            pipe_full: bus.pipe_full,
            bytes_in: http.bytes_in,
            bytes_out: http.bytes_out,
            connections: http.connections,
            connections_accepted: http.connections_accepted,
            endpoints: endpoints.collect(),
            hub: self.config.hub.as_ref().map(|hub| hub_stats(hub.counters())),
        }
    }
}

fn hub_stats(counters: HubCounters) -> HubStats {
    HubStats { forwarded: counters.forwarded, pipe_full: counters.pipe_full }
}

/// Stops the bus, in a thread of its own so that signals are still heard.
async fn stop_bus(bus: Arc<Bus>, deadline: Duration) {
    let (sender, stopped) = tokio::sync::oneshot::channel();
    let stop = {
        let bus = Arc::clone(&bus);
        move || {
            // Nobody waits any more when it was asked twice.
            let _ = sender.send(bus.stop(deadline));
        }
    };
    if std::thread::Builder::new().name("bus-stop".into()).spawn(stop).is_err() || stopped.await.is_err() {
        bus.stop(deadline);
    }
}

/// Waits for ever where there is nothing to wait for.
async fn or_never<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
