//! One run: the settings open and close the listeners, and signals reload, count and stop.

use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until, timeout};

use crate::bus::Bus;
use crate::gateway::components::{Components, remove_in_time};
use crate::gateway::config::{GatewayConfig, TokenSource};
use crate::gateway::events::{Event, EventSink, Stats};
use crate::gateway::failure::Failure;
use crate::gateway::files::{FileNews, Files, TAKEN_TIMEOUT};
use crate::gateway::ready::ReadyReporter;
use crate::gateway::request_log::Refusals;
use crate::gateway::signals::{SignalAction, Signals};
use crate::http::admission::ENDPOINT;
use crate::server::listener::{BoundAddress, Listening};
use crate::server::pool::check_io;
use crate::server::shared::{Mode, Opened};
use crate::sys::log::{log, warning};
use crate::sys::memory::MEMORY;
use crate::sys::terminal::path_option;
use crate::sys::unix_listener::remove_files;
use crate::sys::{event_loop, or_never};
use crate::tls::source::CertificateSource;

/// How long the gateway waits for every endpoint of the bus before it accepts from inherited sockets, so that none of
/// these connections is answered 503. A gateway that this one replaces may accept them meanwhile.
const BUS_START: Duration = Duration::from_secs(1);

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
        tokio::spawn(MEMORY.return_after_falls());
        let mut signals = Signals::install(&config)?;
        check_io(config.server.io).await?;
        let start_end = START_END.min(config.drain_timeout / 4);
        let config = Arc::new(config);
        let files = Files::start(Arc::clone(&config), source, Arc::clone(emit))?;
        let reload = files.reload.clone();
        let mut start = pin!(Gateway::start(config, on_bus, files, Arc::clone(emit)));
        let mut stop_at = None;
        let start_stopped = || (Ok(()), Some(Event::Stopped { undelivered: None, stats: Stats::default() }));
        let (ran, last_event) = loop {
            tokio::select! {
                started = &mut start => match started {
                    Ok(mut gateway) => {
                        let ran = if stop_at.is_some() { Ok(()) } else { gateway.run(&mut signals).await };
                        let last_event = gateway.stop(&mut signals, ran.as_ref().err()).await;
                        break (ran, last_event);
                    }
                    Err(failure) => break (Err(failure), None),
                },
                () = or_never(stop_at.map(sleep_until)) => break start_stopped(),
                action = signals.next() => match action {
                    SignalAction::Stop if stop_at.is_some() => break start_stopped(),
                    SignalAction::Stop => stop_at = Some(Instant::now() + start_end),
                    SignalAction::PrintStats | SignalAction::PrintStatsAndSubscriptions => emit(&Event::Stats(Stats::default())),
                    SignalAction::Reload => reload.send_replace(()),
                }
            }
        };
        remove_in_time(Box::new(remove_files)).await;
        last_event.iter().for_each(|event| emit(event));
        ran
    })
}

