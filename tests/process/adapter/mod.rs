//! A stand-in for the adapter: everything behind the hub, over ZeroMQ and nothing else.

mod model;

use std::sync::{Arc, Condvar, Mutex};

pub(crate) use model::{Command, Data, State, Status};

use crate::support::PATIENCE;
use crate::support::hub::Hub;
use crate::support::subscriber::{Message, Subscriber};
use crate::support::worker::{TURN, Worker};

/// A thread that hears the bus and keeps the [`State`]; tests await changes of it.
pub(crate) struct Adapter {
    hub: Hub,
    state: Arc<(Mutex<State>, Condvar)>,
    _following: Worker,
}

impl Adapter {
    /// An adapter with these extensions and nodes installed, none of them running.
    pub(crate) fn start(extensions: &[&str], nodes: &[&str]) -> Self {
        let hub = Hub::start();
        let subscriber = hub.subscriber("");
        let state = State::with_installed(extensions, nodes);
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let following = Worker::start({
            let state = Arc::clone(&state);
            move || follow(&subscriber, &state)
        });
        Self { hub, state, _following: following }
    }

    /// Where a gateway, or any other publisher, is to connect.
    pub(crate) fn publishers_side(&self) -> &str {
        self.hub.publishers_side()
    }

    /// The first state of which `wanted` is true.
    pub(crate) fn wait_until(&self, what: &str, wanted: impl Fn(&State) -> bool) -> State {
        let (state, changed) = &*self.state;
        let state = state.lock().unwrap();
        let (state, _) = changed.wait_timeout_while(state, PATIENCE, |state| !wanted(state)).unwrap();
        assert!(wanted(&state), "the adapter never saw: {what}; it is at {:?}", *state);
        state.clone()
    }
}

/// One turn: a message that is here changes the state, and whoever awaits that is told.
fn follow(subscriber: &Subscriber, state: &(Mutex<State>, Condvar)) {
    if let Some(Message { topic, payload }) = subscriber.next_within(TURN) {
        let payload = serde_json::from_str(&payload).expect("a JSON payload");
        state.0.lock().unwrap().apply(&topic, &payload);
        state.1.notify_all();
    }
}
