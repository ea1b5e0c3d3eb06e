//! The state of the link to one endpoint, without a socket and a clock: what is to be reported and done next.

use std::fmt;
use std::time::{Duration, Instant};

use crate::bus::liveness::HAS_VANISHED;
use crate::mark::mark;
use crate::zmtp::{PeerFault, SocketRole};

/// How long after its handshake an endpoint counts as connected, unless its subscription has arrived before, or twice as
/// long as the handshake took, if that is longer. A subscription follows the handshake within microseconds on the same
/// machine, and within one round trip elsewhere, in both directions: ZeroMQ does not acknowledge ours. A hub that
/// subscribes to nothing must not lead to answers of 503.
const SUBSCRIPTION_GRACE: Duration = Duration::from_millis(250);

/// How long after the loss of a connection libzmq may take to announce that it connects again. It announces each
/// attempt at once, except after a protocol error: then it forgets the endpoint.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// How long the first attempt may take before a status is due. A parent gets it within a second of the start.
const FIRST_STATUS_AFTER: Duration = Duration::from_millis(750);

/// The pause between two probes of an endpoint that is not connected.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// Whether an endpoint counts as connected, and why it does not.
pub type LinkStatus = Result<(), NotConnected>;

/// Why an endpoint does not count as connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotConnected {
    /// The name has no address, with the reason of the system.
    Unresolved(String),
    /// Nothing listens there.
    Refused,
    /// The system cannot connect, with its reason.
    Unreachable(String),
    /// There is no answer.
    Silent,
    /// The connection was closed.
    Closed,
    /// The machine behind the connection, or the own address, is there no more.
    Vanished,
    /// It is the hub of this gateway.
    Own,
    /// What listens there does not fit.
    Unfit(PeerFault),
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved(reason) => write!(f, "the name cannot be resolved: {reason}"),
            Self::Refused => f.write_str("connection refused, nothing listens there"),
            Self::Unreachable(reason) => f.write_str(reason),
            Self::Silent => f.write_str("no answer"),
            Self::Closed => f.write_str("the connection was closed"),
            Self::Vanished => write!(f, "the other side {HAS_VANISHED}"),
            Self::Own => f.write_str("it is the hub of this gateway itself, so --connect is to be left out"),
            Self::Unfit(PeerFault::SocketType(kind)) => {
                let side = match SocketRole::of_type(kind) {
                    Some(SocketRole::Subscribes) => "the publishers' side of a hub",
                    Some(SocketRole::Publishes) => "the subscribers' side of a hub",
                    None => "another ZeroMQ socket",
                };
                write!(f, "{side} listens there (a socket of type {kind})")
            }
            Self::Unfit(fault) => write!(f, "what listens there {fault}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkEvent {
    Connected,
    Handshake,
    /// The handshake was that of this gateway's own hub. Nothing that follows counts.
    Own,
    Subscription,
    Lost(NotConnected),
    /// libzmq will connect again by itself, or was given another address.
    Retrying,
    /// A probe has ended.
    Probed(LinkStatus),
}

#[derive(Debug)]
pub(super) struct LinkState {
    phase: LinkPhase,
    is_subscribed: bool,
    reported: Option<LinkStatus>,
    /// When a status is due if there is none yet.
    status_due: Instant,
    /// When a probe is due if there is no connection then; `None` while one runs.
    probe_due: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkPhase {
    /// There is no connection, and libzmq tries to connect.
    Connecting,
    Lost(Instant),
    /// There is a connection, since then.
    Shaking(Instant),
    /// The end of the grace for the first subscription.
    HandshakeDone(Instant),
    Own,
}

impl LinkState {
    /// A name is looked up by a probe, so the first one is due at once where there is a name.
    pub(super) fn new(is_named: bool, now: Instant) -> Self {
        let status_due = now + FIRST_STATUS_AFTER;
        let probe_due = Some(if is_named { now } else { status_due });
        Self { phase: LinkPhase::Connecting, is_subscribed: false, reported: None, status_due, probe_due }
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.reported, Some(Ok(())))
    }

