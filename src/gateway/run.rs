//! One run: the settings open and close the listeners, and signals reload, count and stop.

use std::fmt;
use std::io::ErrorKind;
use std::num::NonZero;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};

use crate::bus::Bus;
use crate::gateway::api::{Api, Readiness};
use crate::gateway::components::{Components, remove_in_time};
use crate::gateway::config::{GatewayConfig, TokenSource};
use crate::gateway::events::{Event, EventSink, Stats};
use crate::gateway::failure::Failure;
use crate::gateway::files::{FileNews, Files, silence_of};
use crate::gateway::follower::STEP_CHECK_PAUSE;
use crate::gateway::request_log::Refusals;
use crate::gateway::signals::{SignalAction, Signals};
use crate::http::admission::ENDPOINT;
use crate::server::listener::{BoundAddress, ListeningSocket};
use crate::server::pool::check_io;
use crate::server::shared::{Mode, Opened};
use crate::sys::advice::{Refused, advice, path_option};
use crate::sys::listener::remove_files;
use crate::sys::log::{log, warning};
use crate::sys::{event_loop, or_never};
use crate::tls::source::CertificateSource;

/// How long the gateway waits for every endpoint of the bus before it accepts from inherited sockets, so that none of
/// these connections is answered 503. A gateway that this one replaces may accept them meanwhile.
const BUS_START: Duration = Duration::from_secs(1);

/// The time between two looks whether a file does not answer. Whoever asks that files are read is told at once.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// How long a stop waits for a start that is not complete, and at most for a quarter of the drain time.
const START_END: Duration = Duration::from_millis(500);

/// Runs the gateway until it is asked to stop. `on_bus` is called when the bus has started.
pub(crate) fn run(
    mut config: GatewayConfig,
    on_bus: impl FnOnce(&Bus) -> Result<(), Failure>,
    source: TokenSource,
    emit: &EventSink,
) -> Result<(), Failure> {
    config.divide_descriptors()?;
    event_loop().map_err(Failure::cannot("create an event loop"))?.block_on(async {
        let mut signals = Signals::install(&config)?;
        check_io(config.server.io).await?;
        let start_end = START_END.min(config.drain_timeout / 4);
        let config = Arc::new(config);
        let files = Files::start(Arc::clone(&config), source, emit)?;
        let followers = Arc::clone(&files.followers);
        let mut start = pin!(Gateway::start(config, on_bus, files, Arc::clone(emit)));
        let mut stop_at = None;
        let start_stopped = || Ok(Event::Stopped { undelivered: None, stats: Stats::default() });
        let ran = loop {
            tokio::select! {
                started = &mut start => match started {
                    Ok(mut gateway) => {
                        if stop_at.is_none() {
                            gateway.run(&mut signals).await;
                        }
                        break Ok(gateway.stop(&mut signals).await);
                    }
                    Err(_) if stop_at.is_some() => break start_stopped(),
                    Err(failure) => break Err(failure),
                },
                () = or_never(stop_at.map(sleep_until)) => break start_stopped(),
                action = signals.next() => match action {
                    SignalAction::Stop if stop_at.is_some() => break start_stopped(),
                    SignalAction::Stop => stop_at = Some(Instant::now() + start_end),
                    SignalAction::PrintStats | SignalAction::PrintStatsAndSubscriptions => emit(&Event::Stats(Stats::default())),
                    SignalAction::Reload => followers.reload(),
                }
            }
        };
        remove_in_time(Box::new(remove_files)).await;
        ran.map(|last_event| emit(&last_event))
    })
}

struct Gateway {
    config: Arc<GatewayConfig>,
    emit: EventSink,
    components: Components,
    files: Files,
    /// What does not answer, as the log has it.
    silent: Option<String>,
    api: Api,
    readiness: Readiness,
    /// Whether messages had somewhere to go when the bus last reported a change. `None` until its first report.
    is_bus_connected: Option<bool>,
}

