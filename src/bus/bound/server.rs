//! The peers of bound endpoints, and a turn of the loop for them, which works for each only so much, in rotation.

mod inbound;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::time::Duration;

use super::Places;
use super::listener::{Accepted, Listeners, REFUSED_PAUSE};
use super::peer::{Peer, PeerId, Phase};
use super::reports::{Excess, LostSubscriber, PeerReports};
use crate::bus::config::{BusConfig, BusError};
use crate::bus::endpoint::Endpoint;
use crate::bus::poller::{FIRST_TOKEN, Poller, Ready};
use crate::sys::log::{log, warning};
use crate::terms::limits::MAX_TOPIC_BYTES;
use crate::zmtp::{
    Exchange, GREETING, GREETING_VERSION_BYTES, Origin, PeerSession, PlaceSet, Reservations, SocketRole,
};

/// Connections that are accepted from one listener in a turn.
const ACCEPTED_AT_ONCE: usize = 16;

/// Bytes that are read from a publisher at once, and at most from any peer.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// The time for a handshake. It is one round trip.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a peer that gets nothing more is waited for.
const CLOSING_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the oldest message must have waited for a subscriber that is listed as late.
const LATE_AFTER: Duration = Duration::from_secs(1);

/// Late subscribers that are listed, at most.
const LOGGED_LATE: usize = 20;

#[derive(Default)]
pub(in crate::bus) struct Server {
    listeners: Listeners,
    peers: BTreeMap<PeerId, Peer>,
    next_id: PeerId,
    pub(in crate::bus) places: Places,
    /// The peers in their handshake, the oldest first, with their deadlines.
    handshakes: VecDeque<(PeerId, Duration)>,
    pub(in crate::bus) publishers: usize,
    /// By place.
    subscribers: BTreeMap<u8, PeerId>,
    /// The places of subscribers that have left, until the exchange forgets them.
    left: PlaceSet,
    /// Peers that may have something to read, in rotation.
    readable: VecDeque<PeerId>,
    left_bytes: usize,
    reservations: Reservations,
    /// What the sessions hold of messages that have not arrived whole, in bytes.
    pub(in crate::bus) unfinished_bytes: usize,
    /// Peers that get nothing more, with the times until which they are waited for.
    closing: VecDeque<(PeerId, Duration)>,
    pub(in crate::bus) reports: PeerReports,
    /// The number of messages that publishers have sent.
    pub(in crate::bus) received_messages: usize,
    payload_bytes: u64,
    stall_timeout: Duration,
    read_buffer: Vec<u8>,
    write_buffer: Vec<u8>,
}

impl Server {
    /// Listens at the endpoints that are to be bound. Returns `None` if there are none.
    pub(in crate::bus) fn open(config: &BusConfig, poller: &Poller) -> Result<Option<Self>, BusError> {
        let listeners = Listeners::open(config, poller)?;
        if listeners.all.is_empty() {
            return Ok(None);
        }
        let places = Places::of(config.max_peers);
        Ok(Some(Self {
            next_id: FIRST_TOKEN + listeners.all.len() as u64,
            listeners,
            places,
            payload_bytes: config.payload_bytes,
            stall_timeout: config.stall_timeout,
            reservations: Reservations::new(
                usize::try_from(config.payload_bytes).unwrap_or(usize::MAX).saturating_add(MAX_TOPIC_BYTES),
            ),
            read_buffer: vec![0; READ_BUFFER_BYTES],
            ..Self::default()
        }))
    }

    /// Returns the endpoints in the order of [`super::super::Bus::bound`], each with what its peers do.
    pub(in crate::bus) fn endpoints(&self) -> impl Iterator<Item = (Endpoint, SocketRole)> {
        self.listeners.all.iter().map(|listener| (listener.endpoint.clone(), listener.peers))
    }

    pub(in crate::bus) fn on_ready(&mut self, ready: &Ready) {
        if let Some(listener) = self.listeners.with_token(ready.token) {
            listener.may_accept = true;
            return;
        }
        let Some(peer) = self.peers.get_mut(&ready.token) else { return };
        peer.is_writable |= ready.may_write;
        peer.has_ended |= ready.has_ended;
        // Commands that wait are written before a peer is read.
        if (ready.may_read || !peer.commands.is_empty()) && !peer.is_queued {
            peer.is_queued = true;
            self.readable.push_back(peer.id);
        }
    }

    /// Accepts connections, and reads from each peer that is ready, a bounded time in all.
    pub(in crate::bus) fn take_in(&mut self, exchange: &mut Exchange, poller: &Poller, now: Duration) {
        self.accept(poller, now);
        self.read(exchange, now);
    }

