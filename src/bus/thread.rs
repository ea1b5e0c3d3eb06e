//! The bus thread, which alone touches the sockets. It works in turns, each of which takes a bounded number of messages
//! into the log of [`Exchange`], hands them over, and works for each peer a bounded time.
//!
//! The thread never delays a message to send more of them together, and does not interrupt the worker that wakes it
//! ([`schedule_as_batch`]), so that under load it finds the messages of several iterations of a worker's event loop.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{hint, mem};

use super::bound::{LostSubscriber, Server};
use super::endpoint::Endpoint;
use super::inbox::{Inbox, Notices};
use super::link::{Dialled, LinkStatus};
use super::poller::{Clock, Poller};
use crate::sys::log::log;
use crate::sys::process::schedule_as_batch;
use crate::zmtp::{Exchange, Origin, Subscriptions, WireMessage};

/// Messages that are taken in a turn. At some 0.2 µs each, this takes 0.1 ms.
const BATCH_MESSAGES: u64 = 512;

/// Longest wait while messages wait for somebody. The descriptor of a libzmq socket announces no room if the attempt to
/// send has itself consumed the announcement. And the longer a wait, the more of a pause of the process counts as time.
const FULL_RECHECK: Duration = Duration::from_millis(100);

/// What the bus thread tells the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// The status of an endpoint that the bus connects to has changed. It receives messages only while it is connected:
    /// otherwise they wait, or go to the other endpoints.
    Link(Endpoint, LinkStatus),
    /// A subscriber of a bound endpoint was disconnected.
    LostSubscriber(LostSubscriber),
    /// A message was posted whose topic nobody has asked for so far. Each topic is reported once, and few are.
    Unsubscribed {
        /// The endpoint that the bus connects to; `None` for the bound ones.
        endpoint: Option<Endpoint>,
        /// The topic of the message.
        topic: String,
        /// Whether somebody subscribes to everything there, and so gets the message.
        is_taken: bool,
    },
}

pub(super) struct BusThread {
    pub(super) dialled: Vec<Dialled>,
    pub(super) exchange: Exchange,
    /// It has no places for peers if nothing is bound.
    pub(super) server: Server,
    pub(super) inbox: Arc<Inbox>,
    /// Messages that were taken from the inbox.
    pub(super) batch: VecDeque<WireMessage>,
    /// What was found in the inbox with them.
    pub(super) notices: Notices,
    pub(super) on_event: Box<dyn Fn(BusEvent) + Send>,
    pub(super) poller: Poller,
    pub(super) clock: Clock,
}

impl BusThread {
    /// Runs until the queue is closed and all is written, or the deadline of the stop has passed.
    pub(super) fn run(mut self) {
        schedule_as_batch();
        let mut is_more = true;
        loop {
            self.collect(is_more);
            let now = self.clock.now;
            is_more = self.turn(now);
            // What had happened at the sockets is known, and what there was room for was written, so that a pause of the
            // process counts for nobody.
            is_more |= self.server.end_stalled(self.notices.has_refused, &mut self.exchange, now);
            for lost in self.server.reports.lost.drain(..) {
                (self.on_event)(BusEvent::LostSubscriber(lost));
            }
            self.give_back(now);
            if let Some(stop_at) = self.notices.stop_at
                && (self.is_done(is_more, now) || Instant::now() >= stop_at)
            {
                return self.close(stop_at);
            }
        }
    }

    /// Takes what was posted, and then finds out what has happened: what arrived before a message was posted is read
    /// before the message is matched. Waits until something happens or is due if there is nothing to do.
    fn collect(&mut self, is_more: bool) {
        self.notices = self.inbox.take(&mut self.batch, !is_more);
        let may_wait = self.notices.is_parked && !(self.dialled.iter().any(Dialled::is_due) && self.read_events());
        let mut is_libzmq_ready = if may_wait {
            let until = self.next_deadline();
            self.clock.wait(&mut self.poller, until)
        } else {
            self.clock.advance();
            self.poller.poll()
        };
        if self.notices.is_parked {
            self.notices = self.inbox.take(&mut self.batch, false);
            if self.is_bound() && !self.batch.is_empty() {
                is_libzmq_ready |= self.poller.poll();
            }
        }
        self.poller.changes.drain(..).for_each(|(token, flags)| self.server.on_ready(token, flags));
        if is_libzmq_ready || self.dialled.iter().any(Dialled::is_due) {
            self.read_events();
        }
    }

    /// Reads the events of the dialled sockets. Returns whether one of them was connected or disconnected.
    fn read_events(&mut self) -> bool {
        let Self { dialled, inbox, on_event, exchange, server, .. } = self;
        let mut has_changed = false;
        for (index, dialled) in dialled.iter_mut().enumerate() {
            for status in dialled.read_events(&inbox.waker, &|address| server.has_peer_at(address)) {
                has_changed = true;
                // What the link says counts. The exchange, which has no link, and the inbox, for workers, get a copy.
                exchange.set_connected(index, status.is_ok());
                inbox.set_connected(index, status.is_ok());
                on_event(BusEvent::Link(dialled.link.address.clone(), status));
            }
        }
        has_changed
    }

