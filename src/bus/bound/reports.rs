//! What is counted of peers, and what is reported of them to the log and the program.

use std::collections::HashMap;
use std::mem::{self, Discriminant};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use serde::Serialize;

use super::listener::Listeners;
use crate::bus::endpoint::Endpoint;
use crate::sync::counting::Tally;
use crate::sys::log::{LineLimit, warning};
use crate::zmtp::{PeerFault, SocketRole};

/// Peers of bound endpoints that were beyond a bound, and what they have sent beyond one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PeerCounters {
    /// Connections that ended because there was no place for them, and failed attempts to accept one.
    pub refused: Tally,
    /// Peers past their handshake that were disconnected because they broke the protocol, or sent a long message too
    /// slowly while others waited.
    pub disconnected: Tally,
    /// Subscribers that were disconnected because they held others up for longer than the stall timeout.
    pub stalled: Tally,
    /// Subscriptions that were ignored.
    pub subscriptions_refused: Tally,
    /// Messages of subscribers, which were dropped.
    pub messages_dropped: Tally,
}

/// What publishers of the hub have sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HubCounters {
    /// Messages that were passed on, with those that nobody had subscribed to.
    pub forwarded: Tally,
    /// Messages that were dropped, because they were beyond the bounds.
    pub dropped: Tally,
}

/// A subscriber that was disconnected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSubscriber {
    /// The endpoint that it had connected to.
    pub endpoint: Endpoint,
    /// The address that it had connected from or, over ipc, its process.
    pub peer: String,
    /// Why it was disconnected: a sentence about it.
    pub reason: String,
    /// How many messages it has lost, at most.
    pub lost_messages: u64,
}

/// What is beyond a bound, or breaks a rule.
#[derive(Debug)]
pub(super) enum Excess {
    /// A connection that cannot be accepted, or not be polled.
    Accept(io::Error),
    Place,
    Handshakes,
    Stranger(PeerFault),
    BrokenProtocol(PeerFault),
    SlowMessage,
    Subscription,
    /// A message of a peer of this role.
    Message(SocketRole),
}

/// Of several that say the same, one line is logged for each listener.
type LogKey = (usize, Discriminant<Excess>, Option<Discriminant<PeerFault>>);

#[derive(Default)]
pub(in crate::bus) struct PeerReports {
    pub(in crate::bus) counters: Arc<PeerCounters>,
    pub(in crate::bus) hub_counters: Arc<HubCounters>,
    logged: HashMap<LogKey, LineLimit<Duration>>,
    /// Subscribers that were disconnected, until they are reported to the program.
    pub(in crate::bus) lost: Vec<LostSubscriber>,
}

impl PeerReports {
    /// Counts what somebody at a listener does, and logs it unless it was logged just before. Returns whether it did.
    pub(super) fn report(
        &mut self,
        excess: &Excess,
        who: &dyn fmt::Display,
        (listeners, at): (&Listeners, usize),
        now: Duration,
    ) -> bool {
        let PeerCounters { refused, disconnected, subscriptions_refused, messages_dropped, .. } = &*self.counters;
        let (counter, fault, does) = match excess {
            Excess::Accept(_) => (Some(refused), None, "cannot accept"),
            Excess::Place | Excess::Handshakes => (Some(refused), None, "refuses"),
            Excess::Stranger(fault) => (None, Some(fault), "refuses"),
            Excess::BrokenProtocol(fault) => (Some(disconnected), Some(fault), "disconnects"),
            Excess::SlowMessage => (Some(disconnected), None, "disconnects"),
            Excess::Subscription => (Some(subscriptions_refused), None, "ignores a subscription of"),
            Excess::Message(SocketRole::Publishes) => (Some(&self.hub_counters.dropped), None, "drops a message of"),
            Excess::Message(SocketRole::Subscribes) => (Some(messages_dropped), None, "drops a message of"),
        };
        counter.into_iter().for_each(|counter| counter.add(1));
        let key = (at, mem::discriminant(excess), fault.map(mem::discriminant));
        let is_due = self.logged.entry(key).or_insert_with(LineLimit::new).passes(now);
        let Some(listener) = listeners.all.get(at).filter(|_| is_due) else { return false };
        let here = &listener.endpoint;
        let why = match excess {
            Excess::Accept(error) => format!(": {error}"),
            Excess::Place => ": all places for its peers are taken".into(),
            Excess::Handshakes => ", the oldest of too many connections in their handshake".into(),
            Excess::Stranger(PeerFault::SocketType(kind)) => {
                let (side, hint) = (listener.peers, listeners.where_fits(kind, listener));
                warning(format_args!("the bus {does} {who}: a {kind} socket at the {side}' side {here}; {hint}"));
                return true;
            }
            Excess::Stranger(fault) | Excess::BrokenProtocol(fault) => format!(", which {fault}"),
            Excess::SlowMessage => ", which sends a long message slower than 128 kB/s while others wait".into(),
            Excess::Subscription => ", which is beyond its bounds".into(),
            Excess::Message(SocketRole::Publishes) => ", which is not a topic and a payload within the bounds".into(),
            Excess::Message(SocketRole::Subscribes) => ", which may only subscribe".into(),
        };
        warning(format_args!("the bus {does} {who} at {here}{why}"));
        true
    }
}