    /// Writes to each peer that is ready, and ends those that are overdue. Returns whether there is more to do at once.
    pub(in crate::bus) fn give_out(&mut self, exchange: &mut Exchange, now: Duration) -> bool {
        let mut is_more = self.listeners.may_accept(now) | self.write(exchange);
        self.end_overdue(now);
        self.forget_left(exchange);
        // Peers that were not looked at may have commands that can be written, or may be read again after a write.
        is_more |= self.left_bytes == 0 && !self.readable.is_empty();
        is_more || self.readable.iter().any(|id| self.may_read(*id, exchange))
    }

    fn accept(&mut self, poller: &Poller, now: Duration) {
        for index in 0..self.listeners.all.len() {
            for _ in 0..ACCEPTED_AT_ONCE {
                match self.listeners.accept(index, now) {
                    Ok(Some(accepted)) => self.greet(accepted, index, poller, now),
                    Ok(None) => break,
                    Err(error) => {
                        self.reports.report(&Excess::Accept(error.into()), &"peers", (&self.listeners, index), now);
                    }
                }
            }
        }
    }

    fn greet(&mut self, accepted: Accepted, listener: usize, poller: &Poller, now: Duration) {
        let Some(role) = self.listeners.all.get(listener).map(|listener| listener.peers) else { return };
        let mut peer = Peer::new(self.next_id, accepted, listener, PeerSession::new(role, self.payload_bytes));
        let (version, rest) = GREETING.split_at(GREETING_VERSION_BYTES);
        // A new connection has room for it.
        if peer.write([version, &[]]) != Ok(version.len()) {
            return;
        }
        peer.commands.extend_from_slice(rest);
        if let Err(error) = poller.add(peer.socket.as_fd(), peer.id) {
            self.listeners.accepts_from = Some(now + REFUSED_PAUSE);
            self.report(&Excess::Accept(error), &peer, now);
            return;
        }
        self.next_id += 1;
        self.handshakes.push_back((peer.id, now + HANDSHAKE_TIMEOUT));
        // What it has sent already is read in this turn.
        peer.is_queued = true;
        self.readable.push_back(peer.id);
        self.peers.insert(peer.id, peer);
        if self.handshakes.len() > self.places.handshakes
            && let Some((oldest, _)) = self.handshakes.pop_front()
        {
            self.end_for(&Excess::Handshakes, oldest, now);
        }
    }

    /// Writes one batch to each subscriber for which messages wait. Returns whether there is more to write at once.
    fn write(&mut self, exchange: &mut Exchange) -> bool {
        let mut is_more = false;
        for place in exchange.waiting().iter() {
            let Some(&id) = self.subscribers.get(&place) else { continue };
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            match peer.write_batch(exchange, &mut self.write_buffer) {
                Ok(is_left) => is_more |= is_left,
                Err(_) => self.end(id),
            }
        }
        is_more
    }

    fn subscriber_at(&self, place: u8) -> Option<&Peer> {
        self.peers.get(self.subscribers.get(&place)?)
    }

    /// Returns whether one of the subscribers at these places has no room.
    pub(in crate::bus) fn is_blocked(&self, places: PlaceSet) -> bool {
        places.iter().filter_map(|place| self.subscriber_at(place)).any(|peer| !peer.is_writable)
    }

    /// Logs the subscribers for which the oldest message has waited for a while.
    pub(in crate::bus) fn log_late(&self, exchange: &mut Exchange, now: Duration) {
        let [posted, forwarded] =
            [Origin::Posted, Origin::Forwarded].map(|origin| exchange.overdue(origin, LATE_AFTER, now));
        let late = posted.iter().chain(forwarded.iter().filter(|place| !posted.contains(*place)));
        for (place, peer) in late.filter_map(|place| Some((place, self.subscriber_at(place)?))).take(LOGGED_LATE) {
            log(format_args!("{} messages wait for the subscriber {peer}", exchange.waiting_at(place)));
        }
    }

    /// Disconnects subscribers that hold others up for too long. Returns whether there was one.
    pub(in crate::bus) fn end_stalled(&mut self, has_refused: bool, exchange: &mut Exchange, now: Duration) -> bool {
        let mut has_ended = false;
        let held_up = [(Origin::Posted, has_refused), (Origin::Forwarded, exchange.is_full())];
        for (origin, _) in held_up.into_iter().filter(|(_, is_held_up)| *is_held_up) {
            for place in exchange.overdue(origin, self.stall_timeout, now).iter() {
                let id = self.subscribers.get(&place);
                let Some(peer) = id.and_then(|id| self.peers.remove(id)) else { continue };
                self.reports.counters.stalled.add(1);
                let after_s = self.stall_timeout.as_secs_f64();
                let reason = format!("a message waited for it for longer than {after_s} s while others were refused");
                warning(format_args!("the bus disconnects the subscriber {peer}: {reason}"));
                self.report_lost(&peer, reason, exchange);
                self.close(peer, now);
                has_ended = true;
            }
            self.forget_left(exchange);
        }
        has_ended
    }

