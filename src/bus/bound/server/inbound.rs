//! What peers send: who is read, how much, and what comes of it.

use std::time::Duration;

use rustix::io::Errno;

use super::super::peer::{Peer, PeerId, Phase};
use super::super::reports::Excess;
use super::{READ_BUFFER_BYTES, Server};
use crate::zmtp::{Exchange, PeerEvent, SUBSCRIBE_TO_EVERYTHING, SocketRole, put_pong, ready};

/// Bytes that are read from another peer at once. They hold some hundred subscriptions.
const READ_BYTES: usize = 8 * 1024;

/// Bytes that are read in a turn, after which messages are sent first. It takes about a millisecond.
const TURN_BYTES: usize = 256 * 1024;

/// What a message, which may have five bytes, counts beside them: for itself, and for each subscriber that it goes to.
const MESSAGE_COST_BYTES: usize = 128;
const DELIVERY_COST_BYTES: usize = 16;
/// What a change of subscriptions counts beside its bytes, since it takes as long as some messages.
const SUBSCRIPTION_COST_BYTES: usize = 96;

/// Bytes of commands that may wait for a peer. Beyond them, it is not read until it has taken some of them.
const COMMANDS_BYTES: usize = 4 * 1024;

impl Server {
    /// Reads from the peers that may have something to read, in rotation.
    pub(super) fn read(&mut self, exchange: &mut Exchange, now: Duration) {
        self.left_bytes = TURN_BYTES;
        let mut left_peers = self.readable.len();
        while left_peers > 0 && self.left_bytes > 0 {
            left_peers -= 1;
            let Some(id) = self.readable.pop_front() else { break };
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            if peer.write_commands(exchange).is_err() {
                self.end(id);
            } else if !self.may_read(id, exchange) {
                self.readable.push_back(id);
            } else if let Some(mut peer) = self.peers.remove(&id) {
                let Some(is_more) = self.read_peer(&mut peer, exchange, now) else {
                    self.leave(&mut peer);
                    continue;
                };
                peer.is_queued = is_more;
                if is_more {
                    self.readable.push_back(id);
                    // What has arrived counts before what is posted, but the message of a publisher does not.
                    if peer.phase != Phase::Publisher {
                        left_peers = self.readable.len();
                    }
                }
                self.peers.insert(id, peer);
            }
        }
        self.end_slow_publishers(exchange, now);
    }

    /// Returns whether a peer may be read now: it takes its answers, and there is room for what it sends.
    pub(super) fn may_read(&self, id: PeerId, exchange: &Exchange) -> bool {
        let Some(peer) = self.peers.get(&id) else { return false };
        let has_room = match peer.phase {
            Phase::Publisher => !exchange.is_full() && self.reservations.may_read(id),
            // The exchange forgets all who leave in a turn together, at its end. Their places are free from then on.
            Phase::Handshake => self.left.is_empty() || exchange.has_place(),
            Phase::Subscriber(_) | Phase::Closing => true,
        };
        has_room && peer.commands.len() < COMMANDS_BYTES
    }

    /// Reads once. Returns whether there may be more to read, or `None` if the peer does not stay.
    fn read_peer(&mut self, peer: &mut Peer, exchange: &mut Exchange, now: Duration) -> Option<bool> {
        let most_bytes = if peer.phase == Phase::Publisher { READ_BUFFER_BYTES } else { READ_BYTES };
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let read = peer.read(buffer.get_mut(..most_bytes).unwrap_or_default());
        let bytes = read.unwrap_or_default();
        // Over ipc, a read also ends where a descriptor is attached.
        let is_ipc = peer.address.is_none();
        let stays = match read {
            Err(Errno::AGAIN) => true,
            Ok(0) | Err(_) => false,
            Ok(bytes) => self.receive(peer, buffer.get(..bytes).unwrap_or_default(), exchange, now),
        };
        self.read_buffer = buffer;
        self.charge(bytes);
        // Over tcp, nothing is left where a part of the buffer is free, and the peer is announced when more comes. Its
        // end is announced once, and only another read shows it.
        stays.then_some(bytes == most_bytes || (bytes > 0 && (is_ipc || peer.has_ended)))
    }

