//! What peers send: who is read and how much of it, and what comes of it.

use std::time::Duration;

use super::admission::{Admission, HubCounters, LossReason, PeerNotice};
use super::peer::{Peer, Phase, ReadEnd};
use super::server::{Listener, PeerKey, READ_BUFFER_BYTES, Server, UNFINISHED_TIMEOUT, key_of, peer_of};
use crate::zmtp::{Exchange, GREETING_BYTES, PeerEvent, SUBSCRIBE_TO_EVERYTHING, SocketRole, handshake, put_pong};

/// Bytes that are read from another peer at once. They hold some hundred subscriptions.
const READ_BYTES: usize = 8 * 1024;

/// Bytes that are read in a turn, after which messages are sent first. It takes about a millisecond.
const TURN_BYTES: usize = 256 * 1024;

/// Bytes of commands that may wait for a peer. Beyond them, it is not read until it has taken some of them.
const COMMANDS_BYTES: usize = 4 * 1024;

/// Bytes of messages that have not arrived whole, of all publishers together. Beyond them, the publisher whose message is
/// the oldest is read alone.
const UNFINISHED_BYTES: usize = 16 * 1024 * 1024;

impl Server {
    /// Reads from the peers that may have something to read, in rotation. Returns whether more is to be read.
    pub(super) fn read(&mut self, exchange: &mut Exchange, now: Duration) -> bool {
        self.release_held(exchange, now);
        let mut left_bytes = TURN_BYTES;
        for _ in 0..self.readable.len() {
            if left_bytes == 0 {
                break;
            }
            let Some(key) = self.readable.pop_front() else { break };
            self.write_commands(key, exchange);
            if !self.may_read(key, exchange) {
                self.held.push_back(key);
                continue;
            }
            let Some(peer) = peer_of(&mut self.peers, key) else { continue };
            let most_bytes = if peer.phase == Phase::Publisher { READ_BUFFER_BYTES } else { READ_BYTES };
            let buffer = self.read_buffer.get_mut(..most_bytes).unwrap_or_default();
            match peer.read(buffer) {
                ReadEnd::Blocked => peer.is_queued = false,
                ReadEnd::Ended => self.drop_peer(key),
                ReadEnd::Bytes(bytes) => {
                    left_bytes = left_bytes.saturating_sub(bytes);
                    // Where a part of the buffer is free, nothing is left, and the peer is announced when more comes. Its end
                    // is announced once, and only another read tells it.
                    if bytes == most_bytes || peer.has_ended {
                        self.readable.push_back(key);
                    } else {
                        peer.is_queued = false;
                    }
                    self.receive(key, bytes, exchange, now);
                }
            }
        }
        !self.readable.is_empty()
    }

    /// Handles what was read from a peer.
    fn receive(&mut self, key: PeerKey, bytes: usize, exchange: &mut Exchange, now: Duration) {
        if !self.admission.has_place_for_subscriber() {
            self.forget_left(exchange);
        }
        let Some(peer) = peer_of(&mut self.peers, key) else { return };
        let Some(listener) = self.listeners.get(peer.listener) else { return };
        if peer.phase == Phase::Closing {
            return;
        }
        let read = self.read_buffer.get(..bytes).unwrap_or_default();
        // READY follows the greeting of the peer, so that a stranger gets no more than a greeting.
        if peer.greeting_left > 0 {
            peer.greeting_left = peer.greeting_left.saturating_sub(bytes);
            if peer.greeting_left == 0 {
                peer.commands.extend_from_slice(handshake(listener.peers).split_at(GREETING_BYTES).1);
            }
        }
        let mut hearing = Hearing {
            phase: &mut peer.phase,
            commands: &mut peer.commands,
            listener,
            admission: &mut self.admission,
            hub_counters: &self.hub_counters,
            exchange,
            heard_publisher: false,
            is_refused: false,
            now,
        };
        let result = peer.session.receive(read, &mut |event| hearing.on(event));
        self.heard_publisher |= hearing.heard_publisher;
        let is_refused = hearing.is_refused;
        if let Phase::Subscriber(place) = peer.phase
            && let Some(subscriber) = self.subscribers.get_mut(usize::from(place))
        {
            debug_assert!(subscriber.is_none_or(|other| other == key), "{place} is that of another");
            *subscriber = Some(key);
        }
        if peer.phase != Phase::Handshake {
            self.admission.end_handshake(key);
        }
        match result {
            Err(_) => self.end_faulty(key, exchange, now),
            Ok(()) if is_refused => self.drop_peer(key),
            Ok(()) => {
                self.count_unfinished(key, now);
                self.write_commands(key, exchange);
            }
        }
    }

    /// Ends the connection of a peer that does not speak the protocol. Subscribers among them are reported as often as the
    /// log tells of them.
    fn end_faulty(&mut self, key: PeerKey, exchange: &mut Exchange, now: Duration) {
        let Some(peer) = peer_of(&mut self.peers, key) else { return };
        let phase = peer.phase;
        if phase == Phase::Handshake {
            self.admission.tell(PeerNotice::Stranger, now);
        } else {
            self.admission.counters.disconnected.add(1);
            if self.admission.tell(PeerNotice::BrokenProtocol, now)
                && let Phase::Subscriber(place) = phase
            {
                self.report_lost(place, LossReason::BrokenProtocol, exchange);
            }
        }
        self.drop_peer(key);
    }