    /// Updates the state with an event that was read at `now`. Returns the status if there is a new one to report.
    pub(super) fn on_event(&mut self, event: LinkEvent, now: Instant) -> Option<LinkStatus> {
        match event {
            _ if self.phase == LinkPhase::Own => return None,
            LinkEvent::Connected => self.phase = LinkPhase::Shaking(now),
            LinkEvent::Handshake => {
                let since = if let LinkPhase::Shaking(since) = self.phase { since } else { now };
                self.phase = LinkPhase::HandshakeDone(now + SUBSCRIPTION_GRACE.max(2 * (now - since)));
            }
            LinkEvent::Own => {
                self.phase = LinkPhase::Own;
                return self.report(Err(NotConnected::Own));
            }
            LinkEvent::Subscription => self.is_subscribed = true,
            LinkEvent::Lost(reason) => {
                let had_handshake = self.has_handshake();
                (self.phase, self.is_subscribed) = (LinkPhase::Lost(now), false);
                if had_handshake {
                    // A hub that starts again needs a moment.
                    self.probe_due = self.probe_due.map(|_| now + PROBE_PAUSE);
                    return self.report(Err(reason));
                }
                self.hasten_first_probe(now);
            }
            LinkEvent::Retrying => {
                if !self.has_handshake() {
                    (self.phase, self.is_subscribed) = (LinkPhase::Connecting, false);
                }
                self.hasten_first_probe(now);
            }
            LinkEvent::Probed(result) => {
                self.probe_due = Some(now + PROBE_PAUSE);
                // A probe that finds the right peer reports nothing, since libzmq may still fail to connect.
                if let (Err(reason), false) = (result, self.has_handshake()) {
                    return self.report(Err(reason));
                }
            }
        }
        self.connect_if_ready(now)
    }

    /// Updates the state for the time `now`. Returns the status if there is a new one to report.
    pub(super) fn on_time(&mut self, now: Instant) -> Option<LinkStatus> {
        if self.awaits_first_status() && now >= self.status_due {
            return self.report(Err(NotConnected::Silent));
        }
        self.connect_if_ready(now)
    }

    /// Returns whether the owner is to connect again now, since libzmq no longer tries to.
    pub(super) fn begin_reconnect(&mut self, now: Instant) -> bool {
        let is_due = matches!(self.phase, LinkPhase::Lost(since) if now >= since + RECONNECT_AFTER);
        if is_due {
            mark!("libzmq forgets an endpoint that breaks the protocol");
            (self.phase, self.is_subscribed) = (LinkPhase::Lost(now), false);
        }
        is_due
    }

    /// Returns whether the owner is to probe the endpoint now, and then owes [`LinkEvent::Probed`].
    pub(super) fn begin_probe(&mut self, now: Instant) -> bool {
        let has_handshake = self.has_handshake();
        self.probe_due.take_if(|at| now >= *at && !has_handshake).is_some()
    }

    /// Returns when the state must be updated for the time even if no event comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        debug_assert!(!self.is_connected() || self.has_handshake(), "{self:?}");
        let of_phase = match self.phase {
            LinkPhase::HandshakeDone(grace_end) if !self.is_connected() => Some(grace_end),
            LinkPhase::Lost(since) => Some(since + RECONNECT_AFTER),
            _ => None,
        };
        let of_probe = self.probe_due.filter(|_| !self.has_handshake());
        let of_status = self.awaits_first_status().then_some(self.status_due);
        [of_phase, of_probe, of_status].into_iter().flatten().min()
    }

    pub(super) fn has_handshake(&self) -> bool {
        matches!(self.phase, LinkPhase::HandshakeDone(_) | LinkPhase::Own)
    }

    fn awaits_first_status(&self) -> bool {
        self.reported.is_none() && !self.has_handshake()
    }

    fn connect_if_ready(&mut self, now: Instant) -> Option<LinkStatus> {
        let LinkPhase::HandshakeDone(grace_end) = self.phase else { return None };
        if self.is_subscribed || now >= grace_end { self.report(Ok(())) } else { None }
    }

    /// The first attempt has failed: its reason is wanted at once.
    fn hasten_first_probe(&mut self, now: Instant) {
        if self.awaits_first_status() {
            self.probe_due = self.probe_due.map(|at| at.min(now));
        }
    }

    fn report(&mut self, status: LinkStatus) -> Option<LinkStatus> {
        let is_new = self.reported.as_ref() != Some(&status);
        is_new.then(|| self.reported.insert(status).clone())
    }
}

#[cfg(test)]
mod tests;
