//! What is to be said of the connection to an endpoint: a status when it changes, and not at every attempt to connect.
//! No socket, no clock.

use std::time::{Duration, Instant};

use super::peer_state::PeerEvent;
use super::probe::NotConnected;

/// How long the first attempt may take before a status is due all the same. A parent hears of it within a second of the
/// start.
const FIRST_STATUS_AFTER: Duration = Duration::from_millis(750);

/// The pause between two probes of an endpoint that is not connected.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// Whether an endpoint is connected, and why not.
pub type ConnectionStatus = Result<(), NotConnected>;

/// The last status of one endpoint, and when to ask for the next one.
#[derive(Debug)]
pub(in crate::bus) struct ConnectionWatch {
    status: Option<ConnectionStatus>,
    /// When a status is due if there is none yet.
    status_due: Instant,
    /// When to probe the endpoint; `None` while it is connected, or a probe runs.
    probe_due: Option<Instant>,
}

impl ConnectionWatch {
    pub(in crate::bus) fn new(now: Instant) -> Self {
        let due = now + FIRST_STATUS_AFTER;
        Self { status: None, status_due: due, probe_due: Some(due) }
    }

    /// Updates the watch with an event that was read at `now`. Returns the status if it has changed.
    pub(in crate::bus) fn on_event(&mut self, event: PeerEvent, now: Instant) -> Option<ConnectionStatus> {
        match (event, &self.status) {
            (PeerEvent::Handshake, _) => {
                self.probe_due = None;
                self.change(Ok(()))
            }
            (PeerEvent::Subscription, _) => None,
            (PeerEvent::Lost, Some(Ok(()))) => {
                // A hub that starts again needs a moment.
                self.probe_due = Some(now + PROBE_PAUSE);
                self.change(Err(NotConnected::Closed))
            }
            // The first attempt has failed: the reason is wanted at once.
            (PeerEvent::Lost | PeerEvent::Retrying, None) => {
                self.probe_due = self.probe_due.map(|due| due.min(now));
                None
            }
            (PeerEvent::Lost | PeerEvent::Retrying, Some(_)) => None,
        }
    }

    /// Returns whether the endpoint is to be probed now. The caller then owes [`ConnectionWatch::on_probe`].
    pub(in crate::bus) fn probe_is_due(&mut self, now: Instant) -> bool {
        self.probe_due.take_if(|due| *due <= now).is_some()
    }

    /// Updates the watch with the result of a probe. Returns the status if it has changed.
    pub(in crate::bus) fn on_probe(
        &mut self,
        result: Result<(), NotConnected>,
        now: Instant,
    ) -> Option<ConnectionStatus> {
        if self.status == Some(Ok(())) {
            return None;
        }
        self.probe_due = Some(now + PROBE_PAUSE);
        // A probe that finds the right peer says nothing, since libzmq may still fail to connect.
        self.change(Err(result.err()?))
    }

    /// Updates the watch for the time `now`. Returns the status if it has changed.
    pub(in crate::bus) fn on_time(&mut self, now: Instant) -> Option<ConnectionStatus> {
        let is_late = self.status.is_none() && now >= self.status_due;
        is_late.then(|| self.change(Err(NotConnected::Silent))).flatten()
    }

    /// Returns when [`ConnectionWatch::probe_is_due`] and [`ConnectionWatch::on_time`] must be called even if nothing
    /// happens.
    pub(in crate::bus) fn deadline(&self) -> Option<Instant> {
        let status_due = self.status.is_none().then_some(self.status_due);
        self.probe_due.into_iter().chain(status_due).min()
    }

    fn change(&mut self, status: ConnectionStatus) -> Option<ConnectionStatus> {
        let changed = self.status.as_ref() != Some(&status);
        self.status = Some(status.clone());
        changed.then_some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn refused() -> ConnectionStatus {
        Err(NotConnected::Refused)
    }

    #[test]
    fn a_refusal_is_told_once_and_the_connection_once() {
        let now = Instant::now();
        let mut watch = ConnectionWatch::new(now);
        assert!(!watch.probe_is_due(now));
        assert_eq!(watch.on_event(PeerEvent::Retrying, now), None);
        assert!(watch.probe_is_due(now));
        assert!(!watch.probe_is_due(now), "one probe at a time");
        assert_eq!(watch.on_event(PeerEvent::Retrying, now), None);
        assert_eq!(watch.on_probe(refused(), now), Some(refused()));
        assert!(!watch.probe_is_due(now), "the next one has to wait");

        let next = watch.deadline().unwrap();
        assert!(!watch.probe_is_due(next - MS) && watch.probe_is_due(next));
        assert_eq!(watch.on_probe(refused(), next), None);
        assert_eq!(watch.on_event(PeerEvent::Handshake, next), Some(Ok(())));
        assert_eq!((watch.deadline(), watch.on_event(PeerEvent::Handshake, next)), (None, None));
    }

    #[test]
    fn a_loss_is_told_and_then_its_reason() {
        let now = Instant::now();
        let mut watch = ConnectionWatch::new(now);
        watch.on_event(PeerEvent::Handshake, now);
        assert_eq!(watch.on_event(PeerEvent::Lost, now), Some(Err(NotConnected::Closed)));
        assert_eq!(watch.on_event(PeerEvent::Lost, now), None);
        assert!(!watch.probe_is_due(now));
        assert!(watch.probe_is_due(watch.deadline().unwrap()));
        assert_eq!(watch.on_probe(refused(), now), Some(refused()));
        let other = Err(NotConnected::WrongSide("XSUB".into()));
        assert_eq!(watch.on_probe(other.clone(), now), Some(other));
    }

    #[test]
    fn an_attempt_without_an_end_is_told_after_a_while() {
        let now = Instant::now();
        let mut watch = ConnectionWatch::new(now);
        let due = watch.deadline().unwrap();
        assert_eq!(watch.on_time(due - MS), None);
        assert_eq!(watch.on_time(due), Some(Err(NotConnected::Silent)));
        assert!(watch.probe_is_due(due));
        assert_eq!((watch.on_time(due), watch.deadline()), (None, None));
    }

    #[test]
    fn a_probe_that_comes_too_late_says_nothing() {
        let now = Instant::now();
        let mut watch = ConnectionWatch::new(now);
        watch.on_event(PeerEvent::Retrying, now);
        assert!(watch.probe_is_due(now));
        watch.on_event(PeerEvent::Handshake, now);
        assert_eq!((watch.on_probe(refused(), now), watch.deadline()), (None, None));
        watch.on_event(PeerEvent::Lost, now);
        assert_eq!(watch.on_probe(Ok(()), now), None, "libzmq has not connected yet");
    }
}
