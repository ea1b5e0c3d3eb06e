//! The listening sockets: from an endpoint to a socket, and whom it accepts.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, acceptfrom_with};

use crate::bus::config::{BusConfig, BusError, HubEndpoints};
use crate::bus::endpoint::Endpoint;
use crate::bus::liveness::keepalive;
use crate::bus::poller::{FIRST_TOKEN, Poller};
use crate::sys::listener::{UnixListener, is_of_connection, listen_at};
use crate::zmtp::SocketRole;

/// All peers may come back at once, and over TCP, one that finds no room waits for a second and more.
const BACKLOG: i32 = 1_024;
/// Bytes that the kernel holds for a TCP peer and has not sent yet, whose age is not known.
const UNSENT_BYTES: u32 = 128 * 1024;
/// The pause in accepting after an error: a peer that was refused comes back at once, or else the next attempt fails too.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where we listen, and for whom.
#[derive(Debug)]
pub(in crate::bus) struct Side {
    /// The endpoint in force: an address, the port that the kernel chose, the path of `ipc://*`.
    pub(in crate::bus) endpoint: Endpoint,
    /// What its peers do.
    pub(in crate::bus) peers: SocketRole,
    /// It is of the embedded hub, whose subscribers get what publishers send, too.
    pub(super) is_of_hub: bool,
}

pub(super) struct Listener {
    /// When that of an `ipc://` endpoint is dropped, its file is removed.
    socket: Box<dyn AsFd + Send>,
    pub(super) side: Arc<Side>,
    /// Somebody may wait to be accepted.
    pub(super) may_accept: bool,
}

/// The socket of a connection; over TCP, the address of its peer; and where it was accepted.
pub(super) type Accepted = (OwnedFd, Option<SocketAddr>, Arc<Side>);

#[derive(Default)]
pub(super) struct Listeners {
    pub(super) all: Vec<Listener>,
    /// A descriptor that is given up to refuse a peer.
    spare: Option<OwnedFd>,
    /// The time from which connections are accepted; `None` once the bus stops.
    pub(super) accepts_from: Option<Duration>,
}

impl Listeners {
    pub(super) fn open(config: &BusConfig, poller: &Poller) -> Result<Self, BusError> {
        let of_bind = config.bind.iter().map(|endpoint| (endpoint, SocketRole::Subscribes, false));
        let of_hub = config.hub.iter().flat_map(|HubEndpoints { publishers, subscribers }| {
            [(publishers, SocketRole::Publishes, true), (subscribers, SocketRole::Subscribes, true)]
        });
        let mut listeners = Vec::new();
        for (token, (endpoint, peers, is_of_hub)) in (FIRST_TOKEN..).zip(of_bind.chain(of_hub)) {
            let refused = if is_of_hub { BusError::Hub } else { BusError::Endpoint };
            let listener = listen(endpoint, peers, is_of_hub).map_err(|cause| refused(endpoint.clone(), cause))?;
            poller.add(listener.socket.as_fd(), token)?;
            listeners.push(listener);
        }
        Ok(Self { all: listeners, spare: spare(), accepts_from: Some(Duration::ZERO) })
    }

    pub(super) fn is_accepting(&self, now: Duration) -> bool {
        self.accepts_from.is_some_and(|from| from <= now)
    }

    /// Accepts a connection if there is one. After an error for lack of a descriptor, a connection was ended.
    pub(super) fn accept(&mut self, index: usize, now: Duration) -> Result<Option<Accepted>, (Errno, Arc<Side>)> {
        let is_accepting = self.is_accepting(now);
        let Some(listener) = self.all.get_mut(index).filter(|listener| listener.may_accept && is_accepting) else {
            return Ok(None);
        };
        match acceptfrom_with(&listener.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((socket, peer)) => {
                let address = peer.and_then(|peer| peer.try_into().ok());
                return Ok(Some((socket, address, Arc::clone(&listener.side))));
            }
            Err(Errno::AGAIN) => listener.may_accept = false,
            Err(error) if is_of_connection(error) => {}
            Err(error) => {
                // The kernel says so also where nobody waits. A peer that waits is refused with the spare descriptor.
                self.spare = None;
                let refused = accept_with(&listener.socket, SocketFlags::CLOEXEC).map(drop);
                self.spare = spare();
                listener.may_accept = refused != Err(Errno::AGAIN);
                if listener.may_accept {
                    self.accepts_from = Some(now + ACCEPT_PAUSE);
                    return Err((error, Arc::clone(&listener.side)));
                }
            }
        }
        Ok(None)
    }
}

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

/// Listens at an endpoint. Accepted TCP sockets have the options that are set here.
fn listen(endpoint: &Endpoint, peers: SocketRole, is_of_hub: bool) -> io::Result<Listener> {
    let (socket, bound): (Box<dyn AsFd + Send>, _) = match &endpoint.address {
        Some(address) => {
            let socket = listen_at(address.address_to_bind()?, true, BACKLOG, |socket| {
                socket.set_tcp_keepalive(&keepalive())?;
                socket.set_tcp_notsent_lowat(UNSENT_BYTES)
            })?;
            let bound = socket.local_addr()?.as_socket().map(Endpoint::at);
            (Box::new(socket), bound)
        }
        None => {
            let socket = open_ipc(endpoint.ipc_path())?;
            let bound = socket.path().and_then(Path::to_str).and_then(|path| format!("ipc://{path}").parse().ok());
            (Box::new(socket), bound)
        }
    };
    let endpoint = bound.unwrap_or_else(|| endpoint.clone());
    Ok(Listener { socket, side: Arc::new(Side { endpoint, peers, is_of_hub }), may_accept: true })
}

/// Listens at a path, at an abstract name after an `@`, or at any path for `*`.
fn open_ipc(name: &str) -> io::Result<UnixListener> {
    match name.strip_prefix('@') {
        Some("") => Err(io::Error::new(io::ErrorKind::InvalidInput, "an abstract name is not empty")),
        Some(name) => UnixListener::open_abstract(name.as_bytes(), BACKLOG),
        None if name == "*" => {
            let (directory, process) = (std::env::temp_dir(), std::process::id());
            let path = |number| directory.join(format!("adapter-gateway-{process}-{number}"));
            let open = |number| UnixListener::open(&path(number), BACKLOG);
            let opened = (1..=100).fold(open(0), |opened, number| opened.or_else(|_| open(number)));
            opened.map_err(|error| {
                let directory = directory.display();
                io::Error::new(
                    error.kind(),
                    format!("no socket can be made in {directory}: {error}; TMPDIR names another place"),
                )
            })
        }
        None => UnixListener::open(Path::new(name), BACKLOG),
    }
}

#[cfg(test)]
mod tests;
