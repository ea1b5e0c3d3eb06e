//! How a worker tells the task of a connection that it is to end.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use tokio::sync::OwnedSemaphorePermit;

/// How a connection is to end, in the order in which it may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Ending {
    /// It is not to end.
    Open,
    /// It ends with the request that it is in; at once if there is none.
    SwitchedOff,
    /// It ends with the request that it is in; if it is in none, at once, or after a grace if it is inherited.
    Stopping,
}

/// A connection, as its worker and its task share it.
pub(crate) struct ConnectionHandle<S> {
    pub(crate) socket: S,
    /// Whether it came from a socket that other processes share. They go on accepting when this process stops.
    pub(crate) is_inherited: bool,
    ending: Cell<Ending>,
    /// The value of `ending` that the task has seen last. As a variable of the task it would make each task larger.
    seen: Cell<Ending>,
    /// The task, while it waits for a change of `ending`.
    waiting: Cell<Option<Waker>>,
    _permit: OwnedSemaphorePermit,
}

impl<S> ConnectionHandle<S> {
    pub(crate) fn new(socket: S, is_inherited: bool, permit: OwnedSemaphorePermit, ending: Ending) -> Self {
        let (ending, seen) = (Cell::new(ending), Cell::new(ending));
        Self { socket, is_inherited, ending, seen, waiting: Cell::new(None), _permit: permit }
    }

    /// Makes the connection end in this way, unless it is told to end sooner.
    pub(crate) fn end(&self, ending: Ending) {
        if ending > self.ending.get() {
            self.ending.set(ending);
        }
        if let Some(task) = self.waiting.take() {
            task.wake();
        }
    }

    /// Returns how the connection is to end. For its task alone.
    pub(crate) fn ending(&self) -> Ending {
        self.seen.set(self.ending.get());
        self.ending.get()
    }

    /// Returns whether the connection is to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.get() != Ending::Open
    }

    /// Waits until `ending` differs from what the task has seen. Only the task may call this. Each idle connection holds
    /// this future, which is smaller than that of a [`Notify`](tokio::sync::Notify).
    pub(crate) fn told_to_end(&self) -> impl Future<Output = ()> {
        poll_fn(|context| {
            if self.ending.get() != self.seen.get() {
                return Poll::Ready(());
            }
            // Nearly always the same task waits again, and its waker is there already.
            let waiting = self.waiting.take().filter(|waker| waker.will_wake(context.waker()));
            self.waiting.set(Some(waiting.unwrap_or_else(|| context.waker().clone())));
            Poll::Pending
        })
    }
}
