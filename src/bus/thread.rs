//! The bus thread: it alone touches the sockets.
//!
//! It is in one of three moods. Messages are there: it sends them, looking at the sockets' news
//! between batches. A message cannot be sent: it waits on the sockets, and producers are not
//! listened to, so they never write to the bell. Nothing is there: it parks, without a timer, until
//! the bell or a socket wakes it.
//!
//! It gathers nothing and waits for nothing. The bell rings once for all messages of a turn of a
//! worker's event loop, and this thread does not interrupt the worker that rings
//! ([`crate::process::schedule_as_batch`]): under load it finds the messages of some turns, and a single message
//! leaves at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::fanout::{Fanout, Offer};
use super::queue::Parcel;
use super::shared::Shared;
use super::wait::{self, Waiter};
use super::{BusEvent, OnEvent};
use crate::process::schedule_as_batch;

/// Messages sent before the sockets' news are looked at again: at some 0.2 µs each, 0.1 ms.
const BATCH_MESSAGES: u64 = 512;

/// The state of the bus thread.
pub(super) struct BusThread {
    context: zmq::Context,
    shared: Arc<Shared>,
    fanout: Fanout,
    on_event: OnEvent,
    in_hand: Option<Parcel>,
    waiter: Waiter,
}

/// How a batch ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batch {
    /// At its size; there may be more.
    Cut,
    /// The queue is empty.
    Empty,
    /// The message in hand cannot be sent now.
    Stuck(Offer),
}

impl BusThread {
    pub(super) fn new(
        context: zmq::Context,
        shared: Arc<Shared>,
        fanout: Fanout,
        on_event: OnEvent,
    ) -> io::Result<Self> {
        let waiter = Waiter::new(&shared.bell)?;
        fanout.watch(&waiter)?;
        Ok(Self { context, shared, fanout, on_event, in_hand: None, waiter })
    }

    /// Runs until the queue is closed and empty, or the deadline of the stop has passed.
    pub(super) fn run(mut self) {
        schedule_as_batch();
        let mut news = true;
        loop {
            if news {
                self.tend();
            }
            let batch = self.send_batch();
            self.note_stall(batch);
            if self.is_over() {
                break;
            }
            news = match batch {
                Batch::Cut => true,
                Batch::Empty => self.rest(),
                Batch::Stuck(Offer::Full) => self.wait(Some(Instant::now() + wait::FULL_RECHECK)),
                Batch::Stuck(_) => self.wait(None),
            };
        }
        self.close();
    }

    /// Looks at the sockets' news. Returns whether an endpoint's state changed.
    fn tend(&mut self) -> bool {
        let Self { fanout, shared, on_event, .. } = self;
        let mut changed = false;
        fanout.tend(Instant::now(), &mut |gauge, connected| {
            changed = true;
            shared.note(gauge, connected);
            let endpoint = gauge.endpoint.clone();
            on_event(match connected {
                true => BusEvent::Connected { endpoint },
                false => BusEvent::Disconnected { endpoint },
            });
        });
        changed
    }

    fn send_batch(&mut self) -> Batch {
        let (mut sent, mut sent_bytes) = (0, 0);
        let batch = loop {
            if sent == BATCH_MESSAGES {
                break Batch::Cut;
            }
            if self.in_hand.is_none() {
                self.in_hand = self.shared.queue.pop();
            }
            let Some(parcel) = &mut self.in_hand else { break Batch::Empty };
            match self.fanout.offer(parcel) {
                Offer::Taken => {
                    sent += 1;
                    sent_bytes += parcel.weight();
                    self.in_hand = None;
                }
                stuck => break Batch::Stuck(stuck),
            }
        };
        if sent > 0 {
            self.shared.queue.release(sent, sent_bytes);
        }
        batch
    }

    fn note_stall(&self, batch: Batch) {
        let stalled = batch == Batch::Stuck(Offer::Full);
        // Written by this thread alone, so a load and a store do.
        if stalled != self.shared.stalled.load(Ordering::Relaxed) {
            self.shared.stalled.store(stalled, Ordering::Relaxed);
            self.shared.pipe_full.fetch_add(u64::from(stalled), Ordering::Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        let queue = &self.shared.queue;
        let late = || self.shared.stop_at.get().is_some_and(|stop_at| Instant::now() >= *stop_at);
        queue.is_closed() && (queue.depth() == 0 || late())
    }

    /// The queue was found empty: park. Whether a socket may have news then.
    fn rest(&mut self) -> bool {
        self.shared.bell.park();
        // Sending may have taken in news of a socket together with the edge that would have told
        // of it, hence the look at the news; the look at the queue is the bell's condition.
        let news = self.has_work() || self.tend() || self.wait(None);
        self.shared.bell.unpark();
        news
    }

    fn has_work(&self) -> bool {
        !self.shared.queue.is_empty() || self.shared.queue.is_closed()
    }

    /// Waits for the bell, for news of a socket, or until `until` or a pending deadline. Whether a socket may have news:
    /// not where the bell alone rang.
    fn wait(&mut self, until: Option<Instant>) -> bool {
        let deadlines = [until, self.fanout.deadline(), self.shared.stop_at.get().copied()];
        let woken = self.waiter.wait(deadlines.into_iter().flatten().min());
        woken.news || woken.is_late()
    }

    /// Closes everything within what is left of the deadline.
    fn close(self) {
        let linger_ms = wait::left_ms(self.shared.stop_at.get());
        self.fanout.close(linger_ms);
        drop(self.context); // blocks until all is sent or the linger time is over
    }
}
