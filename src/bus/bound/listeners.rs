//! The listening sockets, and whom they accept.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::listener::{BoundListener, listen};
use crate::bus::config::{BusConfig, BusError, HubEndpoints};
use crate::bus::poller::{FIRST_TOKEN, Poller};
use crate::zmtp::SocketRole;

/// The pause in accepting after the process had no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Listener {
    pub(super) bound: BoundListener,
    /// What its peers do.
    pub(super) peers: SocketRole,
    /// Its subscribers hear what publishers send, too.
    pub(super) hears_publishers: bool,
    may_accept: bool,
}

pub(super) enum Accepted {
    Connection(OwnedFd),
    Nobody,
    /// No descriptor is left, so a connection was ended.
    Refused,
}

pub(super) struct Listeners {
    pub(super) all: Vec<Listener>,
    /// A descriptor that is given up to refuse a peer.
    spare: Option<OwnedFd>,
    /// Nobody is accepted before.
    pub(super) paused_until: Duration,
}

impl Listeners {
    pub(super) fn open(config: &BusConfig, poller: &Poller) -> Result<Self, BusError> {
        let of_bind = config.bind.iter().map(|endpoint| (endpoint, SocketRole::Subscribes, false));
        let of_hub = config.hub.iter().flat_map(|HubEndpoints { publishers, subscribers }| {
            [(publishers, SocketRole::Publishes, false), (subscribers, SocketRole::Subscribes, true)]
        });
        let mut listeners = Vec::new();
        for (token, (endpoint, peers, hears_publishers)) in (FIRST_TOKEN..).zip(of_bind.chain(of_hub)) {
            let is_of_hub = hears_publishers || peers == SocketRole::Publishes;
            let bound = listen(endpoint).map_err(|cause| match is_of_hub {
                true => BusError::about_hub(endpoint, &cause),
                false => BusError::about(endpoint)(cause),
            })?;
            poller.watch(bound.as_fd(), token)?;
            listeners.push(Listener { bound, peers, hears_publishers, may_accept: true });
        }
        Ok(Self { all: listeners, spare: spare(), paused_until: Duration::ZERO })
    }

    /// Returns the token for the poller that no listener has, nor one below it.
    pub(super) fn next_token(&self) -> u64 {
        FIRST_TOKEN + self.all.len() as u64
    }

    pub(super) fn on_ready(&mut self, token: u64) {
        let index = usize::try_from(token - FIRST_TOKEN).unwrap_or(usize::MAX);
        if let Some(listener) = self.all.get_mut(index) {
            listener.may_accept = true;
        }
    }

    pub(super) fn may_accept(&self, now: Duration) -> bool {
        now >= self.paused_until && self.all.iter().any(|listener| listener.may_accept)
    }

    pub(super) fn deadline(&self, now: Duration) -> Option<Duration> {
        Some(self.paused_until).filter(|until| (now..Duration::MAX).contains(until))
    }

    pub(super) fn accept(&mut self, index: usize, now: Duration) -> Accepted {
        let is_paused = now < self.paused_until;
        let Some(listener) = self.all.get_mut(index).filter(|listener| listener.may_accept && !is_paused) else {
            return Accepted::Nobody;
        };
        match accept_with(&listener.bound, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(connection) => return Accepted::Connection(connection),
            Err(Errno::AGAIN) => listener.may_accept = false,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                // The kernel says so also where nobody waits. With the descriptor that is given up, a peer that waits can be
                // refused. It would come back at once, so this is paced.
                self.spare = None;
                let refused = accept_with(&listener.bound, SocketFlags::CLOEXEC).map(drop);
                self.spare = spare();
                listener.may_accept = refused != Err(Errno::AGAIN);
                if listener.may_accept {
                    self.paused_until = now + ACCEPT_PAUSE;
                    return Accepted::Refused;
                }
            }
            // accept(2) returns the errors of the connection, so the next one may be accepted.
            Err(_) => {}
        }
        Accepted::Nobody
    }
}

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}
