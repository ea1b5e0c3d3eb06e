//! What a message passes on its way through the process: a worker, the bus and, if there is one, the embedded hub.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::bus::{Bus, BusEvent, Hub, HubCounters, MAX_PEERS, limit_payloads, limit_peers};
use crate::gateway::config::GatewayConfig;
use crate::gateway::events::{BusConnectivity, EndpointStats, Event, EventSink, HubStats, Stats};
use crate::gateway::failure::Failure;
use crate::gateway::ready::ReadyReporter;
use crate::gateway::signals::Signals;
use crate::log::log;
use crate::process::raise_descriptor_limit;
use crate::proto::message::Encoding;
use crate::proto::policy::Policy;
use crate::proto::token::Token;
use crate::server::listener::Listening;
use crate::server::workers::{IoBackend, Workers, WorkersConfig};
use crate::tls::acceptor::Acceptor;

/// The most of the drain time that is reserved for the bus: connections are cut off this long before the end.
const BUS_DRAIN: Duration = Duration::from_secs(1);

/// Descriptors that are not connections when there is one worker: the listeners, the ring, the bus, the standard streams
/// and the settings file.
const OTHER_DESCRIPTORS: u64 = 40;

/// Descriptors of each endpoint that the bus connects to: its connection, its socket and its monitor.
const ENDPOINT_DESCRIPTORS: u64 = 4;

/// Descriptors of the embedded hub without its peers.
const HUB_DESCRIPTORS: u64 = 16;

/// Where descriptors are scarce, peers of the bus get one of so many.
const PEER_SHARE: u64 = 5;

/// The least number of peers that descriptors are reserved for.
const FEWEST_PEERS: u64 = 24;

/// Descriptors of each further worker: its ring, and those with which tokio waits and is woken.
const WORKER_DESCRIPTORS: u64 = 5;

/// Descriptors of each further worker for each listener: its handle, and one accepted connection that waits until the
/// number of connections falls below the bound.
const LISTENER_DESCRIPTORS: u64 = 2;

/// The running workers, bus and embedded hub.
pub(super) struct MessagePath {
    workers: Workers,
    bus: Arc<Bus>,
    hub: Option<Hub>,
    started: Instant,
}

impl MessagePath {
    /// Starts the bus and the workers. The workers accept nothing before [`MessagePath::open`].
    pub(super) fn start(
        config: &GatewayConfig,
        hub: Option<Hub>,
        emit: EventSink,
        ready: &Arc<ReadyReporter>,
    ) -> Result<Self, Failure> {
        let connections = affordable_connections(config, hub.is_some());
        limit_payloads(largest_payload_bytes(&config.policy));
        let bus_ready = Arc::clone(ready);
        let emit_bus_event = move |event: BusEvent| {
            let (state, endpoint) = match &event {
                BusEvent::Connected { endpoint } => (BusConnectivity::Connected, endpoint),
                BusEvent::Disconnected { endpoint } => (BusConnectivity::Disconnected, endpoint),
            };
            emit(&Event::Bus { state, endpoint: endpoint.as_str() });
            bus_ready.bus_changed();
        };
        let bus = Arc::new(Bus::start(config.bus.clone(), emit_bus_event).map_err(Failure::configuration)?);
        ready.set_publisher(bus.publisher());
        let workers_config = WorkersConfig {
            io: config.io,
            workers: config.workers,
            policy: config.policy.clone(),
            timeouts: config.timeouts,
            buffered_bytes: config.buffered_bytes,
            connections,
        };
        let workers = Workers::start(&workers_config, &bus.publisher())?;
        Ok(Self { workers, bus, hub, started: Instant::now() })
    }

    /// Accepts requests on these sockets, with this token, and in TLS if there is an acceptor. The token is in force
    /// when this returns.
    pub(super) fn open(&self, listening: Arc<Listening>, token: Token, tls: Option<Arc<Acceptor>>) {
        self.workers.open(listening, token, tls);
    }

    /// Accepts no more requests from when this returns.
    pub(super) fn close(&self) {
        self.workers.close();
    }

    /// Returns how the workers wait for sockets.
    pub(super) fn io(&self) -> IoBackend {
        self.workers.io()
    }

