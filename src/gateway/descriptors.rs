//! How many descriptors the gateway needs, and how those that it may have are divided.

use crate::bus::{MAX_PEERS, limit_peers};
use crate::gateway::config::GatewayConfig;
use crate::gateway::failure::Failure;
use crate::sys::log::warning;
use crate::sys::process::{check_free_descriptors, raise_descriptor_limit};

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

/// Raises the soft limit of descriptors as far as needed and possible, and divides it: limits the peers at the bound
/// endpoints, and returns the number of connections that fits under it. Without a descriptor nothing can be accepted, and
/// nothing else can be opened.
///
/// # Errors
/// Those that are needed whatever connects cannot be opened. Some libraries panic where they cannot, so this is asked
/// before they are used.
pub(super) fn divide(config: &GatewayConfig, has_hub: bool) -> Result<u64, Failure> {
    let wanted = config.server.max_connections;
    let sockets = u64::from(has_hub) + u64::from(!config.bus.bind.is_empty());
    let wanted_peers = MAX_PEERS as u64 * sockets;
    let listeners = config.listeners() as u64;
    let further_workers = config.server.workers.saturating_sub(1) as u64;
    let others = OTHER_DESCRIPTORS
        + further_workers * (WORKER_DESCRIPTORS + LISTENER_DESCRIPTORS * listeners)
        + ENDPOINT_DESCRIPTORS * config.bus.connect.len() as u64
        + if has_hub { HUB_DESCRIPTORS } else { 0 };
    let limit = raise_descriptor_limit(wanted.saturating_add(others + wanted_peers));
    check_free_descriptors(others).map_err(|error| {
        Failure::Configuration(format!("cannot open {others} descriptors, which the gateway needs: {error}"))
    })?;
    let free = limit.saturating_sub(others);
    let peers = (free / PEER_SHARE).max(FEWEST_PEERS).min(wanted_peers);
    let possible = free.saturating_sub(peers).max(1);
    if peers < wanted_peers {
        warning(format_args!("at most {peers} peers of the bus, since the limit of descriptors is {limit}"));
    }
    if possible < wanted {
        warning(format_args!("at most {possible} connections, since the limit of descriptors is {limit}"));
    }
    limit_peers(usize::try_from(peers / sockets.max(1)).unwrap_or(usize::MAX));
    Ok(possible.min(wanted))
}
