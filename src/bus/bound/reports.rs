//! What is counted of peers, and what is reported of them to the log and the program.

use std::collections::HashMap;
use std::mem::{self, Discriminant};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use serde::Serialize;

use super::listener::Side;
use super::peer::{Peer, Phase};
use crate::bus::endpoint::Endpoint;
use crate::bus::liveness::HAS_VANISHED;
use crate::sync::counting::Tally;
use crate::sys::log::{LineLimit, warning};
use crate::zmtp::{Exchange, PeerFault, SocketRole};

/// Peers of bound endpoints that were beyond a bound, and what they have sent beyond one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PeerCounters {
    /// Connections that ended in their handshake because there was no place for them, or they did not fit, and failed
    /// attempts to accept one.
    pub refused: Tally,
    /// Peers past their handshake that were disconnected because they broke the protocol, sent a long message too slowly
    /// while others waited, or had vanished.
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
    /// It has ended the connection behind our `READY`. A socket of libzmq does so where our socket type does not fit.
    Unfit,
    BrokenProtocol(PeerFault),
    SlowMessage,
    Vanished,
    /// A message has waited for it for longer than this time, while others were refused.
    Stalled(Duration),
    Subscription,
    Message,
}

/// Of several that say the same, one line is logged for each endpoint.
type LogKey = (Endpoint, Discriminant<Excess>, Option<Discriminant<PeerFault>>);

#[derive(Default)]
pub(in crate::bus) struct PeerReports {
    pub(in crate::bus) counters: Arc<PeerCounters>,
    pub(in crate::bus) hub_counters: Arc<HubCounters>,
    /// Those of all listeners, in the order of [`crate::bus::Bus::bound`].
    pub(in crate::bus) sides: Vec<Arc<Side>>,
    logged: HashMap<LogKey, LineLimit<Duration>>,
    /// Subscribers that were disconnected, until they are reported to the program.
    pub(in crate::bus) lost: Vec<LostSubscriber>,
}

impl PeerReports {
    /// Counts what somebody does, and logs it unless it was logged just before. Returns whether it did.
    pub(super) fn report(&mut self, excess: &Excess, who: &dyn fmt::Display, at: &Side, now: Duration) -> bool {
        let Side { endpoint: here, peers: side, .. } = at;
        let PeerCounters { refused, disconnected, stalled, subscriptions_refused, messages_dropped } = &*self.counters;
        let (dropped, broken_rule) = match side {
            SocketRole::Publishes => (&self.hub_counters.dropped, "is not a topic and a payload within the bounds"),
            SocketRole::Subscribes => (messages_dropped, "may only subscribe"),
        };
        let (counter, fault, does) = match excess {
            Excess::Accept(_) => (refused, None, "cannot accept"),
            Excess::Place | Excess::Handshakes | Excess::Unfit => (refused, None, "refuses"),
            Excess::Stranger(fault) => (refused, Some(fault), "refuses"),
            Excess::BrokenProtocol(fault) => (disconnected, Some(fault), "disconnects"),
            Excess::SlowMessage | Excess::Vanished => (disconnected, None, "disconnects"),
            Excess::Stalled(_) => (stalled, None, "disconnects the subscriber"),
            Excess::Subscription => (subscriptions_refused, None, "ignores a subscription of"),
            Excess::Message => (dropped, None, "drops a message of"),
        };
        counter.add(1);
        let key = (here.clone(), mem::discriminant(excess), fault.map(mem::discriminant));
        if !self.logged.entry(key).or_insert_with(LineLimit::new).passes(now) {
            return false;
        }
        // The listeners of the hub are the last ones.
        let hint = |role| match self.sides.iter().rev().find(|side| Some(side.peers) == role) {
            Some(fitting) => format!("{} connect to {}", fitting.peers, fitting.endpoint),
            None => format!("only {side} connect there"),
        };
        let why = match excess {
            Excess::Accept(error) => format!(" at {here}: {error}"),
            Excess::Place => format!(" at {here}: all places for its peers are taken"),
            Excess::Handshakes => format!(" at {here}, one of too many connections in their handshake"),
            Excess::Stranger(PeerFault::SocketType(kind)) => {
                format!(": a {kind} socket at the {side}' side {here}; {}", hint(SocketRole::of_type(kind)))
            }
            Excess::Unfit => {
                let other = if *side == SocketRole::Publishes { SocketRole::Subscribes } else { SocketRole::Publishes };
                let left = "it has left as a socket does whose type does not fit";
                format!(" at the {side}' side {here}: {left}; {}", hint(Some(other)))
            }
            Excess::Stranger(fault) | Excess::BrokenProtocol(fault) => format!(" at {here}, which {fault}"),
            Excess::SlowMessage => format!(" at {here}, whose long message has not come in time while others wait"),
            Excess::Vanished => format!(" at {here}, which {HAS_VANISHED}"),
            Excess::Stalled(time) => format!(" at {here}: {}", stalled_for(*time)),
            Excess::Subscription => format!(" at {here}, which is beyond its bounds"),
            Excess::Message => format!(" at {here}, which {broken_rule}"),
        };
        warning(format_args!("the bus {does} {who}{why}"));
        true
    }

    /// Reports that a peer past its handshake is disconnected, to the program too if that is a subscriber. One that
    /// breaks the protocol may come back at once, and is reported to the program as often as to the log.
    pub(super) fn report_end(&mut self, excess: &Excess, peer: &Peer, exchange: &mut Exchange, now: Duration) {
        let is_logged = self.report(excess, peer, &peer.side, now);
        let Phase::Subscriber(place) = peer.phase else { return };
        let reason = match excess {
            Excess::Stalled(time) => stalled_for(*time),
            Excess::Vanished => format!("it {HAS_VANISHED}"),
            Excess::BrokenProtocol(fault) if is_logged => format!("it {fault}"),
            _ => return,
        };
        let lost_messages = exchange.lost(place, peer.unacknowledged_bytes());
        let (endpoint, peer) = (peer.side.endpoint.clone(), peer.to_string());
        self.lost.push(LostSubscriber { endpoint, peer, reason, lost_messages });
    }
}

fn stalled_for(time: Duration) -> String {
    format!("a message waited for it for longer than {} s while others were refused", time.as_secs_f64())
}