    /// Returns the counters since the start.
    pub(super) fn stats(&self) -> Stats {
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
            failed_handshakes: http.failed_handshakes,
            accepted: bus.accepted,
            published: bus.published,
            unknown_topics: http.unknown_topics,
            queue_depth: bus.depth,
            queue_high_water: bus.high_water,
            queue_bytes: bus.bytes as u64,
            pipe_full: bus.pipe_full,
            bytes_in: http.bytes_in,
            bytes_out: http.bytes_out,
            connections: http.connections,
            connections_accepted: http.connections_accepted,
            endpoints: endpoints.collect(),
            hub: self.hub.as_ref().map(|hub| hub_stats(hub.counters())),
        }
    }

    /// Answers the requests in flight, hands every accepted message to libzmq, stops the hub, and returns the counters
    /// at the end. All of it takes `timeout` at most, and a second signal to stop ends it at once.
    pub(super) async fn stop(mut self, timeout: Duration, signals: &mut Signals) -> Stats {
        let deadline = Instant::now() + timeout;
        let bus_share = BUS_DRAIN.min(timeout / 2);
        let in_time = tokio::select! {
            () = self.workers.drain(deadline - bus_share) => true,
            () = signals.stop() => false,
        };
        if !in_time {
            self.workers.drain(Instant::now()).await;
        }
        let time_left = || if in_time { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
        // The messages that the bus sends last must pass through the hub before the same deadline.
        let hub_share = if self.hub.is_some() { time_left() / 2 } else { Duration::ZERO };
        let hub_timeout = tokio::select! {
            () = stop_bus(Arc::clone(&self.bus), time_left().saturating_sub(hub_share)) => time_left(),
            // The process then ends while the bus thread still runs: libzmq has no call that interrupts a send.
            () = signals.stop() => Duration::ZERO,
        };
        let hub = self.hub.take().map(|hub| hub.stop(hub_timeout));
        Stats { hub: hub.map(hub_stats), ..self.stats() }
    }
}

/// Raises the soft limit of descriptors as far as needed and possible, and divides it: limits the peers at the bound
/// endpoints, and returns the number of connections that fits under it. Without a descriptor nothing can be accepted, and
/// nothing else can be opened.
fn affordable_connections(config: &GatewayConfig, has_hub: bool) -> usize {
    let wanted = config.max_connections;
    let wanted_peers = if has_hub || !config.bus.bind.is_empty() { MAX_PEERS as u64 } else { 0 };
    let listeners = (config.listen.len() + config.listen_optional.len()) as u64;
    let further_workers = config.workers.saturating_sub(1) as u64;
    let others = OTHER_DESCRIPTORS
        + further_workers * (WORKER_DESCRIPTORS + LISTENER_DESCRIPTORS * listeners)
        + ENDPOINT_DESCRIPTORS * config.bus.connect.len() as u64
        + if has_hub { HUB_DESCRIPTORS } else { 0 };
    let limit = raise_descriptor_limit(wanted.saturating_add(others + wanted_peers));
    let free = limit.saturating_sub(others);
    let peers = (free / PEER_SHARE).max(FEWEST_PEERS).min(wanted_peers);
    let possible = free.saturating_sub(peers).max(1);
    if peers < wanted_peers {
        log(format_args!("at most {peers} peers of the bus, since the limit of descriptors is {limit}"));
    }
    if possible < wanted {
        log(format_args!("at most {possible} connections, since the limit of descriptors is {limit}"));
    }
    limit_peers(usize::try_from(peers).unwrap_or(usize::MAX));
    usize::try_from(possible.min(wanted)).unwrap_or(usize::MAX)
}

/// Returns how long a published payload can be.
fn largest_payload_bytes(policy: &Policy) -> u64 {
    match policy.encoding {
        Encoding::Json => policy.body_bytes,
        // A list of `1e9` has four bytes for each in JSON, and nine in MessagePack.
        Encoding::Msgpack => policy.body_bytes.saturating_mul(9) / 4,
    }
}

fn hub_stats(counters: HubCounters) -> HubStats {
    HubStats { forwarded: counters.forwarded, pipe_full: counters.pipe_full }
}

/// Stops the bus on a thread of its own, so that this thread still handles signals meanwhile.
async fn stop_bus(bus: Arc<Bus>, timeout: Duration) {
    let (sender, stopped) = oneshot::channel();
    let stop = {
        let bus = Arc::clone(&bus);
        move || {
            // The receiver is gone after a second signal to stop.
            let _ = sender.send(bus.stop(timeout));
        }
    };
    if std::thread::Builder::new().name("bus-stop".into()).spawn(stop).is_err() || stopped.await.is_err() {
        bus.stop(timeout);
    }
}