    /// Takes note of how much of a message of a publisher has arrived.
    fn count_unfinished(&mut self, key: PeerKey, now: Duration) {
        let Some(peer) = peer_of(&mut self.peers, key).filter(|peer| peer.phase == Phase::Publisher) else { return };
        let bytes = peer.session.unfinished_bytes();
        let (bytes_before, since) = peer.unfinished.unwrap_or((0, now));
        peer.unfinished = (bytes > 0).then_some((bytes, since));
        self.unfinished_bytes = self.unfinished_bytes + bytes - bytes_before;
        if self.unfinished_bytes > UNFINISHED_BYTES {
            self.unfinished_since.get_or_insert(now);
        }
    }

    /// Returns whether a peer may be read now: it takes its answers, and there is room for what it sends.
    pub(super) fn may_read(&self, key: PeerKey, exchange: &Exchange) -> bool {
        let Some(peer) = self.peers.get(key.index as usize) else { return true };
        let has_room = || !exchange.is_full() && (self.unfinished_since.is_none() || self.is_oldest_unfinished(key));
        peer.commands.len() < COMMANDS_BYTES && (peer.phase != Phase::Publisher || has_room())
    }

    fn is_oldest_unfinished(&self, key: PeerKey) -> bool {
        let unfinished = self.peers.iter().filter_map(|(_, peer)| Some((peer.unfinished?.1, peer.generation)));
        unfinished.min().is_none_or(|(_, generation)| generation == key.generation)
    }

    /// Looks again at peers that had to wait. Ends publishers that do not complete their messages while others wait.
    fn release_held(&mut self, exchange: &Exchange, now: Duration) {
        if self.unfinished_bytes <= UNFINISHED_BYTES {
            self.unfinished_since = None;
        }
        if exchange.is_full() {
            // No publisher is read, so none is late.
            self.unfinished_since = self.unfinished_since.map(|_| now);
        } else if self.unfinished_since.is_some_and(|since| now >= since + UNFINISHED_TIMEOUT) {
            self.end_unfinished(now);
            self.unfinished_since = None;
        }
        self.readable.append(&mut self.held);
    }

    /// Ends all publishers of whose unfinished message nothing more has arrived.
    fn end_unfinished(&mut self, now: Duration) {
        let is_idle = |peer: &Peer| peer.unfinished.is_some() && !peer.is_queued;
        let idle = self.peers.iter().filter(|(_, peer)| is_idle(peer));
        let idle: Vec<_> = idle.filter_map(|(index, peer)| key_of(index, peer)).collect();
        for key in idle {
            self.admission.counters.disconnected.add(1);
            self.admission.tell(PeerNotice::Unfinished, now);
            self.drop_peer(key);
        }
    }
}

/// What a peer says, while it is read.
struct Hearing<'s> {
    phase: &'s mut Phase,
    commands: &'s mut Vec<u8>,
    listener: &'s Listener,
    admission: &'s mut Admission<PeerKey>,
    hub_counters: &'s HubCounters,
    exchange: &'s mut Exchange,
    heard_publisher: bool,
    /// There is no place for it.
    is_refused: bool,
    now: Duration,
}

impl Hearing<'_> {
    fn on(&mut self, event: PeerEvent<'_>) {
        if self.is_refused {
            return;
        }
        match (event, *self.phase) {
            (PeerEvent::Ready, _) => self.is_refused = !self.enter(),
            (PeerEvent::Subscribe(prefix), Phase::Subscriber(place)) => {
                if self.exchange.subscriptions.subscribe(place, prefix).is_err() {
                    self.admission.refuse_subscription(self.now);
                }
            }
            (PeerEvent::Cancel(prefix), Phase::Subscriber(place)) => {
                self.exchange.subscriptions.cancel(place, prefix);
            }
            (PeerEvent::RefusedSubscription, _) => self.admission.refuse_subscription(self.now),
            (PeerEvent::Ping(context), _) => put_pong(self.commands, context),
            (PeerEvent::Message(message), Phase::Publisher) => {
                self.heard_publisher = true;
                self.exchange.forward(message, self.now);
            }
            (PeerEvent::Dropped, Phase::Publisher) => self.hub_counters.dropped.add(1),
            (PeerEvent::Dropped, _) => self.admission.counters.messages_dropped.add(1),
            (PeerEvent::Subscribe(_) | PeerEvent::Cancel(_) | PeerEvent::Message(_), _) => {
                debug_assert!(false, "a session tells what fits its role, after the handshake");
            }
        }
    }

    /// Gives a peer its place, if there is one.
    fn enter(&mut self) -> bool {
        match self.listener.peers {
            SocketRole::Publishes if self.admission.admit_publisher(self.now) => {
                *self.phase = Phase::Publisher;
                self.commands.extend_from_slice(SUBSCRIBE_TO_EVERYTHING);
                true
            }
            SocketRole::Subscribes if self.admission.admit_subscriber(self.now) => {
                let place = self.exchange.join(self.listener.hears_publishers);
                debug_assert!(place.is_some(), "the exchange has a place for each subscriber that is admitted");
                *self.phase = place.map_or(Phase::Handshake, Phase::Subscriber);
                place.is_some()
            }
            SocketRole::Publishes | SocketRole::Subscribes => false,
        }
    }
}
