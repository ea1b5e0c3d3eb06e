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

struct ReadyState {
    /// It takes the messages; `None` until the bus has started.
    publisher: Option<Publisher>,
    /// Whether the gateway listens, or why not.
    listening: Result<(), String>,
    /// Whether messages had somewhere to go when the bus last reported a change. `None` until its first report, which
    /// may come later than the change: the event of a connection precedes `ready`.
    is_bus_connected: Option<bool>,
    /// What the parent knows: that messages are taken, or why not. `None` until it was told.
    told: Option<Result<(), String>>,
}

impl ReadyReporter {
    pub(super) fn new(emit: EventSink) -> Self {
        let listening = Err("the gateway starts".into());
        let state = ReadyState { publisher: None, listening, is_bus_connected: None, told: None };
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

    /// Tells that the gateway listens, or why it cannot, though the settings open the API. Such a reason is reported
    /// also where messages were not taken before: that had another one.
    pub(super) fn set_listening(&self, listening: Result<(), String>) {
        self.update(|state| state.listening = listening);
    }

    /// Tells why the gateway does not listen. The caller tells the parent too, so this reports only that messages are no
    /// longer taken.
    pub(super) fn set_off(&self, reason: &str) {
        self.update(|state| {
            state.listening = Err(reason.into());
            if state.told != Some(Ok(())) {
                state.told = Some(Err(reason.into()));
            }
        });
    }

    /// Returns whether the gateway does not listen, for this reason.
    pub(super) fn is_off(&self, reason: &str) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.listening.as_ref().is_err_and(|known| known == reason)
    }

    pub(super) fn bus_changed(&self) {
        self.update(ReadyState::ask_bus);
    }

    /// Reports what has changed. The lock makes the order of the events that of the changes; the sink never waits.
    fn update(&self, change: impl FnOnce(&mut ReadyState)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let now = match (&state.listening, state.is_bus_connected) {
            (Ok(()), None) => return,
            (Ok(()), Some(false)) => Err("the bus is not connected".into()),
            (listening, _) => listening.clone(),
        };
        if now.is_ok() && state.publisher.as_ref().is_some_and(|bus| bus.reaches_all()) {
            self.completed.notify_one();
        }
        match (&state.told, &now) {
            // A start is not ready yet.
            (None, Err(_)) => return,
            (Some(told), now) if told == now => return,
            (_, Ok(())) => (self.emit)(&Event::Ready),
            (_, Err(reason)) => (self.emit)(&Event::NotReady { reason }),
        }
        state.told = Some(now);
    }
}

impl ReadyState {
    /// Asks whether an endpoint is connected. The state of the bus changes before the bus reports the change.
    fn ask_bus(&mut self) {
        let publisher = self.publisher.as_ref();
        self.is_bus_connected = Some(publisher.is_some_and(|bus| bus.available() != Err(Unavailable::NotConnected)));
    }
}
