//! What is counted of peers, and what the log and the program are told of them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bus::endpoint::Endpoint;
use crate::sync::counting::{Tally, counters};
use crate::sys::log::warning;

/// The shortest time between two lines of the log that say the same. Strangers may come in any number.
const LOG_PAUSE: Duration = Duration::from_secs(60);

counters! {
    /// Peers of bound endpoints that were beyond a bound, and what they have sent beyond one.
    pub(in crate::bus) struct PeerCounters => PeerTotals {
        /// Connections that ended because there was no place for them.
        refused: Tally,
        /// Peers past their handshake that were disconnected because they broke the protocol, or sent a long message
        /// too slowly while others waited.
        disconnected: Tally,
        /// Subscribers that were disconnected because they held others up for longer than the stall timeout.
        stalled: Tally,
        /// Subscriptions that were ignored.
        subscriptions_refused: Tally,
        /// Messages of subscribers, which were dropped.
        messages_dropped: Tally,
    }
}

counters! {
    /// What publishers of the hub have sent.
    pub(in crate::bus) struct HubCounters => HubTotals {
        /// Messages that were passed on, with those that nobody had subscribed to.
        forwarded: Tally,
        /// Messages that were dropped, because they were beyond the bounds.
        dropped: Tally,
    }
}

/// A subscriber that was disconnected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSubscriber {
    /// The endpoint that it had connected to.
    pub endpoint: Endpoint,
    /// Why it was disconnected.
    pub reason: LossReason,
    /// How many messages it has lost, at most.
    pub lost_messages: u64,
}

/// Why a subscriber was disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// It held others up: a message has waited for it for longer than this.
    Stalled(Duration),
    /// It broke the protocol.
    BrokenProtocol,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled(after) => {
                let after_s = after.as_secs_f64();
                write!(f, "a message waited for it for longer than {after_s} s while others were refused")
            }
            Self::BrokenProtocol => f.write_str("it broke ZMTP 3, the protocol of ZeroMQ"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Excess {
    Place,
    Descriptor,
    Handshakes,
    Stranger,
    BrokenProtocol,
    SlowMessage,
    Subscription,
}

#[derive(Default)]
pub(in crate::bus) struct PeerReports {
    pub(in crate::bus) counters: Arc<PeerCounters>,
    pub(in crate::bus) hub_counters: Arc<HubCounters>,
    logged_at: HashMap<Excess, Duration>,
    /// Subscribers that were disconnected, until the program is told.
    pub(in crate::bus) lost: Vec<LostSubscriber>,
}

impl PeerReports {
    /// Counts what is beyond a bound, and logs it unless that was done a short time ago. Returns whether it was logged.
    pub(super) fn report(&mut self, excess: Excess, now: Duration) -> bool {
        let PeerCounters { refused, disconnected, subscriptions_refused, .. } = &*self.counters;
        let (counter, text) = match excess {
            Excess::Place => (Some(refused), "the bus refuses peers: as many as it may have are connected"),
            Excess::Descriptor => (Some(refused), "the bus refuses peers: no descriptor is left"),
            Excess::Handshakes => (
                Some(refused),
                "the bus ends the oldest connection that does not speak: as many as may be are in their handshake",
            ),
            Excess::Stranger => {
                (None, "the bus disconnects a peer that does not speak ZMTP 3, the protocol of ZeroMQ, or does not fit")
            }
            Excess::BrokenProtocol => (Some(disconnected), "the bus disconnects a peer that breaks the protocol"),
            Excess::SlowMessage => (
                Some(disconnected),
                "the bus disconnects a publisher that sends a long message slower than 128 kB/s while others wait",
            ),
            Excess::Subscription => {
                (Some(subscriptions_refused), "the bus ignores a subscription that is beyond its bounds")
            }
        };
        counter.into_iter().for_each(|counter| counter.add(1));
        let is_due = self.logged_at.get(&excess).is_none_or(|at| now.saturating_sub(*at) >= LOG_PAUSE);
        if is_due {
            self.logged_at.insert(excess, now);
            warning(format_args!("{text}"));
        }
        is_due
    }
}