impl Gateway {
    /// Binds the endpoints of the bus last: a gateway that is started a second time by mistake, and finds the port of
    /// the first one taken, has not touched anything else.
    async fn start(
        config: Arc<GatewayConfig>,
        on_bus: impl FnOnce(&Bus) -> Result<(), Failure>,
        mut files: Files,
        emit: EventSink,
    ) -> Result<Self, Failure> {
        let api = loop {
            match (timeout(STEP_CHECK_PAUSE, files.news()).await, files.followers.settings.silent()) {
                (Ok(FileNews::Api(Api::Closed { failure, may_pass: false })), _) => return Err(failure),
                (Ok(FileNews::Api(api)), _) => break api,
                (Ok(FileNews::Settings(change)), _) => emit(&Event::Settings(&change)),
                (Err(_), Some(silent)) => break Api::Off { reason: silence_of(&silent), to_switch_on: None },
                (Err(_), None) => {}
            }
        };
        let components = Components::start(&config, on_bus, &emit).await?;
        let mut gateway = Self {
            api: Api::Off { reason: String::new(), to_switch_on: None },
            readiness: Readiness::Starting,
            // The bus reports no endpoint that it binds.
            is_bus_connected: (!components.bus.bound().is_empty()).then_some(true),
            config,
            emit,
            components,
            files,
            silent: None,
        };
        if gateway.config.server.inherited.is_empty() {
            gateway.accept_inherited();
        }
        gateway.follow(api);
        Ok(gateway)
    }

    /// Follows the settings and the signals until one asks to stop.
    async fn run(&mut self, signals: &mut Signals) {
        let mut bus_started = pin!(sleep(BUS_START));
        let mut files_checked = pin!(sleep(CHECK_INTERVAL));
        let mut stats = self.config.stats_interval.map(|period| interval_at(Instant::now() + period, period));
        if let Some(stats) = &mut stats {
            stats.set_missed_tick_behavior(MissedTickBehavior::Skip);
        }
        let trust_anchor = self.config.certificate.as_ref().and_then(CertificateSource::trust_anchor);
        let mut refusals = Refusals::new(Arc::clone(&self.components.workers.refused), trust_anchor);
        loop {
            tokio::select! {
                action = signals.next() => match action {
                    SignalAction::Stop => return,
                    SignalAction::PrintStats => self.emit_stats(),
                    SignalAction::PrintStatsAndSubscriptions => {
                        self.emit_stats();
                        self.components.bus.log_subscriptions();
                    }
                    SignalAction::Reload => {
                        self.files.followers.reload();
                        files_checked.as_mut().reset(Instant::now() + STEP_CHECK_PAUSE);
                    }
                },
                () = &mut files_checked => {
                    let pause = self.check_files();
                    files_checked.as_mut().reset(Instant::now() + pause);
                }
                _ = or_never(stats.as_mut().map(Interval::tick)) => self.emit_stats(),
                () = &mut bus_started, if !self.components.workers.mode().accepts_inherited => self.accept_inherited(),
                () = refusals.due() => {
                    let lines = refusals.lines(&self.components.workers.counters(), Instant::now());
                    lines.iter().for_each(|line| warning(format_args!("{line}")));
                    self.report_readiness();
                }
                () = self.components.bus_changed.notified() => {
                    self.is_bus_connected = Some(self.components.bus.publisher().is_connected());
                    self.report_readiness();
                }
                news = self.files.news() => match news {
                    FileNews::Api(api) => self.follow(api),
                    FileNews::Settings(change) => (self.emit)(&Event::Settings(&change)),
                },
            }
        }
    }

    /// Logs what does not answer, and what does again. Returns when to look next.
    fn check_files(&mut self) -> Duration {
        let silent = self.files.followers.silent();
        match (&silent, &self.silent) {
            (Some(subject), None) => {
                warning(format_args!("{}; what was read last stays in force", silence_of(subject)));
            }
            (None, Some(subject)) => log(format_args!("{subject} answers again")),
            _ => {}
        }
        self.silent = silent;
        if self.silent.is_some() { STEP_CHECK_PAUSE } else { CHECK_INTERVAL }
    }

    fn emit_stats(&self) {
        (self.emit)(&Event::Stats(self.components.stats()));
    }

