//! The bus thread, which alone touches the sockets. It works in turns, each of which takes a bounded number of messages
//! into the log of [`Exchange`], hands them over, and works for each peer a bounded time.
//!
//! The thread never delays a message to send more of them together, and does not interrupt the worker that wakes it
//! ([`schedule_as_batch`]), so that under load it finds the messages of several iterations of a worker's event loop.

use std::collections::VecDeque;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::bound::{LostSubscriber, Server};
use super::endpoint::Endpoint;
use super::inbox::{Inbox, Notices};
use super::link::{Dialled, LinkStatus};
use super::poller::{Clock, Poller, WaitEnd};
use crate::sys::log::log;
use crate::sys::memory::MEMORY;
use crate::sys::process::schedule_as_batch;
use crate::zmtp::{Exchange, WireMessage};

/// Messages that are taken in a turn. At some 0.2 µs each, this takes 0.1 ms.
const BATCH_MESSAGES: u64 = 512;

/// Longest wait while messages wait for somebody. The descriptor of a libzmq socket announces no room if the attempt to
/// send has itself consumed the announcement. And the longer a wait, the more of a pause of the process counts as time.
const FULL_RECHECK: Duration = Duration::from_millis(100);

/// A hub that is being stopped assumes that nothing more is on its way when publishers have sent nothing for so long.
const QUIET: Duration = Duration::from_millis(500);

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
    pub(super) context: Option<zmq::Context>,
    pub(super) dialled: Vec<Dialled>,
    /// The index of the first of them among the endpoints of the inbox.
    pub(super) first_dialled: usize,
    pub(super) exchange: Exchange,
    pub(super) server: Option<Server>,
    pub(super) inbox: Arc<Inbox>,
    /// Messages that were taken from the inbox.
    pub(super) batch: VecDeque<WireMessage>,
    /// What was found in the inbox with them.
    pub(super) notices: Notices,
    pub(super) on_event: Box<dyn Fn(BusEvent) + Send>,
    pub(super) poller: Poller,
    pub(super) clock: Clock,
    /// When the bus stops: how many messages publishers had sent, and when they have been quiet for long enough.
    pub(super) quiet: Option<(usize, Duration)>,
    /// Something was sent to a dialled socket since its events were read.
    pub(super) has_sent: bool,
}

impl BusThread {
    /// Runs until the queue is closed and all is written, or the deadline of the stop has passed.
    pub(super) fn run(mut self) {
        schedule_as_batch();
        let mut is_more = true;
        loop {
            let end = self.look(is_more);
            let now = self.clock.now();
            if end != WaitEnd::Waker || self.dialled.iter().any(Dialled::is_due) {
                self.read_events();
            }
            is_more = self.turn(now);
            // What happened at the sockets was looked at, and what there was room for was written, so that a pause of
            // the process counts for nobody.
            is_more |= self.end_stalled(now);
            self.give_back(now);
            if self.is_finished(is_more, now) {
                break;
            }
        }
        self.close();
    }

    /// Takes what was posted, and then looks what has happened: what arrived before a message was posted is read before
    /// the message is matched. Waits until something happens or is due if there is nothing to do.
    fn look(&mut self, is_more: bool) -> WaitEnd {
        self.notices = self.inbox.take(&mut self.batch, !is_more);
        // To send a message may have consumed the edge that would have announced an event.
        let may_wait = self.notices.is_parked && !(self.has_sent && self.read_events());
        let mut end = if may_wait {
            let until = self.next_deadline();
            self.clock.wait(&mut self.poller, until)
        } else {
            self.clock.advance();
            self.poller.look()
        };
        if self.notices.is_parked {
            self.notices = self.inbox.take(&mut self.batch, false);
            if self.server.is_some() && !self.batch.is_empty() {
                end = end.max(self.poller.look());
            }
        }
        if let Some(server) = &mut self.server {
            self.poller.changes().for_each(|ready| server.on_ready(&ready));
        }
        end
    }

