//! Reports when a message that is posted is taken, and when no longer.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::bus::Publisher;
use crate::gateway::events::{Event, EventSink};
use crate::message::publish::{Publish, Unavailable};

/// Reports `ready` and `not-ready`. The main thread and the bus thread tell it of what changes.
pub(super) struct ReadyReporter {
    emit: EventSink,
    state: Mutex<ReadyState>,
    /// Notified when the gateway listens and every endpoint is connected, which may be after `ready`. One task at a time
    /// waits for it.
    pub(super) completed: Notify,
}

#[derive(Default)]
struct ReadyState {
    /// It takes the messages; `None` until the bus has started.
    publisher: Option<Publisher>,
    /// Why the gateway does not listen; `None` if it listens.
    not_listening: Option<String>,
    /// Whether messages had somewhere to go when the bus last reported a change. `None` until its first report, which
    /// may come later than the change: the event of a connection precedes `ready`.
    is_bus_connected: Option<bool>,
    is_ready: bool,
}

impl ReadyReporter {
    pub(super) fn new(emit: EventSink) -> Self {
        let state = ReadyState { not_listening: Some("the gateway starts".into()), ..ReadyState::default() };
        Self { emit, state: Mutex::new(state), completed: Notify::new() }
    }

    /// Tells which publisher takes the messages, and whether the bus has bound endpoints, which it never reports.
    pub(super) fn set_publisher(&self, publisher: Publisher, has_bound: bool) {
        self.update(|state| {
            state.publisher = Some(publisher);
            if has_bound || state.is_bus_connected.is_some() {
                state.ask_bus();
            }
        });
    }

    /// Tells why the gateway does not listen; `None` if it listens.
    pub(super) fn set_off(&self, reason: Option<&str>) {
        self.update(|state| state.not_listening = reason.map(str::to_owned));
    }

    /// Tells why the gateway cannot listen, though the settings open the API. That is reported also where messages were
    /// not taken before: the reason was another one.
    pub(super) fn set_failed(&self, reason: &str) {
        self.update(|state| {
            state.is_ready |= state.not_listening.as_deref() != Some(reason);
            state.not_listening = Some(reason.into());
        });
    }

    /// Returns whether the gateway does not listen, for this reason.
    pub(super) fn is_off(&self, reason: &str) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.not_listening.as_deref() == Some(reason)
    }

    pub(super) fn bus_changed(&self) {
        self.update(ReadyState::ask_bus);
    }

    /// Reports what has changed. The lock makes the order of the events that of the changes; the sink never waits.
    fn update(&self, change: impl FnOnce(&mut ReadyState)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let bus_disconnected = (state.is_bus_connected != Some(true)).then_some("the bus is not connected");
        let not_ready = state.not_listening.as_deref().or(bus_disconnected);
        if not_ready.is_none() && state.publisher.as_ref().is_some_and(|bus| bus.reaches_all()) {
            self.completed.notify_one();
        }
        match (state.is_ready, not_ready) {
            (false, None) => (self.emit)(&Event::Ready),
            (true, Some(reason)) => (self.emit)(&Event::NotReady { reason }),
            _ => return,
        }
        state.is_ready = !state.is_ready;
    }
}

impl ReadyState {
    /// Asks whether an endpoint is connected. The state of the bus changes before the bus reports the change.
    fn ask_bus(&mut self) {
        let publisher = self.publisher.as_ref();
        self.is_bus_connected = Some(publisher.is_some_and(|bus| bus.available() != Err(Unavailable::NotConnected)));
    }
}
