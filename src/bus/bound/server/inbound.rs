//! What peers send: who is read, how much, and what comes of it.

use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, recv};

use super::super::peer::{Peer, PeerId, Phase};
use super::super::reports::{Excess, PeerReports};
use super::{Intake, QUIET, Server};
use crate::zmtp::{
    Exchange, Heartbeat, Origin, PeerEvent, PeerSession, Reservations, SocketRole, put_pong, ready,
    subscribe_to_everything,
};

/// Bytes that are read at once from peers that are no publishers. They hold some hundred subscriptions.
const READ_BYTES: usize = 8 * 1024;

/// Bytes that are read in a turn, after which messages are sent first. It takes about a millisecond.
const TURN_BYTES: usize = 256 * 1024;

/// What it costs, in the same bytes, to read once from all publishers that have sent something. It takes some
/// milliseconds, for which one that has just sent something waits.
const ROTATION_BYTES: usize = 2 * 1024 * 1024;

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
        self.turn_bytes = TURN_BYTES;
        self.reservations.advance(now, !exchange.is_full());
        let mut left_peers = self.peers.readable.len();
        while left_peers > 0 && self.turn_bytes > 0 {
            left_peers -= 1;
            let Some(id) = self.peers.readable.pop_front() else { break };
            let Some(peer) = self.peers.all.get_mut(&id) else { continue };
            if peer.write_commands(exchange).is_err() {
                self.end(id);
            } else if !self.may_read(id, exchange) {
                self.peers.readable.push_back(id);
            } else if let Some(phase) = self.read_peer(id, exchange, now) {
                self.peers.readable.push_back(id);
                // What has arrived counts before what is posted, but the message of a publisher does not.
                let is_publisher = matches!(phase, Phase::Publisher(_));
                left_peers = if is_publisher { left_peers } else { self.peers.readable.len() };
            }
        }
        if exchange.is_full() {
            return;
        }
        // A publisher whose long message is late ends. All of it was read if it is not queued, and nothing is read if it
        // takes no answers.
        let is_drained = |peer: &Peer| !peer.is_queued || peer.commands.len() >= COMMANDS_BYTES;
        for id in self.reservations.take_late(|id| self.peers.all.get(&id).is_some_and(is_drained)) {
            self.end_for(&Excess::SlowMessage, id, now);
        }
    }

    /// Returns whether a peer may be read now: it takes its answers, and there is room for what it sends.
    pub(super) fn may_read(&self, id: PeerId, exchange: &Exchange) -> bool {
        let Some(peer) = self.peers.all.get(&id) else { return false };
        let has_room = match peer.phase {
            Phase::Publisher(_) => {
                let is_wanted = !matches!(self.intake, Intake::Rest) || peer.wanted_at_stop() > 0;
                is_wanted && !exchange.is_full() && self.reservations.may_read(id)
            }
            // The exchange forgets all who leave in a turn together, at its end. Their places are free from then on.
            Phase::Handshake(_) => self.left.is_empty() || exchange.has_place(),
            Phase::Subscriber(_) | Phase::Closing(_) => true,
        };
        has_room && peer.commands.len() < COMMANDS_BYTES
    }

    /// Reads once, and ends a peer that does not stay. Returns its phase if there may be more to read.
    fn read_peer(&mut self, id: PeerId, exchange: &mut Exchange, now: Duration) -> Option<Phase> {
        let (readable, may_publish) = (self.peers.readable.len(), self.may_publish(id));
        let Self { peers, reports, reservations, read_buffer, intake, .. } = self;
        let peer = peers.all.get_mut(&id)?;
        let most_bytes = match peer.phase {
            Phase::Publisher(_) if matches!(intake, Intake::Rest) => peer.read_bytes.min(peer.wanted_at_stop()),
            Phase::Publisher(_) => peer.read_bytes,
            _ => READ_BYTES,
        };
        // A read into no buffer would look like the end of the connection.
        debug_assert!(most_bytes > 0);
        let (buffer, _) = read_buffer.split_at_mut(most_bytes);
        let read = retry_on_intr(|| recv(&peer.socket, &mut *buffer, RecvFlags::DONTWAIT)).map(|(bytes, _)| bytes);
        // After an error, nothing was read.
        let bytes = read.unwrap_or(0);
        let mut inbound = Inbound { exchange, reservations, reports, may_publish, cost_bytes: bytes, now };
        let stays = match read {
            Err(Errno::AGAIN) => true,
            Ok(0) | Err(_) => {
                if peer.session.as_ref().is_some_and(PeerSession::awaits_ready) {
                    inbound.report(&Excess::Unfit, peer);
                }
                false
            }
            Ok(bytes) => inbound.receive(peer, buffer.split_at(bytes).0),
        };
        let cost_bytes = inbound.cost_bytes;
        self.turn_bytes = self.turn_bytes.saturating_sub(cost_bytes);
        // Over ipc, a read also ends where a descriptor is attached. Over tcp, nothing is left where a part of the buffer
        // is free, and the peer is announced when more comes. Its end is announced once, and only another read shows it.
        peer.is_queued = bytes == most_bytes || (bytes > 0 && (peer.address.is_none() || peer.has_ended));
        peer.left_at_stop = peer.left_at_stop.saturating_sub(bytes);
        match peer.phase {
            Phase::Publisher(_) => {
                peer.adapt_read(bytes, cost_bytes, ROTATION_BYTES / (readable + 1));
                if let (Intake::Last { quiet_at, .. }, 1..) = (intake, bytes) {
                    *quiet_at = now + QUIET;
                }
            }
            Phase::Subscriber(place) => drop(peers.subscribers.insert(place, id)),
            Phase::Handshake(_) | Phase::Closing(_) => {}
        }
        if !stays {
            self.end(id);
            return None;
        }
        peer.is_queued.then_some(peer.phase)
    }

    /// Returns whether there is a place for this peer if it is a publisher in its handshake.
    fn may_publish(&self, id: PeerId) -> bool {
        self.peers.all.get(&id).is_some_and(Peer::is_in_handshake) && {
            let ended = self.peers.publishers().filter(|peer| peer.has_ended).count();
            self.peers.publishers().count() - ended < self.places.publishers && ended <= self.places.ended
        }
    }
}