    /// Reads the events of the dialled sockets. Returns whether one of them was connected or disconnected.
    fn read_events(&mut self) -> bool {
        let Self { dialled, first_dialled, inbox, on_event, exchange, .. } = self;
        let (now, mut has_changed) = (Instant::now(), false);
        for (index, dialled) in dialled.iter_mut().enumerate() {
            let endpoint = dialled.link.address.clone();
            dialled.read_events(now, &inbox.waker, &mut |status| {
                has_changed = true;
                // What the link says counts. The exchange, which has no link, and the inbox, for workers, get a copy.
                exchange.set_connected(index, status.is_ok());
                inbox.set_connected(*first_dialled + index, status.is_ok());
                on_event(BusEvent::Link(endpoint.clone(), status));
            });
        }
        self.has_sent = false;
        has_changed
    }

    /// Reads from peers, matches messages, and hands them over. Returns whether there is more to do at once.
    fn turn(&mut self, now: Duration) -> bool {
        if let Some(server) = &mut self.server {
            server.take_in(&mut self.exchange, &self.poller, now);
        }
        let count = self.batch.len().min(BATCH_MESSAGES as usize);
        // Of many messages at once, the last one is looked at: a person posts one at a time.
        if let Some(last) = count.checked_sub(1).and_then(|last| self.batch.get(last)) {
            self.exchange.note_topic(last.topic());
        }
        // Other cores wrote the messages. One pass that reads a byte of each lets these cache misses overlap.
        let first_bytes = self.batch.iter().take(count).filter_map(|message| message.topic().first());
        hint::black_box(first_bytes.fold(0, |all, byte| all ^ byte));
        for message in self.batch.drain(..count) {
            self.exchange.post(message, now);
        }
        let mut is_more = !self.batch.is_empty();
        for (index, dialled) in self.dialled.iter_mut().enumerate() {
            let handed = self.exchange.hand_over(index, BATCH_MESSAGES, |message| dialled.try_send(message));
            self.has_sent |= handed > 0 || dialled.is_full;
            is_more |= handed == BATCH_MESSAGES;
        }
        if let Some(server) = &mut self.server {
            is_more |= server.give_out(&mut self.exchange, now);
        }
        is_more
    }

    fn end_stalled(&mut self, now: Duration) -> bool {
        let Some(server) = &mut self.server else { return false };
        let has_ended = server.end_stalled(self.notices.has_refused, &mut self.exchange, now);
        for lost in server.reports.lost.drain(..) {
            (self.on_event)(BusEvent::LostSubscriber(lost));
        }
        has_ended
    }

    /// Tells other threads how it stands, and gives back what nobody needs any more: whoever sees that a message was
    /// published sees what came of it, too.
    fn give_back(&mut self, now: Duration) {
        self.note_held();
        let freed = self.exchange.take_freed();
        if let Some(server) = &self.server {
            server.reports.hub_counters.forwarded.add(freed.forwarded);
            self.inbox.set_subscribers(self.exchange.totals(now));
        }
        let is_stalled = self.is_stalled();
        if freed.posted > 0 || is_stalled != self.notices.is_stalled {
            self.inbox.give_back(freed.posted, freed.posted_weight_bytes, is_stalled);
            self.notices.bytes -= freed.posted_weight_bytes;
        }
        self.note_held();
        self.tell_subscriptions(now);
    }

    fn note_held(&self) {
        let unfinished_bytes = self.server.as_ref().map_or(0, |server| server.unfinished_bytes);
        let held_bytes = || self.notices.bytes + self.exchange.held_bytes() + unfinished_bytes;
        MEMORY.note_held(&MEMORY.bus, held_bytes);
    }