    /// Opens and closes the listeners by what the settings make of the API, and tells so.
    fn follow(&mut self, api: Api) {
        debug_assert!(self.api != api, "only what is new is sent");
        let before = std::mem::replace(&mut self.api, api);
        match (&self.api, &before) {
            (Api::Open(opened), _) => {
                self.components.workers.change(|mode| mode.opened = Some(opened.clone()));
                if !matches!(before, Api::Open(_)) {
                    let inherited = self.config.server.inherited.iter().map(|socket| &socket.address);
                    let addresses = opened.listening.addresses().chain(inherited);
                    addresses.for_each(|address| self.report_listening(address, opened.tls.is_some()));
                }
            }
            (_, Api::Open(Opened { listening, .. })) => {
                self.components.workers.change(Mode::close);
                listening.end_backlog();
                listening.close();
            }
            _ => {}
        }
        self.report_readiness();
        match &self.api {
            Api::Open(_) => {}
            Api::Closed { failure, .. } => warning(format_args!("not listening: {failure}; it is tried again")),
            Api::Off { reason, to_switch_on: None } => warning(format_args!("not listening: {reason}")),
            Api::Off { reason, to_switch_on: Some(path) } => {
                log(format_args!("not listening: {reason}"));
                match advice(ErrorKind::NotFound, Refused::Path(path)) {
                    // These settings are those of root, and not those that the person means.
                    Some(cure) => warning(format_args!("{cure}")),
                    None => log(format_args!(
                        "to switch the API on: adapter-gateway enable{}",
                        path_option("--settings", path)
                    )),
                }
            }
        }
    }

    /// Tells the parent what it does not know yet of whether messages are taken.
    fn report_readiness(&mut self) {
        let lost = self.lost();
        while let Some(next) = self.readiness.next(lost.as_ref().unwrap_or(&self.api), self.is_bus_connected) {
            next.event().iter().for_each(|event| (self.emit)(event));
            self.readiness = next;
        }
        if self.readiness == Readiness::Ready && self.components.bus.publisher().reaches_all() {
            self.accept_inherited();
        }
    }

    /// Returns that the API is closed, although it is open, where other processes have shut down all that it listens on.
    fn lost(&self) -> Option<Api> {
        let Api::Open(opened) = &self.api else { return None };
        let inherited = &self.config.server.inherited;
        let is_lost = |socket: &Arc<ListeningSocket>| socket.is_lost.load(Ordering::SeqCst);
        if !opened.listening.sockets.is_empty() || !inherited.iter().all(is_lost) {
            return None;
        }
        let numbers: Vec<_> = inherited.iter().filter_map(|socket| Some(format!("fd:{}", socket.inherited?))).collect();
        let reason = format_args!("another process has shut down {}", numbers.join(" and ")).to_string();
        Some(Api::Closed { failure: Failure::configuration(reason), may_pass: false })
    }

    fn accept_inherited(&self) {
        if !self.components.workers.mode().accepts_inherited {
            self.components.workers.change(|mode| mode.accepts_inherited = true);
        }
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

    /// Closes the listeners, answers what is in flight, and hands accepted messages to the bus. Returns the last event.
    async fn stop(self, signals: &mut Signals) -> Event<'static> {
        if self.readiness == Readiness::Ready {
            (self.emit)(&Event::NotReady { reason: "the gateway stops" });
        }
        // Nothing is opened any more. Who connects later would wait in a backlog that nobody looks at again.
        drop(self.files);
        let listening = if let Api::Open(opened) = self.api { Some(opened.listening) } else { None };
        let (stats, was_interrupted) = self.components.stop(listening, self.config.drain_timeout, signals).await;
        let undelivered = stats.bus.accepted.saturating_sub(stats.bus.published);
        if undelivered > 0 {
            let cause = if was_interrupted { ": stopped at the second signal" } else { " in time" };
            warning(format_args!("{undelivered} accepted messages could not be handed to the bus{cause}"));
        }
        Event::Stopped { undelivered: NonZero::new(undelivered), stats }
    }
}
