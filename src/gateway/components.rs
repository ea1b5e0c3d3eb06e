//! The running components, which a message passes: the workers and the bus.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::bus::{Bus, BusConfig, BusError, BusEvent, Endpoint, HubEndpoints, LostSubscriber, NotConnected};
use crate::gateway::config::GatewayConfig;
use crate::gateway::events::{BusEndpointState, Event, EventSink, Stats};
use crate::gateway::failure::Failure;
use crate::gateway::request_log::log_unknown_topics;
use crate::gateway::signals::Signals;
use crate::server::listener::Listening;
use crate::server::pool::WorkerPool;
use crate::sys::log::{log, warning};
use crate::sys::on_thread;
use crate::terms::HUB_CURE;
use crate::terms::noted_topics::shown_topic;

/// The most of the drain time that is reserved for the bus: connections are cut off this long before the end.
const BUS_DRAIN: Duration = Duration::from_secs(1);

/// The most of the drain time, and a tenth at most, that is reserved for what follows: the last event is written.
const END: Duration = Duration::from_millis(100);

/// The longest wait for the connections that are cut off at the end, and for each removal of files of sockets.
const CUT_OFF_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) struct Components {
    pub(super) workers: WorkerPool,
    pub(super) bus: Bus,
    /// Notified when the bus has reported a change.
    pub(super) bus_changed: Arc<Notify>,
    started: Instant,
}

impl Components {
    /// Starts the bus and the workers, and calls `on_bus` between the two. The workers accept nothing before they are
    /// opened. The bus is started on a thread of its own, as names, folders and locks may hold that up.
    pub(super) async fn start(
        config: &Arc<GatewayConfig>,
        on_bus: impl FnOnce(&Bus) -> Result<(), Failure>,
        emit: &EventSink,
    ) -> Result<Self, Failure> {
        let bus_changed = Arc::<Notify>::default();
        let (for_bus, bus_emit, changed) = (Arc::clone(config), Arc::clone(emit), Arc::clone(&bus_changed));
        let starting = on_thread("start", move || start_bus(&for_bus, &bus_emit, &changed));
        let started = starting.map_err(Failure::cannot("start a thread"))?.await;
        let bus = started.map_err(Failure::configuration)?.map_err(Failure::configuration)?;
        report_bound(&bus, config.bus.hub.is_some(), emit);
        on_bus(&bus)?;
        let workers = WorkerPool::start(&config.server, &bus.publisher(), &log_unknown_topics())?;
        Ok(Self { workers, bus, bus_changed, started: Instant::now() })
    }

    pub(super) fn stats(&self) -> Stats {
        let (bus, workers) = (self.bus.counters(), self.workers.counters());
        debug_assert_eq!(bus.accepted, bus.published + bus.queue_depth, "each accepted message waits or is published");
        Stats { uptime_s: self.started.elapsed().as_secs(), connections: workers.connections(), workers, bus }
    }

    /// Lets nobody connect to these sockets any more, answers the requests in flight, and hands every accepted message
    /// over, for `timeout` at most or until a second signal to stop. Returns the counters, and whether that came.
    pub(super) async fn stop(
        self,
        listening: Option<Arc<Listening>>,
        timeout: Duration,
        signals: &mut Signals,
    ) -> (Stats, bool) {
        let deadline = Instant::now() + timeout.saturating_sub(END.min(timeout / 10));
        let for_bus = BUS_DRAIN.min(timeout / 2);
        let was_interrupted = tokio::select! {
            () = async {
                if let Some(listening) = listening {
                    listening.end_backlog();
                    remove_in_time(Box::new(move || listening.remove_files())).await;
                }
                self.workers.drain(deadline - for_bus).await;
                self.bus.close(deadline.saturating_duration_since(Instant::now()));
                self.bus.ended().await;
            } => false,
            () = sleep_until(deadline.into()) => false,
            () = signals.stop() => true,
        };
        let _ = tokio::time::timeout(CUT_OFF_TIMEOUT, self.workers.drain(Instant::now())).await;
        // A thread that still runs is left behind: libzmq has no call that interrupts another one.
        self.bus.stop(Duration::ZERO);
        (self.stats(), was_interrupted)
    }
}

/// Removes files of Unix sockets. Their folder may not answer, so a thread of its own does so, and this waits for it for
/// [`CUT_OFF_TIMEOUT`] at most. The function is boxed, so that the program has this code once.
pub(super) async fn remove_in_time(remove: Box<dyn FnOnce() + Send>) {
    if let Ok(removed) = on_thread("files", remove) {
        let _ = tokio::time::timeout(CUT_OFF_TIMEOUT, removed).await;
    }
}

fn start_bus(config: &GatewayConfig, emit: &EventSink, changed: &Arc<Notify>) -> Result<Bus, BusError> {
    let start = |hub: Option<&HubEndpoints>| {
        let bus_config = BusConfig { hub: hub.cloned(), ..config.bus.clone() };
        let (emit, changed) = (Arc::clone(emit), Arc::clone(changed));
        Bus::start(bus_config, move |event| {
            emit_bus_event(&emit, event);
            changed.notify_one();
        })
    };
    match (start(config.bus.hub.as_ref()), &config.other_hub) {
        (Err(_), Some(other_hub)) => start(Some(other_hub)),
        (started, _) => started,
    }
}

fn emit_bus_event(emit: &EventSink, event: BusEvent) {
    match event {
        BusEvent::Link(endpoint, Ok(())) => {
            log(format_args!("connected to {endpoint}"));
            emit(&Event::Bus { state: BusEndpointState::Connected, endpoint: endpoint.as_str(), reason: None });
        }
        BusEvent::Link(endpoint, Err(reason)) => {
            let [separator, cure] = if reason == NotConnected::Refused { ["; ", HUB_CURE] } else { [""; 2] };
            warning(format_args!("not connected to {endpoint}: {reason}{separator}{cure}"));
            let (state, reason) = (BusEndpointState::Disconnected, reason.to_string());
            emit(&Event::Bus { state, endpoint: endpoint.as_str(), reason: Some(&reason) });
        }
        BusEvent::Unsubscribed { endpoint, topic, is_taken } => {
            let place = endpoint.as_ref().map_or("the bound endpoints", Endpoint::as_str);
            let (topic, except) = (shown_topic(&topic), if is_taken { ", except to everything" } else { "" });
            log(format_args!("nobody subscribes to the topic \"{topic}\" at {place} so far{except}"));
        }
        BusEvent::LostSubscriber(LostSubscriber { endpoint, peer, reason, lost_messages: lost }) => {
            let (state, endpoint) = (BusEndpointState::Disconnected, endpoint.as_str());
            emit(&Event::Subscriber { state, endpoint, peer: &peer, reason: &reason, lost });
        }
    }
}

/// Reports the endpoints that are bound. Those of the hub are the last two.
fn report_bound(bus: &Bus, has_hub: bool, emit: &EventSink) {
    for endpoint in bus.bound() {
        emit(&Event::Bus { state: BusEndpointState::Bound, endpoint: endpoint.as_str(), reason: None });
    }
    let (bind, hub) = bus.bound().split_at(bus.bound().len().saturating_sub(if has_hub { 2 } else { 0 }));
    bind.iter().for_each(|endpoint| log(format_args!("subscribers may connect to {endpoint}")));
    if let [publishers, subscribers] = hub {
        log(format_args!("publishers may connect to {publishers}, subscribers to {subscribers}"));
    }
}