    /// Reads from peers, matches messages, and hands them over. Returns whether there is more to do at once.
    fn turn(&mut self, now: Duration) -> bool {
        if self.is_bound() {
            self.server.take_in(&mut self.exchange, &self.poller, now);
        }
        let count = self.batch.len().min(BATCH_MESSAGES as usize);
        // Of many messages at once, the last one is noted: a person posts one at a time.
        if let Some(last) = count.checked_sub(1).and_then(|last| self.batch.get(last)) {
            self.exchange.note_topic(last.topic());
        }
        // Other cores wrote the messages. One pass that reads a byte of each lets these cache misses overlap.
        let first_bytes = self.batch.iter().take(count).filter_map(|message| message.topic().first());
        hint::black_box(first_bytes.fold(0, |all, byte| all ^ byte));
        for message in self.batch.drain(..count) {
            self.exchange.take(message, Origin::Posted, now);
        }
        let mut is_more = !self.batch.is_empty();
        for (index, dialled) in self.dialled.iter_mut().enumerate() {
            let handed = self.exchange.hand_over(index, BATCH_MESSAGES, |message| dialled.try_send(message));
            is_more |= handed == BATCH_MESSAGES;
        }
        self.is_bound() && self.server.give_out(&mut self.exchange, now) || is_more
    }

    /// Tells other threads how it stands, and gives back what nobody needs any more: whoever sees that a message was
    /// published sees what came of it, too.
    fn give_back(&mut self, now: Duration) {
        let freed = self.exchange.take_freed();
        if self.is_bound() {
            self.server.reports.hub_counters.forwarded.add(freed.forwarded);
            self.inbox.set_subscribers(self.exchange.totals(now));
        }
        let is_stalled = self.is_stalled();
        if freed.posted > 0 || is_stalled != self.notices.is_stalled {
            self.inbox.give_back(freed.posted, freed.posted_weight_bytes, is_stalled);
        }
        self.report_subscriptions(now);
    }

    /// Reports the topics to which nobody has subscribed, and logs all subscriptions if that was asked for.
    fn report_subscriptions(&mut self, now: Duration) {
        let Exchange { subscriptions, unsubscribed_topics, .. } = &mut self.exchange;
        let dialled = self.dialled.iter_mut();
        let of_dialled =
            dialled.map(|it| (Some(&it.link.address), it.subscriptions.as_ref(), &mut it.unsubscribed_topics));
        for (endpoint, asked_for, topics) in of_dialled.chain([(None, Some(&*subscriptions), unsubscribed_topics)]) {
            for topic in topics.take_new() {
                let topic = String::from_utf8_lossy(&topic).into_owned();
                let is_taken = asked_for.is_none_or(Subscriptions::have_everything);
                (self.on_event)(BusEvent::Unsubscribed { endpoint: endpoint.cloned(), topic, is_taken });
            }
        }
        if !self.inbox.log_wanted.swap(false, Ordering::Relaxed) {
            return;
        }
        for Dialled { link, subscriptions, .. } in &self.dialled {
            let shown: &dyn Display = subscriptions.as_ref().map_or(&"too many to list", |shown| shown);
            log(format_args!("subscriptions at {}: {shown}", link.address));
        }
        if self.is_bound() {
            log(format_args!("subscriptions at the bound endpoints: {}", self.exchange.subscriptions));
            self.server.log_late(&mut self.exchange, now);
        }
    }

    /// Returns whether the oldest posted message waits for a peer that has no room.
    fn is_stalled(&mut self) -> bool {
        let (subscribers, waits_for_dialled) = self.exchange.oldest_waits_for(Origin::Posted, Duration::MAX);
        waits_for_dialled && self.dialled.iter().any(|dialled| dialled.is_full) || self.server.is_blocked(subscribers)
    }

    /// Begins to stop. Returns whether nothing is left to be done before the sockets are closed.
    fn is_done(&mut self, is_more: bool, now: Duration) -> bool {
        let has_read_all = !self.is_bound() || self.server.read_last(&self.exchange, now);
        !is_more && has_read_all && self.exchange.messages() == 0 && self.inbox.is_empty()
    }

    /// Closes the sockets. What is on its way is still written until `stop_at`.
    fn close(mut self, stop_at: Instant) {
        let dialled = mem::take(&mut self.dialled);
        self.server.close_all(self.clock.now);
        let mut is_more = true;
        while !self.server.is_empty() && Instant::now() < stop_at {
            self.collect(is_more);
            is_more = self.turn(self.clock.now);
        }
        // This removes the files of its Unix sockets, before libzmq may block until everything is sent.
        drop(self.server);
        dialled.into_iter().for_each(|dialled| dialled.close(stop_at));
    }

    /// A bus that only dials does no work for peers in its turns.
    fn is_bound(&self) -> bool {
        self.server.places.subscribers > 0
    }

    /// Returns when the thread must work even if nothing happens.
    fn next_deadline(&mut self) -> Option<Instant> {
        let now = self.clock.now;
        let of_links = self.dialled.iter().filter_map(Dialled::deadline).min();
        let has_waiting = !self.exchange.waiting().is_empty() || self.dialled.iter().any(|dialled| dialled.is_full);
        let recheck = has_waiting.then(|| Instant::now() + FULL_RECHECK);
        let of_server = self.server.deadline(&self.exchange, now).map(|due| self.clock.instant_of(due));
        [of_links, recheck, of_server, self.notices.stop_at].into_iter().flatten().min()
    }
}