struct Gateway {
    config: Arc<GatewayConfig>,
    emit: EventSink,
    components: Components,
    ready: Arc<ReadyReporter>,
    /// The sockets of an open API.
    listening: Option<Arc<Listening>>,
    files: Files,
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
        let news = loop {
            match files.news().await? {
                FileNews::Overdue(silence) => break FileNews::Off(silence, None),
                // Nothing is served yet that a pause could delay.
                FileNews::Taken(_) => {}
                FileNews::Settings(change) => emit(&Event::Settings(&change)),
                news => break news,
            }
        };
        let ready = Arc::new(ReadyReporter::new(Arc::clone(&emit)));
        let components = Components::start(&config, on_bus, &emit, &ready).await?;
        let mut gateway = Self { config, emit, components, ready, listening: None, files };
        gateway.follow(news);
        Ok(gateway)
    }

    /// Follows the settings and the signals until one asks to stop.
    async fn run(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        let ready = Arc::clone(&self.ready);
        let mut bus_started = pin!(timeout(BUS_START, ready.completed.notified()));
        let mut accepts_inherited = self.config.server.inherited.is_empty();
        let mut stats = self.config.stats_interval.map(|period| interval_at(Instant::now() + period, period));
        if let Some(stats) = &mut stats {
            stats.set_missed_tick_behavior(MissedTickBehavior::Skip);
        }
        let trust_anchor = self.config.certificate.as_ref().and_then(CertificateSource::trust_anchor);
        let mut refusals = Refusals::new(Arc::clone(&self.components.workers.refused), trust_anchor);
        loop {
            tokio::select! {
                action = signals.next() => match action {
                    SignalAction::Stop => return Ok(()),
                    SignalAction::PrintStats => self.emit_stats(),
                    SignalAction::PrintStatsAndSubscriptions => {
                        self.emit_stats();
                        self.components.bus.log_subscriptions();
                    }
                    SignalAction::Reload => self.files.reload.send_replace(()),
                },
                _ = or_never(stats.as_mut().map(Interval::tick)) => self.emit_stats(),
                _ = &mut bus_started, if !accepts_inherited => {
                    self.components.workers.change(|mode| mode.accepts_inherited = true);
                    accepts_inherited = true;
                }
                () = refusals.due() => {
                    let lines = refusals.lines(&self.components.workers.counters(), Instant::now());
                    lines.iter().for_each(|line| warning(format_args!("{line}")));
                }
                news = self.files.news() => self.follow(news?),
            }
        }
    }

    fn emit_stats(&self) {
        (self.emit)(&Event::Stats(self.components.stats()));
    }

    fn follow(&mut self, news: FileNews) {
        match news {
            FileNews::Open(opened) => self.open(opened),
            FileNews::Off(reason, to_switch_on) => self.close(&reason, to_switch_on),
            FileNews::Taken(error) => {
                log(format_args!("{error}: trying again for {} s", TAKEN_TIMEOUT.as_secs()));
                self.ready.set_listening(Err(Failure::listen(&error).to_string()));
            }
            FileNews::Settings(change) => (self.emit)(&Event::Settings(&change)),
            FileNews::Overdue(silence) => warning(format_args!("{silence}; what was read last stays in force")),
        }
    }

    fn open(&mut self, opened: Opened) {
        let (listening, is_https) = (Arc::clone(&opened.listening), opened.tls.is_some());
        self.components.workers.change(|mode| mode.opened = Some(opened));
        if self.listening.is_none() {
            let inherited = self.config.server.inherited.iter().map(|socket| &socket.address);
            listening.addresses().chain(inherited).for_each(|address| self.report_listening(address, is_https));
        }
        self.listening = Some(listening);
        self.ready.set_listening(Ok(()));
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
    fn close(&mut self, reason: &str, to_switch_on: Option<PathBuf>) {
        if self.ready.is_off(reason) {
            return;
        }
        if let Some(listening) = self.listening.take() {
            self.components.workers.change(Mode::close);
            listening.end_backlog();
            listening.close();
        }
        self.ready.set_off(reason);
        (self.emit)(&Event::Disabled { reason });
        match to_switch_on {
            None => warning(format_args!("not listening: {reason}")),
            Some(path) => {
                log(format_args!("not listening: {reason}"));
                let option = path_option("--settings", &path);
                log(format_args!("to switch the API on: adapter-gateway enable{option}"));
            }
        }
    }

    /// Closes the listeners, answers the requests in flight, and hands every accepted message to the bus. Returns the
    /// last event. If a failure ended the run, the caller of the run reports that after it.
    async fn stop(self, signals: &mut Signals, failure: Option<&Failure>) -> Option<Event<'static>> {
        match failure {
            Some(failure) => self.ready.set_listening(Err(failure.to_string())),
            None => self.ready.set_off("the gateway stops"),
        }
        // Nothing is opened any more. Who connects later would wait in a backlog that nobody looks at again.
        drop(self.files);
        let (stats, was_interrupted) = self.components.stop(self.listening, self.config.drain_timeout, signals).await;
        let undelivered = stats.accepted.saturating_sub(stats.published);
        if undelivered > 0 {
            let cause = if was_interrupted { ": stopped at the second signal" } else { " in time" };
            warning(format_args!("{undelivered} accepted messages could not be handed to the bus{cause}"));
        }
        match failure {
            None => Some(Event::Stopped { undelivered: NonZero::new(undelivered), stats }),
            Some(_) => (stats.accepted > 0).then_some(Event::Stats(stats)),
        }
    }
}
