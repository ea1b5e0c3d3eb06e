//! A hub that the bus dials: an XPUB socket of libzmq, and the link to the hub. `docs/design.md` says why XPUB.
//!
//! `ZMQ_IMMEDIATE` stays off on purpose: with it, libzmq destroys the pipe, and every message in it, whenever the
//! connection is lost. Without it, what was handed over is sent to the hub when it is back. Before the first
//! subscription nothing may be sent into the pipe, which would drop it: [`Link`] says when the hub counts as connected.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use super::socket::receive;
use super::state::LinkEvent;
use super::{Link, LinkStatus};
use crate::bus::endpoint::Endpoint;
use crate::bus::ffi::{self, Frame};
use crate::bus::poller::{Poller, Waker};
use crate::terms::limits::MAX_TOPIC_BYTES;
use crate::terms::noted_topics::NotedTopics;
use crate::zmtp::{PeerEvent, SocketRole, Subscriptions, WireMessage, read_subscription};

/// Subscriptions that are read at once. A hub that subscribes without an end must not keep the thread from sending.
const READ_AT_ONCE: usize = 1_024;

/// The hub is the only subscriber in its [`Subscriptions`].
const HUB: u8 = 0;

pub(in crate::bus) struct Dialled {
    pub(in crate::bus) link: Link,
    /// The last message was refused, on the connection that there is.
    pub(in crate::bus) is_full: bool,
    /// The hub has subscribed, and its pipe does not get everything yet.
    is_subscribing: bool,
    /// Perhaps there is something to read that libzmq does not announce: there was more than is read at once, or to send
    /// a message has consumed the announcement.
    is_unread: bool,
    /// What the hub subscribes to on this connection, for the log alone: messages are not filtered by it. `None` if that
    /// is more than is kept.
    pub(in crate::bus) subscriptions: Option<Subscriptions>,
    /// The topics of messages that were sent and that none of these asks for.
    pub(in crate::bus) unsubscribed_topics: NotedTopics,
}

impl Dialled {
    /// Begins to connect. At most `pipe_messages` messages wait in libzmq. `poller` waits for what
    /// [`Dialled::read_events`] reads, and for room in a full pipe.
    pub(in crate::bus) fn connect(
        context: &zmq::Context,
        endpoint: &Endpoint,
        pipe_messages: NonZero<u16>,
        poller: &Poller,
    ) -> io::Result<Self> {
        let mut socket = context.socket(zmq::XPUB)?;
        ffi::set_nodrop_and_manual(&mut socket)?;
        socket.set_sndhwm(pipe_messages.get().into())?; // 0 would mean no bound at all
        // No `ZMQ_MAXMSGSIZE`: a hub passes on what its subscribers subscribe to, again after each disconnect.
        let link = Link::connect(context, socket, endpoint, SocketRole::Subscribes, poller)?;
        Ok(Self {
            link,
            is_full: false,
            is_subscribing: false,
            is_unread: false,
            subscriptions: Some(Subscriptions::default()),
            unsubscribed_topics: NotedTopics::default(),
        })
    }

    /// Hands a whole message to libzmq. Returns false, and must be repeated, if the pipe is full or no memory is left.
    pub(in crate::bus) fn try_send(&mut self, message: &WireMessage) -> bool {
        (self.is_full, self.is_unread) = (!self.send(message), true);
        // A hub that subscribes to everything by itself does not say what its subscribers ask for.
        let says_more = |of: &&Subscriptions| !of.have_everything() || of.prefixes() > 1;
        let subscriptions = self.subscriptions.as_ref().filter(says_more);
        if !self.is_full && subscriptions.is_some_and(|of| !of.ask_for(message.topic())) {
            self.unsubscribed_topics.note(message.topic());
        }
        !self.is_full
    }

