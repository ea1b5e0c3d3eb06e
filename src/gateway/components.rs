//! The running components, which a message passes: the workers, the bus and, if there is one, the embedded hub.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep_until;

use crate::bus::{Bus, BusEvent, Hub, HubCounters, OnLost, SubscriptionCounters, guard_counters, limit_payloads};
use crate::gateway::config::GatewayConfig;
use crate::gateway::events::{Connectivity, Event, EventSink, Stats};
use crate::gateway::failure::Failure;
use crate::gateway::ready::ReadyReporter;
use crate::gateway::signals::Signals;
use crate::http::counters::HttpTotals;
use crate::http::policy::Policy;
use crate::message::Encoding;
use crate::server::pool::WorkerPool;
use crate::sys::log::{log, warning};

/// The most of the drain time that is reserved for the bus: connections are cut off this long before the end.
const BUS_DRAIN: Duration = Duration::from_secs(1);

/// The part of the drain time that is kept for what follows when the time of the bus and the hub is over: their threads
/// are joined, and the last event is written. At most a tenth of the drain time is kept.
const END_SHARE: Duration = Duration::from_millis(100);

/// How long connections that are cut off at the end get to be closed.
const CUT_OFF_TIMEOUT: Duration = Duration::from_millis(200);

/// The running workers, bus and embedded hub.
pub(super) struct Components {
    pub(super) workers: WorkerPool,
    bus: Arc<Bus>,
    hub: Option<Arc<Hub>>,
    started: Instant,
}

impl Components {
    /// Starts the embedded hub, the bus and the workers. The workers accept nothing before they are opened.
    pub(super) fn start(
        config: &GatewayConfig,
        start_hub: Option<impl FnOnce(OnLost) -> Result<Hub, Failure>>,
        emit: EventSink,
        ready: &Arc<ReadyReporter>,
    ) -> Result<Self, Failure> {
        limit_payloads(largest_payload_bytes(&config.server.policy));
        let emit_lost = Arc::clone(&emit);
        let on_lost: OnLost = Arc::new(move |lost| {
            let (state, reason) = (Connectivity::Disconnected, lost.to_string());
            emit_lost(&Event::Subscriber {
                state,
                endpoint: &lost.endpoint,
                reason: &reason,
                lost: lost.lost_messages,
            });
        });
        let (bus_ready, bus_on_lost) = (Arc::clone(ready), Arc::clone(&on_lost));
        let emit_bus_event = move |event: BusEvent| {
            match event {
                BusEvent::Connected { endpoint } => {
                    log(format_args!("connected to {endpoint}"));
                    emit(&Event::Bus { state: Connectivity::Connected, endpoint: endpoint.as_str(), reason: None });
                }
                BusEvent::Disconnected { endpoint, reason } => {
                    warning(format_args!("not connected to {endpoint}: {reason}"));
                    let (state, reason) = (Connectivity::Disconnected, reason.to_string());
                    emit(&Event::Bus { state, endpoint: endpoint.as_str(), reason: Some(&reason) });
                }
                BusEvent::LostSubscriber(lost) => bus_on_lost(lost),
            }
            bus_ready.bus_changed();
        };
        let hub = start_hub.map(|start| start(on_lost)).transpose()?.map(Arc::new);
        let mut bus_config = config.bus.clone();
        bus_config.connect.extend(hub.as_ref().map(|hub| hub.publishers().clone()));
        let bus = Arc::new(Bus::start(bus_config, emit_bus_event).map_err(Failure::configuration)?);
        ready.set_publisher(bus.publisher(), !config.bus.bind.is_empty());
        let workers = WorkerPool::start(&config.server, &bus.publisher())?;
        Ok(Self { workers, bus, hub, started: Instant::now() })
    }

    /// Returns the counters since the start.
    pub(super) fn stats(&self) -> Stats {
        let bus = self.bus.counters();
        let HttpTotals { requests, messages, traffic, connections } = self.workers.totals();
        let hub = self.hub.as_ref().map(|hub| hub.counters());
        let known = combined(bus.bound, hub.map(|hub| hub.downstream));
        Stats {
            uptime_s: self.started.elapsed().as_secs(),
            requests,
            accepted: bus.accepted,
            published: bus.published,
            messages,
            queue: bus.queue,
            traffic,
            connections,
            subscriptions: known.map(|known| known.subscriptions),
            unsubscribed: known.map(|known| known.unsubscribed),
            endpoints: bus.endpoints,
            peers: guard_counters(),
            hub,
        }
    }

