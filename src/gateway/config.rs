//! The configuration of a run, and the division of the descriptors that the process may have.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::bus::{BusConfig, HubEndpoints, MAX_PEERS};
use crate::gateway::failure::Failure;
use crate::server::listener::{BoundAddress, ListenTarget};
use crate::server::pool::ServerConfig;
use crate::sys::log::warning;
use crate::sys::process::{check_free_descriptors, raise_descriptor_limit};
use crate::terms::token::Token;
use crate::tls::source::CertificateSource;

/// Descriptors for other things than connections with one worker: listeners, ring, bus, standard streams, and files.
const OTHER_DESCRIPTORS: u64 = 48;

/// Descriptors of each dialled endpoint: its connection, a probe, and two for its socket and each end of its monitor.
const ENDPOINT_DESCRIPTORS: u64 = 8;

/// Where descriptors are scarce, one of so many is reserved for peers of the bus, and the fewest peers in any case.
const PEER_DIVISOR: u64 = 5;
const FEWEST_PEERS: u64 = 24;

/// Descriptors of each further worker: its ring, and those with which tokio waits and is woken.
const WORKER_DESCRIPTORS: u64 = 5;

/// Descriptors of each further worker for each listener: its handle, and a connection that the ring still holds.
const LISTENER_DESCRIPTORS: u64 = 2;

/// How the gateway runs. All values were checked when the arguments were parsed.
pub(crate) struct GatewayConfig {
    pub(crate) listen: Vec<ListenTarget>,
    /// Where the gateway listens if one of `listen` is taken; `None` if that refuses the start.
    pub(crate) other_listen: Option<Vec<ListenTarget>>,
    /// `None` for plain http. Unix sockets speak http in any case.
    pub(crate) certificate: Option<CertificateSource>,
    pub(crate) server: ServerConfig,
    /// The bound on the time from the request to stop to the end of the process.
    pub(crate) drain_timeout: Duration,
    pub(crate) bus: BusConfig,
    /// Where the embedded hub is bound if one of its endpoints is taken; `None` if that refuses the start.
    pub(crate) other_hub: Option<HubEndpoints>,
    pub(crate) watch_stdin: bool,
    pub(crate) watch_parent: bool,
    /// Whether SIGHUP, which a terminal sends when it is closed, asks to stop and not to reload. It then does neither
    /// if the process was started with SIGHUP ignored, as by nohup(1).
    pub(crate) stops_at_hangup: bool,
    pub(crate) stats_interval: Option<Duration>,
}

impl GatewayConfig {
    /// Returns the addresses that it is to listen on, and those of inherited sockets.
    pub(crate) fn tcp_addresses(&self) -> Vec<SocketAddr> {
        let own = self.listen.iter().flat_map(ListenTarget::addresses).copied();
        let inherited = self.server.inherited.iter().filter_map(|socket| match socket.address {
            BoundAddress::Tcp(address) => Some(address),
            BoundAddress::Unix(_) => None,
        });
        own.chain(inherited).collect()
    }

    /// Raises the soft limit of descriptors, and divides it between peers of the bus and connections. Some libraries panic
    /// if they get none, so it is checked first that those can be opened that the gateway needs without any client.
    pub(super) fn divide_descriptors(&mut self) -> Result<(), Failure> {
        let wanted = self.server.max_connections;
        let wanted_peers = if self.bus.bind.is_empty() && self.bus.hub.is_none() { 0 } else { MAX_PEERS as u64 };
        let own: usize = self.listen.iter().map(|target| target.addresses().len().max(1)).sum();
        let listeners = own + self.server.inherited.len();
        let further_workers = self.server.workers.get() as u64 - 1;
        let others = OTHER_DESCRIPTORS
            + further_workers * (WORKER_DESCRIPTORS + LISTENER_DESCRIPTORS * listeners as u64)
            + ENDPOINT_DESCRIPTORS * self.bus.connect.len() as u64;
        let limit = raise_descriptor_limit();
        let needed = format!("open {others} descriptors, which the gateway needs");
        check_free_descriptors(others).map_err(Failure::cannot(&needed))?;
        let free = limit.saturating_sub(others);
        let peers = (free / PEER_DIVISOR).max(FEWEST_PEERS).min(wanted_peers);
        let possible = free.saturating_sub(peers).max(1);
        for (what, most, wanted) in [("peers of the bus", peers, wanted_peers), ("connections", possible, wanted)] {
            if most < wanted {
                warning(format_args!("at most {most} {what}, since the limit of descriptors is {limit}"));
            }
        }
        self.bus.max_peers = usize::try_from(peers).unwrap_or(usize::MAX);
        self.server.max_connections = possible.min(wanted);
        Ok(())
    }
}

pub(crate) enum TokenSource {
    SettingsFile(PathBuf),
    Fixed(Token),
}