    /// Reports the topics to which nobody has subscribed, and logs all subscriptions if that was asked for.
    fn tell_subscriptions(&mut self, now: Duration) {
        let Exchange { subscriptions, unsubscribed_topics, .. } = &mut self.exchange;
        let of_dialled =
            self.dialled.iter_mut().map(|it| (Some(&it.link.address), &it.subscriptions, &mut it.unsubscribed_topics));
        for (endpoint, subscriptions, topics) in of_dialled.chain([(None, &*subscriptions, unsubscribed_topics)]) {
            for topic in topics.take_new() {
                let topic = String::from_utf8_lossy(&topic).into_owned();
                let is_taken = subscriptions.have_everything();
                (self.on_event)(BusEvent::Unsubscribed { endpoint: endpoint.cloned(), topic, is_taken });
            }
        }
        if !self.inbox.log_wanted.swap(false, Ordering::Relaxed) {
            return;
        }
        for dialled in &self.dialled {
            log(format_args!("subscriptions at {}: {}", dialled.link.address, dialled.subscriptions));
        }
        if let Some(server) = &self.server {
            log(format_args!("subscriptions at the bound endpoints: {}", self.exchange.subscriptions));
            server.log_late(&mut self.exchange, now);
        }
    }

    /// Returns whether the oldest posted message waits for a peer that has no room.
    fn is_stalled(&mut self) -> bool {
        let (subscribers, waits_for_dialled) = self.exchange.oldest_waits_for();
        waits_for_dialled && self.dialled.iter().any(|dialled| dialled.is_full)
            || self.server.as_ref().is_some_and(|server| server.is_blocked(subscribers))
    }

    /// Returns whether nothing is left to be done before the sockets are closed, or the time is over.
    fn is_finished(&mut self, is_more: bool, now: Duration) -> bool {
        if self.notices.stop_at.is_none() {
            return false;
        }
        let mut is_quiet = true;
        if let Some(server) = &mut self.server {
            server.stop_accepting();
            let received = server.received_messages;
            if server.is_receiving() || self.quiet.is_none_or(|(before, _)| before != received) {
                let pause = if server.publishers > 0 { QUIET } else { Duration::ZERO };
                self.quiet = Some((received, now + pause));
            }
            is_quiet = self.quiet.is_some_and(|(_, quiet_at)| now >= quiet_at);
        }
        let is_done = !is_more && self.notices.bytes == 0 && self.exchange.messages() == 0 && is_quiet;
        is_done || is_over(self.notices.stop_at)
    }

    /// Closes the sockets. What is on its way is still written until the time is over.
    fn close(mut self) {
        let stop_at = self.notices.stop_at;
        self.dialled.into_iter().for_each(|dialled| dialled.close(stop_at));
        // It removes the files of its Unix sockets when it is dropped, before libzmq may block.
        if let Some(mut server) = self.server.take() {
            server.close_all(&mut self.exchange, self.clock.now());
            loop {
                let now = self.clock.now();
                server.take_in(&mut self.exchange, &self.poller, now);
                let is_more = server.give_out(&mut self.exchange, now);
                if server.is_empty() || is_over(stop_at) {
                    break;
                }
                let due = if is_more { Some(now) } else { server.deadline(now) };
                let until = due.map(|due| self.clock.instant_of(due)).into_iter().chain(stop_at).min();
                self.clock.wait(&mut self.poller, until);
                self.poller.changes().for_each(|ready| server.on_ready(&ready));
            }
        }
        drop(self.context); // blocks until everything is sent or the time is over
    }

    /// Returns when the thread must work even if nothing happens.
    fn next_deadline(&mut self) -> Option<Instant> {
        let now = self.clock.now();
        let of_links = self.dialled.iter().filter_map(Dialled::deadline).min();
        let has_waiting = !self.exchange.waiting().is_empty() || self.dialled.iter().any(|dialled| dialled.is_full);
        let recheck = has_waiting.then(|| Instant::now() + FULL_RECHECK);
        let of_server = self.server.as_ref().and_then(|server| server.deadline(now));
        let quiet = self.quiet.map(|(_, quiet_at)| quiet_at).filter(|due| *due > now);
        let [of_server, quiet] = [of_server, quiet].map(|due| due.map(|due| self.clock.instant_of(due)));
        [of_links, recheck, of_server, quiet, self.notices.stop_at].into_iter().flatten().min()
    }
}

fn is_over(stop_at: Option<Instant>) -> bool {
    stop_at.is_some_and(|stop_at| Instant::now() >= stop_at)
}
