//! Whether the hub behind one `--connect` endpoint may be promised messages. No socket, no clock.

use std::time::{Duration, Instant};

/// How long a peer may stay without a subscription after its handshake before it counts as
/// connected all the same. A subscription follows the handshake within microseconds on a local
/// machine and one round trip elsewhere; a hub that subscribes to nothing must not mean 503.
pub(super) const SUBSCRIPTION_GRACE: Duration = Duration::from_millis(250);

/// How long libzmq may stay silent about dialling again after a connection was lost. It announces
/// each attempt at once, except after a protocol error, when it gives the endpoint up for good.
pub(super) const REDIAL_AFTER: Duration = Duration::from_secs(1);

/// What the socket monitor, or the socket itself, showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The ZMTP handshake is done.
    Handshake,
    /// The peer subscribed to something.
    Subscription,
    /// The connection, or the attempt at one, is over.
    Lost,
    /// libzmq will dial again by itself.
    Retrying,
}

/// What the bus has to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Messages may be sent from now on.
    Up,
    /// Messages must wait from now on.
    Down,
}

/// The state of one endpoint.
#[derive(Debug)]
pub(super) struct Link {
    state: State,
    subscribed: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Not connected; libzmq is at it.
    Dialling,
    /// Lost at this time and libzmq has not said that it dials again.
    Lost(Instant),
    /// Handshake done at this time, no subscription yet.
    Greeted(Instant),
    /// Connected, in the sense of the contract.
    Up,
}

impl Link {
    pub(super) fn new() -> Self {
        Self { state: State::Dialling, subscribed: false }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up)
    }

    /// Takes in one sign, seen at `now`.
    pub(super) fn saw(&mut self, sign: Sign, now: Instant) -> Option<Change> {
        match sign {
            Sign::Handshake => {
                self.state = State::Greeted(now);
                self.settle(now)
            }
            Sign::Subscription => {
                self.subscribed = true;
                self.settle(now)
            }
            Sign::Lost => {
                let was_up = self.is_up();
                *self = Self { state: State::Lost(now), subscribed: false };
                was_up.then_some(Change::Down)
            }
            Sign::Retrying => {
                if matches!(self.state, State::Lost(_)) {
                    self.state = State::Dialling;
                }
                None
            }
        }
    }

    /// What follows from the time alone. To be asked again by [`Link::deadline`].
    pub(super) fn settle(&mut self, now: Instant) -> Option<Change> {
        match self.state {
            State::Greeted(since) if self.subscribed || now >= since + SUBSCRIPTION_GRACE => {
                self.state = State::Up;
                Some(Change::Up)
            }
            _ => None,
        }
    }

    /// Whether libzmq gave the endpoint up, so that it must be connected again. Once for each time
    /// that it does, or that connecting again did not help.
    pub(super) fn redial_is_due(&mut self, now: Instant) -> bool {
        match self.state {
            State::Lost(since) if now >= since + REDIAL_AFTER => {
                self.state = State::Lost(now);
                true
            }
            _ => false,
        }
    }

    /// When to ask [`Link::settle`] and [`Link::redial_is_due`], if only time has to pass.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Greeted(since) => Some(since + SUBSCRIPTION_GRACE),
            State::Lost(since) => Some(since + REDIAL_AFTER),
            State::Dialling | State::Up => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn up_once_greeted_and_subscribed_in_either_order() {
        let now = Instant::now();
        let mut link = Link::new();
        assert_eq!(link.saw(Sign::Handshake, now), None);
        assert!(!link.is_up());
        assert_eq!(link.saw(Sign::Subscription, now), Some(Change::Up));
        assert!(link.is_up());

        let mut link = Link::new();
        assert_eq!(link.saw(Sign::Subscription, now), None);
        assert_eq!(link.saw(Sign::Handshake, now), Some(Change::Up));
    }

    #[test]
    fn up_after_the_grace_without_a_subscription() {
        let now = Instant::now();
        let mut link = Link::new();
        link.saw(Sign::Handshake, now);
        let deadline = link.deadline().unwrap();
        assert_eq!(deadline, now + SUBSCRIPTION_GRACE);
        assert_eq!(link.settle(deadline - MS), None);
        assert_eq!(link.settle(deadline), Some(Change::Up));
        assert_eq!(link.deadline(), None);
        assert_eq!(link.saw(Sign::Subscription, deadline), None);
    }

    #[test]
    fn a_loss_is_told_once_and_forgets_the_subscription() {
        let now = Instant::now();
        let mut link = Link::new();
        link.saw(Sign::Handshake, now);
        link.saw(Sign::Subscription, now);
        assert_eq!(link.saw(Sign::Lost, now), Some(Change::Down));
        assert_eq!(link.saw(Sign::Lost, now), None);
        assert_eq!(link.saw(Sign::Retrying, now), None);
        assert_eq!(link.saw(Sign::Handshake, now), None);
        assert!(!link.is_up());
    }

    #[test]
    fn an_endpoint_given_up_is_dialled_again_and_again() {
        let now = Instant::now();
        let mut link = Link::new();
        link.saw(Sign::Lost, now);
        let first = link.deadline().unwrap();
        assert!(!link.redial_is_due(first - MS));
        assert!(link.redial_is_due(first));
        assert!(!link.redial_is_due(first));
        assert!(link.redial_is_due(first + REDIAL_AFTER));
    }

    #[test]
    fn an_endpoint_that_libzmq_redials_is_left_to_it() {
        let now = Instant::now();
        let mut link = Link::new();
        link.saw(Sign::Lost, now);
        link.saw(Sign::Retrying, now);
        assert_eq!(link.deadline(), None);
        assert!(!link.redial_is_due(now + 10 * REDIAL_AFTER));
    }
}
