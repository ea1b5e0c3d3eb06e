//! One run: the settings open and close the listeners, and signals reload, count and stop.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, interval_at, sleep, timeout};

use crate::bus::Bus;
use crate::gateway::certificates::WatchedCertificate;
use crate::gateway::components::Components;
use crate::gateway::config::{GatewayConfig, TokenSource};
use crate::gateway::events::{Event, EventSink};
use crate::gateway::failure::Failure;
use crate::gateway::ready::ReadyReporter;
use crate::gateway::request_log::{LoggedTopics, Refusals};
use crate::gateway::signals::{SignalAction, Signals, or_never, watch_stdin};
use crate::gateway::watched_settings::WatchedSettings;
use crate::http::admission::ENDPOINT;
use crate::server::listener::{BoundAddress, ListenTarget, Listening};
use crate::server::pool::check_io;
use crate::sync::token::Token;
use crate::sys::log::{log, warning};
use crate::sys::memory::MEMORY;
use crate::sys::process::ParentEnd;
use crate::sys::retry::retry_until;
use crate::tls::source::CertificateSource;

/// How long the gateway tries to listen on an address that is taken. The kernel closes the listening socket of a killed
/// process some 20 ms after the process is reaped, if a ring had an accept pending on it.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(1);

const TAKEN_PAUSE: Duration = Duration::from_millis(5);

/// How long the gateway waits for every endpoint of the bus before it accepts from inherited sockets. Until then
/// connections wait in the backlog, from where a gateway that this one replaces may accept them. They are not answered
/// 503, and no hub misses their messages.
const BUS_START: Duration = Duration::from_secs(1);

/// Runs the gateway until it is asked to stop. `on_bus` is called when the bus has started.
pub(crate) fn run(
    mut config: GatewayConfig,
    on_bus: impl FnOnce(&Bus) -> Result<(), Failure>,
    source: &TokenSource,
    emit: EventSink,
) -> Result<(), Failure> {
    config.divide_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::cannot("create an event loop"))?;
    runtime.block_on(async {
        tokio::spawn(MEMORY.return_after_falls());
        // The parent may end at any time, so it is watched first.
        let parent = config.watch_parent.then(ParentEnd::watch).transpose();
        let parent = parent.map_err(Failure::cannot("watch the parent"))?;
        let signals = Signals::install(config.stops_at_hangup);
        let mut signals = signals.map_err(Failure::cannot("handle signals"))?;
        let settings = WatchedSettings::start(source, config.server.policy.limits.head_bytes);
        let mut gateway = Gateway::start(config, on_bus, settings, emit)?;
        let ran = gateway.run(parent, &mut signals).await;
        gateway.stop(&mut signals, ran.as_ref().err()).await;
        ran
    })
}

/// What the settings have made of the REST API.
enum Api {
    /// Nothing listens, for this reason.
    Off(String),
    /// An address is taken. The gateway tries again, until this time.
    Retrying(Instant),
    Open(Arc<Listening>),
}

struct Gateway {
    config: GatewayConfig,
    emit: EventSink,
    components: Components,
    ready: Arc<ReadyReporter>,
    api: Api,
    /// `None` until a certificate is needed.
    certificate: Option<WatchedCertificate>,
    settings: WatchedSettings,
    unknown_topics: LoggedTopics,
}

impl Gateway {
    /// Asks whatever can refuse the start before it binds an endpoint of the bus. So a gateway that is
    /// started a second time by mistake, and finds the port of the first one taken, has not touched anything else.
    fn start(
        config: GatewayConfig,
        on_bus: impl FnOnce(&Bus) -> Result<(), Failure>,
        settings: WatchedSettings,
        emit: EventSink,
    ) -> Result<Self, Failure> {
        check_io(config.server.io)?;
        let is_open = settings.token().is_ok();
        let certificate = match &config.certificate {
            // The user's files are checked now. A self-signed certificate is made once the settings open the API.
            Some(source) if is_open || matches!(source, CertificateSource::Files { .. }) => {
                Some(WatchedCertificate::load(source.clone(), &emit)?)
            }
            _ => None,
        };
        // Nothing is served yet that a pause could delay.
        let bind = || retry_until(TAKEN_TIMEOUT, TAKEN_PAUSE, || listen(&config), is_taken);
        let access = match settings.token() {
            Ok(token) => Ok((token.clone(), bind().map_err(|error| Failure::listen(&error))?)),
            Err(reason) => Err(reason),
        };
        let ready = Arc::new(ReadyReporter::new(Arc::clone(&emit)));
        let (unknown_topics, note_unknown) = LoggedTopics::new();
        let components = Components::start(&config, on_bus, &emit, &ready, &note_unknown)?;
        let api = Api::Off("the gateway starts".into());
        let mut gateway = Self { config, emit, components, ready, api, certificate, settings, unknown_topics };
        match access {
            Ok((token, bound)) => gateway.open(token, Arc::new(bound)),
            Err(reason) => gateway.close(reason),
        }
        Ok(gateway)
    }