    /// libzmq 4.3.4, as read in `xpub.cpp`, `dist.cpp` and `pipe.cpp`: with `NODROP` each frame is checked against the
    /// pipes that matched the topic, and a pipe counts whole messages only. So the topic frame is refused while the
    /// pipe is full, and once it is accepted, the payload is too. A pipe that ends in between takes its topic frame
    /// with it, and one that appears in between gets nothing of this message. So the hub never sees half a message.
    fn send(&mut self, message: &WireMessage) -> bool {
        // Both frames are made before one is sent.
        let Some(mut topic) = Frame::copy_of(message.topic()) else { return false };
        let payload = match message.kept_payload() {
            Some((buffer, part)) => Frame::part_of(buffer, part.clone()),
            None => Frame::copy_of(message.payload()),
        };
        let Some(mut payload) = payload else { return false };
        let socket = &mut self.link.socket;
        // A socket that sends reads its commands only every 3,000,000 ticks of the processor, so there may be room that
        // it does not know of. To ask for its events makes it read them.
        if !(topic.send(socket, true) || socket.get_events().is_ok() && topic.send(socket, true)) {
            return false;
        }
        // Otherwise the next topic would be sent as the payload of this one.
        assert!(payload.send(socket, false), "libzmq refuses no payload after it has accepted its topic");
        self.link.taken_messages[0] += 1;
        true
    }

    /// Reads what happened to the connection and what the hub subscribes to, as [`Link::update`] does.
    pub(crate) fn read_events(&mut self, waker: &Arc<Waker>, is_own: &dyn Fn(SocketAddr) -> bool) -> Vec<LinkStatus> {
        // The events of the link are read first. A subscription that is read after the loss of its connection does no
        // harm: the pipe gets everything. One of a new connection that is read before that loss would be forgotten.
        let mut statuses = self.link.update(waker, is_own);
        if statuses.iter().any(Result::is_err) {
            // The hub subscribes anew on its next connection, and the next message finds out whether there is room.
            (self.subscriptions, self.is_full) = (Some(Subscriptions::default()), false);
        }
        self.is_unread = (0..READ_AT_ONCE).all(|_| self.read_subscription());
        // libzmq applies this to the pipe that the last frame came from. It keeps a pointer to that pipe, also after
        // the end of the pipe, until the frames are read that it adds then. So everything is read first.
        if self.is_subscribing && !self.is_unread {
            self.is_subscribing = false;
            let subscribed = self.link.socket.set_subscribe(b"");
            debug_assert!(subscribed.is_ok(), "{subscribed:?}");
            statuses.extend(self.link.state.on_event(LinkEvent::Subscription, Instant::now()));
        }
        statuses
    }

    /// Reads a subscription, which an XPUB socket receives as a message. Returns whether there was one.
    fn read_subscription(&mut self) -> bool {
        let frames = receive(&self.link.socket);
        let Some(frame) = frames.as_ref().and_then(|frames| frames.first()) else { return false };
        match read_subscription(false, frame) {
            Some(PeerEvent::Subscribe(prefix)) => {
                self.is_subscribing = true;
                // No topic is so long.
                let is_kept = |of: &mut Subscriptions| prefix.len() > MAX_TOPIC_BYTES || of.subscribe(HUB, prefix);
                self.subscriptions.take_if(|of| !is_kept(of));
            }
            Some(PeerEvent::Cancel(prefix)) => self.subscriptions.iter_mut().for_each(|of| of.cancel(HUB, prefix)),
            _ => {}
        }
        true
    }

    /// Returns whether [`Dialled::read_events`] must be called although libzmq may announce nothing: for room in a full
    /// pipe, for the reports of a probe, which set the waker, or for the time.
    pub(in crate::bus) fn is_due(&self) -> bool {
        let is_over = |deadline| deadline <= Instant::now();
        self.is_unread || self.is_full || self.link.probe.is_some() || self.link.deadline().is_some_and(is_over)
    }

    /// Returns when [`Dialled::read_events`] must be called even if nothing happens.
    pub(in crate::bus) fn deadline(&self) -> Option<Instant> {
        if self.is_unread { Some(Instant::now()) } else { self.link.deadline() }
    }

    /// Closes the socket. libzmq continues to send until `stop_at`.
    pub(in crate::bus) fn close(self, stop_at: Instant) {
        let left = stop_at.saturating_duration_since(Instant::now());
        let set = self.link.socket.set_linger(left.as_millis().try_into().unwrap_or(i32::MAX));
        debug_assert!(set.is_ok(), "libzmq takes every linger time from 0 on");
    }
}

#[cfg(test)]
mod tests;