    /// Reports to the program that a peer is disconnected, if that is a subscriber.
    fn report_lost(&mut self, peer: &Peer, reason: String, exchange: &mut Exchange) {
        let Some(listener) = self.listeners.all.get(peer.listener) else { return };
        let Phase::Subscriber(place) = peer.phase else { return };
        exchange.acknowledged(place, peer.unacknowledged_bytes());
        let (endpoint, peer, lost_messages) = (listener.endpoint.clone(), peer.to_string(), exchange.lost(place));
        self.reports.lost.push(LostSubscriber { endpoint, peer, reason, lost_messages });
    }

    fn report(&mut self, excess: &Excess, peer: &Peer, now: Duration) -> bool {
        self.reports.report(excess, peer, (&self.listeners, peer.listener), now)
    }

    fn end_for(&mut self, excess: &Excess, id: PeerId, now: Duration) {
        if let Some(mut peer) = self.peers.remove(&id) {
            self.report(excess, &peer, now);
            self.leave(&mut peer);
        }
    }

    pub(in crate::bus) fn stop_accepting(&mut self) {
        self.listeners.accepts_from = None;
    }

    pub(in crate::bus) fn close_all(&mut self, exchange: &mut Exchange, now: Duration) {
        std::mem::take(&mut self.peers).into_values().for_each(|peer| self.close(peer, now));
        self.forget_left(exchange);
    }

    /// Returns whether a publisher is in the middle of a message.
    pub(in crate::bus) fn is_receiving(&self) -> bool {
        let mut publishers = self.peers.values().filter(|peer| peer.phase == Phase::Publisher);
        publishers.any(|peer| peer.session.as_ref().is_some_and(|session| !session.is_between_messages()))
    }

    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Writes nothing more to a peer, and waits for its end.
    fn close(&mut self, mut peer: Peer, now: Duration) {
        self.leave(&mut peer);
        if peer.phase != Phase::Closing {
            peer.close();
            self.closing.push_back((peer.id, now + CLOSING_TIMEOUT));
        }
        if !peer.is_queued {
            peer.is_queued = true;
            self.readable.push_back(peer.id);
        }
        self.peers.insert(peer.id, peer);
    }

    fn end(&mut self, id: PeerId) {
        if let Some(mut peer) = self.peers.remove(&id) {
            self.leave(&mut peer);
        }
    }

    fn leave(&mut self, peer: &mut Peer) {
        self.unfinished_bytes -= peer.session.take().map_or(0, |session| session.unfinished_bytes());
        match peer.phase {
            Phase::Handshake => self.handshakes.retain(|(id, _)| *id != peer.id),
            Phase::Publisher => {
                self.publishers -= 1;
                self.reservations.release(peer.id);
            }
            Phase::Subscriber(place) => {
                self.left.insert(place);
                self.subscribers.remove(&place);
            }
            Phase::Closing => {}
        }
    }

    /// Lets the exchange forget who has left: once in a turn, since it goes through what waits.
    fn forget_left(&mut self, exchange: &mut Exchange) {
        if !self.left.is_empty() {
            exchange.leave(std::mem::take(&mut self.left));
        }
    }

    fn end_overdue(&mut self, now: Duration) {
        let is_stopping = self.listeners.accepts_from.is_none();
        while let Some((id, _)) = self.handshakes.pop_front_if(|(_, deadline)| *deadline <= now) {
            self.end(id);
        }
        while let Some((id, _)) = self.closing.pop_front_if(|(_, until)| *until <= now) {
            // The peer may not have got all of it. The stop has a deadline of its own.
            if is_stopping && self.peers.get(&id).is_some_and(|peer| peer.unacknowledged_bytes() > 0) {
                self.closing.push_back((id, now + CLOSING_TIMEOUT));
            } else {
                self.end(id);
            }
        }
    }

    /// Returns when [`Server::give_out`] must be called even if nothing happens.
    pub(in crate::bus) fn deadline(&self, now: Duration) -> Option<Duration> {
        let handshake = self.handshakes.front().map(|(_, deadline)| *deadline);
        let closing = self.closing.front().map(|(_, until)| *until);
        [handshake, closing, self.reservations.deadline(), self.listeners.deadline(now)].into_iter().flatten().min()
    }
}