    /// Follows the settings and the signals until one of them, or the end of the parent, asks to stop.
    async fn run(&mut self, parent: Option<ParentEnd>, signals: &mut Signals) -> Result<(), Failure> {
        let ready = Arc::clone(&self.ready);
        let mut bus_started = pin!(timeout(BUS_START, ready.completed.notified()));
        let mut accepts_inherited = self.config.server.inherited.is_empty();
        let stdin = self.config.watch_stdin.then(watch_stdin).transpose();
        let mut stdin = stdin.map_err(Failure::cannot("watch standard input"))?;
        let interval = |period| interval_at(Instant::now() + period, period);
        let mut stats = self.config.stats_interval.map(interval);
        let trust_anchor = self.config.certificate.as_ref().and_then(CertificateSource::trust_anchor);
        let mut refusals = Refusals::new(Arc::clone(&self.components.workers.refused), trust_anchor);
        loop {
            let action = tokio::select! {
                action = signals.next() => action,
                _ = or_never(stdin.as_mut()) => {
                    log(format_args!("stdin ended, so the gateway stops"));
                    SignalAction::Stop
                }
                () = or_never(parent.as_ref().map(ParentEnd::reached)) => {
                    log(format_args!("the parent ended, so the gateway stops"));
                    SignalAction::Stop
                }
                _ = or_never(stats.as_mut().map(Interval::tick)) => {
                    (self.emit)(&Event::Stats(self.components.stats()));
                    continue;
                }
                _ = &mut bus_started, if !accepts_inherited => {
                    self.components.workers.accept_inherited();
                    accepts_inherited = true;
                    continue;
                }
                () = refusals.due() => {
                    let lines = refusals.lines(&self.components.workers.counters(), Instant::now());
                    lines.iter().for_each(|line| warning(format_args!("{line}")));
                    continue;
                }
                line = self.unknown_topics.next() => {
                    log(format_args!("{line}"));
                    continue;
                }
                () = sleep(TAKEN_PAUSE), if matches!(self.api, Api::Retrying(_)) => {
                    self.apply_settings()?;
                    continue;
                }
                () = self.settings.changed() => {
                    self.reload_settings(false)?;
                    continue;
                }
                () = or_never(self.certificate.as_mut().map(WatchedCertificate::due)) => {
                    self.reload_certificate();
                    continue;
                }
            };
            match action {
                SignalAction::Stop => return Ok(()),
                SignalAction::PrintStats => (self.emit)(&Event::Stats(self.components.stats())),
                SignalAction::PrintStatsAndSubscriptions => {
                    (self.emit)(&Event::Stats(self.components.stats()));
                    self.components.bus.log_subscriptions();
                }
                SignalAction::Reload => {
                    self.reload_certificate();
                    self.reload_settings(true)?;
                }
            }
        }
    }

    fn reload_settings(&mut self, forced: bool) -> Result<(), Failure> {
        if let Some(change) = self.settings.read_again(forced) {
            self.apply_settings()?;
            (self.emit)(&Event::Settings(&change));
        }
        Ok(())
    }

    fn apply_settings(&mut self) -> Result<(), Failure> {
        let token = match self.settings.token() {
            Ok(token) => token.clone(),
            Err(reason) => {
                self.close(reason);
                return Ok(());
            }
        };
        if let (Some(source), None) = (&self.config.certificate, &self.certificate) {
            self.certificate = Some(WatchedCertificate::load(source.clone(), &self.emit)?);
        }
        if let Some(listening) = self.listening()? {
            self.open(token, listening);
        }
        Ok(())
    }

    /// Returns what listens, and binds the listeners if nothing does. Returns `None` if an address is taken, and is to
    /// be tried again: [`TAKEN_TIMEOUT`] long.
    fn listening(&mut self) -> Result<Option<Arc<Listening>>, Failure> {
        let now = Instant::now();
        let until = match &self.api {
            Api::Open(listening) => return Ok(Some(Arc::clone(listening))),
            Api::Retrying(until) => *until,
            Api::Off(_) => now + TAKEN_TIMEOUT,
        };
        match listen(&self.config) {
            Ok(listening) => Ok(Some(Arc::new(listening))),
            Err(error) if is_taken(&error) && now < until => {
                if let Api::Off(_) = self.api {
                    log(format_args!("{error}: trying again for {} s", TAKEN_TIMEOUT.as_secs()));
                    self.ready.set_failed(&Failure::listen(&error).to_string());
                    self.api = Api::Retrying(until);
                }
                Ok(None)
            }
            Err(error) => Err(Failure::listen(&error)),
        }
    }

