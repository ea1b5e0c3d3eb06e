//! The bus thread, which alone touches the sockets.
//!
//! While messages are queued, the thread sends them, and reads the events of the sockets between two batches. While a
//! message cannot be sent, the thread waits for the sockets; it is not parked then, so no producer writes to the waker.
//! While the queue is empty, the thread parks without a timer until the waker or a socket wakes it.
//!
//! The thread never delays a message to send more of them together. A worker wakes it once for all messages of one
//! iteration of the worker's event loop ([`super::Publisher::wake`]), and it does not interrupt that worker
//! ([`schedule_as_batch`]). So under load it finds the messages of several iterations, and a single message leaves at
//! once.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::config::BusEvent;
use super::fanout::{Blocked, Fanout};
use super::guard::BackPressure;
use super::memory::{MUCH_BYTES, MemoryReturn};
use super::poller::{self, Poller};
use super::queue::QueuedMessage;
use super::state::BusState;
use crate::sync::Ordering;
use crate::sys::process::schedule_as_batch;

/// Messages that are sent before the events of the sockets are read again. At some 0.2 µs each, this takes 0.1 ms.
const BATCH_MESSAGES: u64 = 512;

/// A function that is called on the bus thread for each change of an endpoint.
pub(super) type OnEvent = Box<dyn Fn(BusEvent) + Send>;

/// The sockets of the bus.
pub(super) struct BusSockets {
    pub(super) context: zmq::Context,
    pub(super) fanout: Fanout,
    /// Knows which peers of the bound endpoints take nothing.
    pub(super) back_pressure: Arc<BackPressure>,
}

/// The state of the bus thread.
pub(super) struct BusThread {
    sockets: BusSockets,
    state: Arc<BusState>,
    on_event: OnEvent,
    /// The message that was taken from the queue and not yet sent to all endpoints.
    current: Option<QueuedMessage>,
    poller: Poller,
    memory: MemoryReturn,
}

/// The reason why a batch ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchEnd {
    /// The batch reached its size; there may be more messages.
    SizeReached,
    /// The queue is empty.
    QueueEmpty,
    /// The current message cannot be sent now.
    Blocked(Blocked),
}

impl BusThread {
    pub(super) fn new(sockets: BusSockets, state: Arc<BusState>, on_event: OnEvent) -> io::Result<Self> {
        let poller = Poller::new(&state.waker)?;
        sockets.fanout.register(&|descriptor| poller.add(descriptor))?;
        let memory = MemoryReturn::new(state.queue.held().clone());
        Ok(Self { sockets, state, on_event, current: None, poller, memory })
    }

    /// Runs until the queue is closed and empty, or the deadline of the stop has passed.
    pub(super) fn run(mut self) {
        schedule_as_batch();
        let mut may_have_events = true;
        loop {
            if may_have_events {
                self.read_events();
            }
            let end = self.send_batch();
            self.record_stall(end);
            self.sockets.back_pressure.look(&|lost| (self.on_event)(BusEvent::LostSubscriber(lost)));
            if self.state.is_finished() {
                break;
            }
            may_have_events = match end {
                BatchEnd::SizeReached => true,
                BatchEnd::QueueEmpty => self.park(),
                BatchEnd::Blocked(Blocked::PipeFull) => {
                    self.memory.look(0);
                    self.wait(Some(Instant::now() + poller::FULL_RECHECK))
                }
                BatchEnd::Blocked(Blocked::NotConnected) => {
                    self.memory.look(0);
                    self.wait(None);
                    true // the end of a probe sets the waker alone
                }
            };
        }
        self.close();
    }

    /// Reads the events of the sockets. Returns whether the state of an endpoint changed, or events may be left.
    fn read_events(&mut self) -> bool {
        let Self { sockets: BusSockets { fanout, .. }, state, on_event, .. } = self;
        let mut changed = false;
        let is_left = fanout.read_events(Instant::now(), &state.waker, &mut |endpoint, status| {
            changed = true;
            state.set_connected(endpoint, status.is_ok());
            let endpoint = endpoint.address.clone();
            on_event(match status {
                Ok(()) => BusEvent::Connected { endpoint },
                Err(reason) => BusEvent::Disconnected { endpoint, reason },
            });
        });
        changed || is_left
    }

    /// Takes messages from the queue, to which [`super::queue::Queue::push`] adds them on the workers' threads, and
    /// sends them to the endpoints.
    fn send_batch(&mut self) -> BatchEnd {
        let (mut sent, mut sent_weight_bytes) = (0, 0);
        let end = loop {
            if sent == BATCH_MESSAGES {
                break BatchEnd::SizeReached;
            }
            if self.current.is_none() {
                self.current = self.state.queue.pop();
            }
            let Some(message) = &mut self.current else { break BatchEnd::QueueEmpty };
            if let Err(blocked) = self.sockets.fanout.try_send(message) {
                break BatchEnd::Blocked(blocked);
            }
            sent += 1;
            sent_weight_bytes += message.weight_bytes;
            self.current = None;
        };
        if sent > 0 {
            self.sockets.back_pressure.sent();
            let queued_bytes = self.state.queue.release(sent, sent_weight_bytes);
            if queued_bytes >= MUCH_BYTES {
                self.memory.look(queued_bytes);
            }
        }
        end
    }

    fn record_stall(&self, end: BatchEnd) {
        let stalled = end == BatchEnd::Blocked(Blocked::PipeFull);
        // Only this thread writes the flag, so a load and a store suffice.
        if stalled != self.state.stalled.load(Ordering::Relaxed) {
            self.state.stalled.store(stalled, Ordering::Relaxed);
            self.state.pipe_full.fetch_add(u64::from(stalled), Ordering::Relaxed);
        }
    }

    /// Parks the thread after the queue was found empty. Returns whether a socket may have events.
    fn park(&mut self) -> bool {
        let may_wait = self.state.park();
        // The events are read a second time because sending a message may have consumed the edge that would have announced
        // them.
        let may_have_events = !may_wait || self.read_events() || {
            let memory_due = self.memory.when_idle();
            self.wait(memory_due)
        };
        self.state.waker.unpark();
        may_have_events
    }

    /// Waits for the waker or for a socket, until `until` or the next deadline. Returns whether a socket may have
    /// events, which is not the case if the waker alone ended the wait.
    fn wait(&mut self, until: Option<Instant>) -> bool {
        let BusSockets { fanout, back_pressure, .. } = &self.sockets;
        let deadlines = [until, fanout.deadline(), back_pressure.deadline(), self.state.stop_at.get().copied()];
        let readiness = self.poller.wait(deadlines.into_iter().flatten().min());
        readiness.sockets || readiness.timed_out()
    }

    /// Closes everything within the time that is left until the deadline.
    fn close(self) {
        let linger_ms = poller::left_ms(self.state.stop_at.get());
        self.sockets.fanout.close(linger_ms);
        drop(self.sockets.context); // blocks until everything is sent or the linger time is over
    }
}
