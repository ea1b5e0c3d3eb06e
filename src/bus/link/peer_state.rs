//! The state of the hub behind one `--connect` endpoint: whether it counts as connected. No socket, no clock.

use std::time::{Duration, Instant};

/// How long a peer may have no subscription after its handshake before it counts as connected all the same. A
/// subscription follows the handshake within microseconds on the same machine, and within one round trip elsewhere. A
/// hub that subscribes to nothing must not lead to answers of 503.
pub(in crate::bus) const SUBSCRIPTION_GRACE: Duration = Duration::from_millis(250);

/// How long after the loss of a connection libzmq may take to announce that it connects again. It announces each
/// attempt at once, except after a protocol error: then it never connects to the endpoint again by itself.
pub(in crate::bus) const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// What the socket monitor, or the socket itself, reported about the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bus) enum PeerEvent {
    /// The ZMTP handshake is done.
    Handshake,
    /// The peer subscribed to something.
    Subscription,
    /// The connection, or the attempt to connect, has ended.
    Lost,
    /// libzmq will connect again by itself.
    Retrying,
}

/// A change that decides whether messages may be sent to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bus) enum PeerChange {
    /// Messages may be sent from now on.
    Connected,
    /// Messages must wait from now on.
    Disconnected,
}

/// The state of one peer.
#[derive(Debug)]
pub(in crate::bus) struct PeerState {
    phase: PeerPhase,
    subscribed: bool,
}

#[derive(Clone, Copy, Debug)]
enum PeerPhase {
    /// The peer is not connected, and libzmq tries to connect.
    Connecting,
    /// The connection was lost at this time, and libzmq has not announced that it connects again.
    Lost(Instant),
    /// The handshake was done at this time, and no subscription has arrived yet.
    HandshakeDone(Instant),
    /// The peer counts as connected.
    Connected,
}

impl PeerState {
    pub(in crate::bus) fn new() -> Self {
        Self { phase: PeerPhase::Connecting, subscribed: false }
    }

    pub(in crate::bus) fn is_connected(&self) -> bool {
        matches!(self.phase, PeerPhase::Connected)
    }

    /// Updates the state with an event that was read at `now`.
    pub(in crate::bus) fn on_event(&mut self, event: PeerEvent, now: Instant) -> Option<PeerChange> {
        match event {
            PeerEvent::Handshake => {
                self.phase = PeerPhase::HandshakeDone(now);
                self.on_time(now)
            }
            PeerEvent::Subscription => {
                self.subscribed = true;
                self.on_time(now)
            }
            PeerEvent::Lost => {
                let was_connected = self.is_connected();
                *self = Self { phase: PeerPhase::Lost(now), subscribed: false };
                was_connected.then_some(PeerChange::Disconnected)
            }
            PeerEvent::Retrying => {
                if matches!(self.phase, PeerPhase::Lost(_)) {
                    self.phase = PeerPhase::Connecting;
                }
                None
            }
        }
    }

    /// Updates the state for the time `now`. To be called again at [`PeerState::deadline`].
    pub(in crate::bus) fn on_time(&mut self, now: Instant) -> Option<PeerChange> {
        match self.phase {
            PeerPhase::HandshakeDone(since) if self.subscribed || now >= since + SUBSCRIPTION_GRACE => {
                self.phase = PeerPhase::Connected;
                Some(PeerChange::Connected)
            }
            _ => None,
        }
    }

    /// Returns whether libzmq no longer tries to connect, so that the caller must connect again. It returns true once
    /// in each period of [`RECONNECT_AFTER`], until an attempt is announced.
    pub(in crate::bus) fn reconnect_is_due(&mut self, now: Instant) -> bool {
        match self.phase {
            PeerPhase::Lost(since) if now >= since + RECONNECT_AFTER => {
                self.phase = PeerPhase::Lost(now);
                true
            }
            _ => false,
        }
    }

    /// Returns when [`PeerState::on_time`] and [`PeerState::reconnect_is_due`] must be called even if no event comes.
    pub(in crate::bus) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            PeerPhase::HandshakeDone(since) => Some(since + SUBSCRIPTION_GRACE),
            PeerPhase::Lost(since) => Some(since + RECONNECT_AFTER),
            PeerPhase::Connecting | PeerPhase::Connected => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_peer_is_connected_after_handshake_and_subscription_in_either_order() {
        let now = Instant::now();
        let mut peer = PeerState::new();
        assert_eq!(peer.on_event(PeerEvent::Handshake, now), None);
        assert!(!peer.is_connected());
        assert_eq!(peer.on_event(PeerEvent::Subscription, now), Some(PeerChange::Connected));
        assert!(peer.is_connected());

        let mut peer = PeerState::new();
        assert_eq!(peer.on_event(PeerEvent::Subscription, now), None);
        assert_eq!(peer.on_event(PeerEvent::Handshake, now), Some(PeerChange::Connected));
    }

    #[test]
    fn a_peer_without_a_subscription_is_connected_after_the_grace() {
        let now = Instant::now();
        let mut peer = PeerState::new();
        peer.on_event(PeerEvent::Handshake, now);
        let deadline = peer.deadline().unwrap();
        assert_eq!(deadline, now + SUBSCRIPTION_GRACE);
        assert_eq!(peer.on_time(deadline - MS), None);
        assert_eq!(peer.on_time(deadline), Some(PeerChange::Connected));
        assert_eq!(peer.deadline(), None);
        assert_eq!(peer.on_event(PeerEvent::Subscription, deadline), None);
    }

    #[test]
    fn a_loss_is_reported_once_and_forgets_the_subscription() {
        let now = Instant::now();
        let mut peer = PeerState::new();
        peer.on_event(PeerEvent::Handshake, now);
        peer.on_event(PeerEvent::Subscription, now);
        assert_eq!(peer.on_event(PeerEvent::Lost, now), Some(PeerChange::Disconnected));
        assert_eq!(peer.on_event(PeerEvent::Lost, now), None);
        assert_eq!(peer.on_event(PeerEvent::Retrying, now), None);
        assert_eq!(peer.on_event(PeerEvent::Handshake, now), None);
        assert!(!peer.is_connected());
    }

    #[test]
    fn a_reconnect_is_due_again_and_again_if_libzmq_does_not_retry() {
        let now = Instant::now();
        let mut peer = PeerState::new();
        peer.on_event(PeerEvent::Lost, now);
        let first = peer.deadline().unwrap();
        assert!(!peer.reconnect_is_due(first - MS));
        assert!(peer.reconnect_is_due(first));
        assert!(!peer.reconnect_is_due(first));
        assert!(peer.reconnect_is_due(first + RECONNECT_AFTER));
    }

    #[test]
    fn no_reconnect_is_due_if_libzmq_retries() {
        let now = Instant::now();
        let mut peer = PeerState::new();
        peer.on_event(PeerEvent::Lost, now);
        peer.on_event(PeerEvent::Retrying, now);
        assert_eq!(peer.deadline(), None);
        assert!(!peer.reconnect_is_due(now + 10 * RECONNECT_AFTER));
    }
}