    /// Accepts requests with this token on these sockets.
    fn open(&mut self, token: Token, listening: Arc<Listening>) {
        let tls = self.certificate.as_ref().map(|certificate| Arc::clone(&certificate.acceptor));
        let is_https = tls.is_some();
        self.components.workers.open(Arc::clone(&listening), token, tls);
        if !matches!(self.api, Api::Open(_)) {
            let inherited = self.config.server.inherited.iter().map(|socket| &socket.address);
            listening.addresses().chain(inherited).for_each(|address| self.report_listening(address, is_https));
        }
        self.api = Api::Open(listening);
        self.ready.set_listening();
    }

    fn report_listening(&self, address: &BoundAddress, is_https: bool) {
        let (io, pid) = (self.components.workers.io, std::process::id());
        let (url, socket) = match address {
            BoundAddress::Tcp(address) if is_https => (format!("https://{address}{ENDPOINT}"), None),
            BoundAddress::Tcp(address) => (format!("http://{address}{ENDPOINT}"), None),
            BoundAddress::Unix(path) => (format!("http://localhost{ENDPOINT}"), path.as_deref()),
        };
        (self.emit)(&Event::Listening { url: &url, socket, pid, io });
        let place: &dyn fmt::Display = if address.is_tcp() { &url } else { address };
        log(format_args!("listening on {place}, with {io}, as process {pid}"));
        if let BoundAddress::Tcp(address) = address
            && !address.ip().to_canonical().is_loopback()
        {
            let can_read = if is_https { "" } else { ", and whoever is on the way can read it in plain http" };
            warning(format_args!(
                "{address} is no loopback address: every machine that reaches it can post messages if it has the \
                 token{can_read}"
            ));
        }
    }

    /// Closes the listeners, and reports why, unless that was reported already.
    fn close(&mut self, reason: String) {
        match &self.api {
            Api::Off(known) if *known == reason => return,
            Api::Off(_) | Api::Retrying(_) => {}
            Api::Open(listening) => {
                self.components.workers.close();
                listening.end_backlog();
                listening.close();
            }
        }
        (self.emit)(&Event::Disabled { reason: &reason });
        self.ready.set_not_listening(&reason);
        self.settings.log_disabled(&reason);
        self.api = Api::Off(reason);
    }

    fn reload_certificate(&mut self) {
        if let Some(certificate) = &mut self.certificate {
            certificate.reload();
        }
    }

    /// Closes the listeners, answers the requests in flight, hands every accepted message to the bus, and reports the
    /// end. If a failure ended the run, the caller reports that last.
    async fn stop(self, signals: &mut Signals, failure: Option<&Failure>) {
        match failure {
            Some(failure) => self.ready.set_failed(&failure.to_string()),
            None => self.ready.set_not_listening("the gateway stops"),
        }
        if let Api::Open(listening) = self.api {
            listening.end_backlog();
        }
        let (stats, was_interrupted) = self.components.stop(self.config.drain_timeout, signals).await;
        let undelivered = stats.accepted.saturating_sub(stats.published);
        if undelivered > 0 {
            let cause = if was_interrupted { ": stopped at the second signal" } else { " in time" };
            warning(format_args!("{undelivered} accepted messages could not be handed to the bus{cause}"));
        }
        if failure.is_none() {
            (self.emit)(&Event::Stopped { undelivered, stats });
        } else if stats.accepted > 0 {
            (self.emit)(&Event::Stats(stats));
        }
    }
}

/// Binds the listeners: where an address is taken, on any free ports if the configuration allows that.
fn listen(config: &GatewayConfig) -> io::Result<Listening> {
    let listened = Listening::bind(&config.listen);
    if !config.any_port || !listened.as_ref().is_err_and(is_taken) {
        return listened;
    }
    let any_port = |address: &SocketAddr| SocketAddr::new(address.ip(), 0);
    let targets = config.listen.iter().map(|target| match target {
        ListenTarget::Addresses(addresses) => ListenTarget::Addresses(addresses.iter().map(any_port).collect()),
        ListenTarget::Path(_) => target.clone(),
    });
    Listening::bind(&targets.collect::<Vec<_>>())
}

fn is_taken(failed: &io::Error) -> bool {
    failed.kind() == io::ErrorKind::AddrInUse
}
