//! The connection to one endpoint, followed by its events, and probed while it is not there.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use super::connection_watch::{ConnectionStatus, ConnectionWatch};
use super::peer_state::PeerEvent;
use super::probe::{NotConnected, probe};
use crate::bus::endpoint::Endpoint;
use crate::sync::waker::Waker;

/// What is known of the connection to an endpoint.
pub(in crate::bus) struct WatchedConnection {
    endpoint: Endpoint,
    /// The types of ZeroMQ sockets that the own one can connect to.
    fitting: &'static [&'static str],
    watch: ConnectionWatch,
    probing: Option<Receiver<Result<(), NotConnected>>>,
}

impl WatchedConnection {
    pub(in crate::bus) fn new(endpoint: Endpoint, fitting: &'static [&'static str], now: Instant) -> Self {
        Self { endpoint, fitting, watch: ConnectionWatch::new(now), probing: None }
    }

    /// Updates the status with an event that was read at `now`. Returns it if it has changed.
    pub(in crate::bus) fn on_event(&mut self, event: PeerEvent, now: Instant) -> Option<ConnectionStatus> {
        self.watch.on_event(event, now)
    }

    /// Updates the status for the time `now`, and probes the endpoint if that is due. Returns the status if it has
    /// changed. The end of a probe wakes `waker`.
    pub(in crate::bus) fn update(&mut self, now: Instant, waker: &Arc<Waker>) -> Option<ConnectionStatus> {
        let result = self.probing.as_ref().and_then(|probing| probing.try_recv().ok());
        let probed = result.and_then(|result| {
            self.probing = None;
            self.watch.on_probe(result, now)
        });
        let status = probed.or_else(|| self.watch.on_time(now));
        if self.probing.is_none() && self.watch.probe_is_due(now) {
            self.probing = self.start_probe(Arc::clone(waker));
        }
        status
    }

    /// Returns when [`WatchedConnection::update`] must be called even if nothing happens.
    pub(in crate::bus) fn deadline(&self) -> Option<Instant> {
        self.watch.deadline()
    }

    /// Probes the endpoint in a thread of its own, since the lookup of a name may take long.
    fn start_probe(&self, waker: Arc<Waker>) -> Option<Receiver<Result<(), NotConnected>>> {
        let (sender, receiver) = channel();
        let (endpoint, fitting) = (self.endpoint.clone(), self.fitting);
        let probe = move || {
            // The receiver is gone if the socket is.
            let _ = sender.send(probe(&endpoint, fitting));
            waker.force_wake();
        };
        // Without a thread, nothing is found out about the endpoint, and libzmq still tries to connect.
        thread::Builder::new().name("probe".into()).spawn(probe).ok().map(|_| receiver)
    }
}