    /// Handles what was read from a peer. Returns whether it stays.
    fn receive(&mut self, peer: &mut Peer, read: &[u8], exchange: &mut Exchange, now: Duration) -> bool {
        if peer.phase == Phase::Closing {
            return true;
        }
        let Some(mut session) = peer.session.take() else { return false };
        self.unfinished_bytes -= session.unfinished_bytes();
        self.reservations.received(peer.id, read.len());
        let result = session.receive(read, &mut |event| self.handle(peer, event, exchange, now));
        if let Err(fault) = result {
            let reason = format!("it {fault}");
            let excess = if peer.phase == Phase::Handshake { Excess::Stranger } else { Excess::BrokenProtocol };
            // A subscriber is reported to the program as often as to the log.
            if self.report(&excess(fault), peer, now) {
                self.report_lost(peer, reason, exchange);
            }
            return false;
        }
        if session.is_ready() && peer.phase == Phase::Handshake {
            self.report(&Excess::Place, peer, now);
            return false;
        }
        self.unfinished_bytes += session.unfinished_bytes();
        peer.session = Some(session);
        peer.write_commands(exchange).is_ok()
    }

    fn handle(&mut self, peer: &mut Peer, event: PeerEvent<'_>, exchange: &mut Exchange, now: Duration) {
        match (event, peer.phase) {
            // READY follows the greeting of the peer, so that a stranger gets no more than a greeting.
            (PeerEvent::Greeting(role), _) => peer.commands.extend_from_slice(ready(role)),
            (PeerEvent::Ready, _) => self.enter(peer, exchange),
            (PeerEvent::Subscribe(prefix), Phase::Subscriber(place)) => {
                self.charge(SUBSCRIPTION_COST_BYTES);
                if exchange.subscriptions.subscribe(place, prefix).is_err() {
                    self.report(&Excess::Subscription, peer, now);
                }
            }
            (PeerEvent::Cancel(prefix), Phase::Subscriber(place)) => {
                self.charge(SUBSCRIPTION_COST_BYTES);
                exchange.subscriptions.cancel(place, prefix);
            }
            (PeerEvent::LongMessage(bytes), Phase::Publisher) => self.reservations.announce(peer.id, bytes),
            (PeerEvent::Message(message), Phase::Publisher) => {
                self.reservations.release(peer.id);
                self.received_messages += 1;
                let subscribers = exchange.forward(message, now);
                self.charge(MESSAGE_COST_BYTES + subscribers * DELIVERY_COST_BYTES);
            }
            (PeerEvent::Dropped, phase @ (Phase::Publisher | Phase::Subscriber(_))) => {
                self.reservations.release(peer.id);
                self.charge(MESSAGE_COST_BYTES);
                let role = if phase == Phase::Publisher { SocketRole::Publishes } else { SocketRole::Subscribes };
                self.report(&Excess::Message(role), peer, now);
            }
            (PeerEvent::Ping(context), _) => put_pong(&mut peer.commands, context),
            // There is no place for it.
            (_, Phase::Handshake | Phase::Closing) => {}
            (PeerEvent::Subscribe(_) | PeerEvent::Cancel(_), Phase::Publisher)
            | (PeerEvent::LongMessage(_) | PeerEvent::Message(_), Phase::Subscriber(_)) => {
                debug_assert!(false, "a session reports what fits its role");
            }
        }
    }

    /// Takes so much from what may be read in this turn.
    fn charge(&mut self, cost_bytes: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(cost_bytes);
    }

    /// Gives a peer its place, if there is one.
    fn enter(&mut self, peer: &mut Peer, exchange: &mut Exchange) {
        let Some(listener) = self.listeners.all.get(peer.listener) else { return };
        match listener.peers {
            SocketRole::Publishes if self.publishers < self.places.publishers => {
                self.publishers += 1;
                peer.phase = Phase::Publisher;
                peer.commands.extend_from_slice(SUBSCRIBE_TO_EVERYTHING);
            }
            SocketRole::Publishes => return,
            SocketRole::Subscribes => {
                let Some(place) = exchange.join(listener.is_of_hub) else { return };
                peer.phase = Phase::Subscriber(place);
                let former = self.subscribers.insert(place, peer.id);
                debug_assert_eq!(former, None, "{place} is that of another");
            }
        }
        self.handshakes.retain(|(id, _)| *id != peer.id);
    }

    /// Ends publishers of which long messages come too slowly while others wait. All of a publisher was read if it is
    /// not queued, and nothing is read if it takes no answers.
    fn end_slow_publishers(&mut self, exchange: &Exchange, now: Duration) {
        let is_drained = |peer: &Peer| !peer.is_queued || peer.commands.len() >= COMMANDS_BYTES;
        let may_be_late = |id| !exchange.is_full() && self.peers.get(&id).is_some_and(is_drained);
        for id in self.reservations.take_late(now, may_be_late) {
            self.end_for(&Excess::SlowMessage, id, now);
        }
    }
}