    /// Asks the bus and the hub to log the subscriptions that they know of.
    pub(super) fn log_subscriptions(&self) {
        self.bus.log_subscriptions();
        if let Some(hub) = &self.hub {
            hub.log_subscriptions();
        }
    }

    /// Answers the requests in flight, hands every accepted message to libzmq, stops the hub, and returns the counters
    /// at the end. All of it takes `timeout` at most, and a second signal to stop ends it at once.
    pub(super) async fn stop(mut self, timeout: Duration, signals: &mut Signals) -> Stats {
        let deadline = Instant::now() + timeout.saturating_sub(END_SHARE.min(timeout / 10));
        let bus_share = BUS_DRAIN.min(timeout / 2);
        let (bus, hub) = (Arc::clone(&self.bus), self.hub.clone());
        let in_time = tokio::select! {
            () = async {
                self.workers.drain(deadline - bus_share).await;
                stop_bus_and_hub(bus, hub, deadline).await;
            } => true,
            () = sleep_until((deadline + END_SHARE).into()) => false,
            () = signals.stop() => false,
        };
        if !in_time {
            let _ = tokio::time::timeout(CUT_OFF_TIMEOUT, self.workers.drain(Instant::now())).await;
            // What still runs is left behind: libzmq has no call that interrupts another one.
            stop_until(&self.bus, self.hub.as_deref(), Instant::now());
        }
        let mut stats = self.stats();
        stats.published = stats.published.saturating_sub(self.lost_in_hub(stats.published));
        stats
    }

    /// Returns how many of the messages that were published have not left the hub, at most. Where there is another
    /// endpoint, that one has them.
    fn lost_in_hub(&self, published: u64) -> u64 {
        match self.hub.as_ref().map(|hub| hub.counters()) {
            Some(HubCounters { own, waiting, .. }) if self.bus.counters().endpoints.len() == 1 => {
                published.saturating_sub(own) + waiting.min(own)
            }
            _ => 0,
        }
    }
}

/// Returns how long a published payload can be.
fn largest_payload_bytes(policy: &Policy) -> u64 {
    match policy.encoding {
        Encoding::Json => policy.body_bytes,
        // A list of `1e9` has four bytes for each in JSON, and nine in MessagePack.
        Encoding::Msgpack => policy.body_bytes.saturating_mul(9) / 4,
    }
}

/// Returns what the bus and the hub together know of subscriptions. A message matched none if it matched at neither place.
/// The two do not compare their messages, so the smaller count is the nearest that is known.
fn combined(bus: Option<SubscriptionCounters>, hub: Option<SubscriptionCounters>) -> Option<SubscriptionCounters> {
    let (Some(one), Some(other)) = (bus, hub) else { return bus.or(hub) };
    Some(SubscriptionCounters {
        subscriptions: one.subscriptions + other.subscriptions,
        unsubscribed: one.unsubscribed.min(other.unsubscribed),
    })
}

/// Stops the bus and then the hub on a thread of its own, so that this thread still handles signals meanwhile.
async fn stop_bus_and_hub(bus: Arc<Bus>, hub: Option<Arc<Hub>>, deadline: Instant) {
    let (sender, stopped) = oneshot::channel();
    let (stopping_bus, stopping_hub) = (Arc::clone(&bus), hub.clone());
    let stop = move || {
        stop_until(&stopping_bus, stopping_hub.as_deref(), deadline);
        // The receiver is gone after a second signal to stop.
        let _ = sender.send(());
    };
    if std::thread::Builder::new().name("stop".into()).spawn(stop).is_err() || stopped.await.is_err() {
        stop_until(&bus, hub.as_deref(), deadline);
    }
}

/// Stops the bus and then the hub. Takes until shortly after `deadline` at most, whatever libzmq does.
fn stop_until(bus: &Bus, hub: Option<&Hub>, deadline: Instant) {
    let time_left = || deadline.saturating_duration_since(Instant::now());
    let Some(hub) = hub else {
        bus.stop(time_left());
        return;
    };
    // The messages that the bus sends last must pass through the hub before the same deadline.
    bus.stop(time_left() / 2);
    hub.stop(time_left());
}
