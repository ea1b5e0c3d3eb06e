//! The link to one endpoint: whether it counts as connected, why it is not, and the names of its hosts.
//!
//! | file | what it holds |
//! |---|---|
//! | `state` | the state machine: events in; what to report and what to do out |
//! | `status` | whether an endpoint counts as connected, and why it does not |
//! | `monitor` | the events of libzmq about the connections of a socket |
//! | `probe` | why an endpoint is not connected |
//! | `names` | the addresses of host names, looked up outside of libzmq's thread |
//!
//! A [`Link`] drives the state machine of one socket with what the monitor and the probes find out.

mod monitor;
pub(super) mod names;
mod probe;
mod state;
mod status;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

use monitor::Monitor;
use state::{LinkEvent, LinkState, LinkStep};

use super::endpoint::Endpoint;
use super::ffi;
use crate::sync::waker::Waker;

pub(super) use status::PeerRole;
pub use status::{LinkStatus, NotConnected};

/// A function that is called with each new status.
type OnLinkStatus<'a> = dyn FnMut(LinkStatus) + 'a;

/// The link of one socket.
pub(super) struct Link {
    address: Endpoint,
    role: PeerRole,
    state: LinkState,
    monitor: Monitor,
    /// The end of the probe that runs.
    probe: Option<Receiver<LinkStatus>>,
}

impl Link {
    /// Begins to connect `socket` to peers that do what `role` says. `monitor_name` must be unique in the context.
    pub(super) fn connect(
        context: &zmq::Context,
        socket: &mut zmq::Socket,
        address: &Endpoint,
        role: PeerRole,
        monitor_name: &str,
    ) -> io::Result<Self> {
        socket.set_ipv6(address.is_ipv6())?;
        let monitor = Monitor::of(context, socket, monitor_name)?;
        ffi::connect(socket, address.as_str())?;
        let state = LinkState::new(role, Instant::now());
        Ok(Self { address: address.clone(), role, state, monitor, probe: None })
    }

    /// Returns whether the endpoint counts as connected.
    pub(super) fn is_connected(&self) -> bool {
        self.state.is_connected()
    }

    /// Returns the descriptor that becomes readable when [`Link::read_events`] has something to read.
    pub(super) fn descriptor(&self) -> zmq::Result<BorrowedFd<'_>> {
        self.monitor.descriptor()
    }

    /// Reads what happened to the connection, until nothing is left.
    pub(super) fn read_events(&mut self, now: Instant, on_status: &mut OnLinkStatus<'_>) {
        while let Some(event) = self.monitor.next_event() {
            self.state.on_event(event, now).into_iter().for_each(&mut *on_status);
        }
    }

    /// Takes note that the peer has subscribed to something.
    pub(super) fn on_subscription(&mut self, now: Instant, on_status: &mut OnLinkStatus<'_>) {
        self.state.on_event(LinkEvent::Subscription, now).into_iter().for_each(on_status);
    }

    /// Does what is due at `now`. The end of a probe wakes `waker`.
    pub(super) fn advance(
        &mut self,
        socket: &mut zmq::Socket,
        now: Instant,
        waker: &Arc<Waker>,
        on_status: &mut OnLinkStatus<'_>,
    ) {
        let probed = match self.probe.as_ref().map(Receiver::try_recv) {
            Some(Ok(status)) => Some(status),
            // There was no thread for the probe.
            Some(Err(TryRecvError::Disconnected)) => Some(Ok(())),
            Some(Err(TryRecvError::Empty)) | None => None,
        };
        if let Some(status) = probed {
            self.probe = None;
            self.state.on_event(LinkEvent::Probed(status), now).into_iter().for_each(&mut *on_status);
        }
        self.state.on_time(now).into_iter().for_each(on_status);
        while let Some(step) = self.state.next_step(now) {
            match step {
                LinkStep::Reconnect => {
                    // libzmq forgets an endpoint after a protocol error, whatever its reconnect options say. A call that
                    // fails here is repeated when the next reconnect is due.
                    let _ = ffi::disconnect(socket, self.address.as_str());
                    let _ = ffi::connect(socket, self.address.as_str());
                }
                LinkStep::Probe => self.probe = Some(probe::start(&self.address, self.role, waker)),
            }
        }
    }

    /// Returns when [`Link::advance`] must be called even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.state.deadline()
    }
}