/// What the bytes of a peer change beside the peer.
struct Inbound<'a> {
    exchange: &'a mut Exchange,
    reservations: &'a mut Reservations,
    reports: &'a mut PeerReports,
    /// There is a place for a publisher.
    may_publish: bool,
    /// What it costs to handle them.
    cost_bytes: usize,
    now: Duration,
}

impl Inbound<'_> {
    fn report(&mut self, excess: &Excess, peer: &Peer) {
        self.reports.report(excess, peer, &peer.side, self.now);
    }

    /// Handles what was read from a peer. Returns whether it stays.
    fn receive(&mut self, peer: &mut Peer, read: &[u8]) -> bool {
        // What a peer sends that is closing is dropped.
        let Some(mut session) = peer.session.take() else { return true };
        let result = session.receive(read, &mut |event| self.handle(peer, event));
        if let Err(fault) = result {
            let excess = if peer.is_in_handshake() { Excess::Stranger } else { Excess::BrokenProtocol };
            self.reports.report_end(&excess(fault), peer, self.exchange, self.now);
            return false;
        }
        if session.is_ready() && peer.is_in_handshake() {
            self.report(&Excess::Place, peer);
            return false;
        }
        peer.session = Some(session);
        peer.write_commands(self.exchange).is_ok()
    }

    fn handle(&mut self, peer: &mut Peer, event: PeerEvent<'_>) {
        match (event, &mut peer.phase) {
            // READY follows the greeting of the peer, so that a stranger gets no more than a greeting.
            (PeerEvent::Greeting(role), _) => peer.commands.extend_from_slice(ready(role)),
            (PeerEvent::Ready { takes_commands }, _) => self.enter(peer, takes_commands),
            (PeerEvent::Subscribe(prefix), &mut Phase::Subscriber(place)) => {
                self.cost_bytes += SUBSCRIPTION_COST_BYTES;
                if !self.exchange.subscriptions.subscribe(place, prefix) {
                    self.report(&Excess::Subscription, peer);
                }
            }
            (PeerEvent::Cancel(prefix), &mut Phase::Subscriber(place)) => {
                self.cost_bytes += SUBSCRIPTION_COST_BYTES;
                self.exchange.subscriptions.cancel(place, prefix);
            }
            (PeerEvent::LongMessage(bytes), Phase::Publisher(_)) => self.reservations.announce(peer.id, bytes),
            (PeerEvent::Message(message), Phase::Publisher(_)) => {
                self.reservations.release(peer.id);
                let subscribers = self.exchange.take(message, Origin::Forwarded, self.now).len();
                self.cost_bytes += MESSAGE_COST_BYTES + subscribers * DELIVERY_COST_BYTES;
            }
            (PeerEvent::Dropped, Phase::Publisher(_) | Phase::Subscriber(_)) => {
                self.reservations.release(peer.id);
                self.cost_bytes += MESSAGE_COST_BYTES;
                self.report(&Excess::Message, peer);
            }
            (PeerEvent::Ping(context), phase) => {
                if let Phase::Publisher(heartbeat) = phase {
                    heartbeat.ping(self.now);
                }
                put_pong(&mut peer.commands, context);
            }
            // There is no place for it.
            (_, Phase::Handshake(_) | Phase::Closing(_)) => {}
            (PeerEvent::Subscribe(_) | PeerEvent::Cancel(_), Phase::Publisher(_))
            | (PeerEvent::LongMessage(_) | PeerEvent::Message(_), Phase::Subscriber(_)) => {
                debug_assert!(false, "a session reports what fits its role");
            }
        }
    }

    /// Gives a peer its place, if there is one.
    fn enter(&mut self, peer: &mut Peer, takes_commands: bool) {
        if peer.side.peers == SocketRole::Publishes {
            if self.may_publish {
                peer.phase = Phase::Publisher(Heartbeat::new(self.now));
                peer.commands.extend_from_slice(subscribe_to_everything(takes_commands));
            }
        } else if let Some(place) = self.exchange.join(peer.side.is_of_hub) {
            peer.phase = Phase::Subscriber(place);
        }
    }
}
