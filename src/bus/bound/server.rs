//! A turn of the loop for the peers of bound endpoints, which works for each only so much, in rotation.

mod inbound;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::ioctl_fionread;
use rustix::net::Shutdown;

use super::Places;
use super::listener::{ACCEPT_PAUSE, Accepted, Listeners};
use super::peer::{LEAST_READ_BYTES, Peer, PeerId, Peers, Phase, READ_BUFFER_BYTES};
use super::reports::{Excess, PeerReports};
use crate::bus::config::{BusConfig, BusError};
use crate::bus::liveness::CHECK_PAUSE;
use crate::bus::poller::{FIRST_TOKEN, Poller};
use crate::sys::log::log;
use crate::terms::limits::MAX_TOPIC_BYTES;
use crate::zmtp::{
    Exchange, GREETING, GREETING_VERSION_BYTES, Origin, PeerSession, PlaceSet, Reservations, SocketRole, put_pong,
};

/// Connections that are accepted from one listener in a turn.
const ACCEPTED_AT_ONCE: usize = 16;

/// The time for a handshake. It is one round trip.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause in which it is asked again who is not read and gets a `PONG`.
const PONGS_PAUSE: Duration = Duration::from_millis(20);

/// How long a peer that gets nothing more is waited for.
const CLOSING_TIMEOUT: Duration = Duration::from_millis(500);

/// How long publishers have been silent when nothing that they had sent at the stop is on its way any more.
const QUIET: Duration = Duration::from_millis(50);
/// How long publishers that go on are read at the stop.
const LAST_READS: Duration = Duration::from_millis(300);

/// What is read of publishers.
#[derive(Clone, Copy, Debug, Default)]
enum Intake {
    /// All that they send.
    #[default]
    All,
    /// The bus stops: all that they send until they have been quiet, or until the second time at most.
    Last { quiet_at: Duration, until: Duration },
    /// What had come when the bus began to stop, and what ends a message that has begun.
    Rest,
}

#[derive(Default)]
pub(in crate::bus) struct Server {
    listeners: Listeners,
    peers: Peers,
    next_id: PeerId,
    pub(in crate::bus) places: Places,
    /// The places of subscribers that have left, until the exchange forgets them.
    left: PlaceSet,
    reservations: Reservations,
    pub(in crate::bus) reports: PeerReports,
    /// What may still be read in this turn, in bytes.
    turn_bytes: usize,
    /// When it is due to find out whether machines have vanished.
    check_at: Duration,
    intake: Intake,
    payload_bytes: u64,
    stall_timeout: Duration,
    read_buffer: Vec<u8>,
    write_buffer: Vec<u8>,
}

impl Server {
    /// Listens at the endpoints that are to be bound. If there are none, it has no places for peers.
    pub(in crate::bus) fn open(config: &BusConfig, poller: &Poller) -> Result<Self, BusError> {
        let listeners = Listeners::open(config, poller)?;
        if listeners.all.is_empty() {
            return Ok(Self::default());
        }
        let mut reports = PeerReports::default();
        reports.sides.extend(listeners.all.iter().map(|listener| Arc::clone(&listener.side)));
        Ok(Self {
            next_id: FIRST_TOKEN + listeners.all.len() as u64,
            listeners,
            reports,
            places: Places::of(config.max_peers),
            payload_bytes: config.payload_bytes,
            stall_timeout: config.stall_timeout,
            reservations: Reservations::new(
                usize::try_from(config.payload_bytes).unwrap_or(usize::MAX).saturating_add(MAX_TOPIC_BYTES),
            ),
            read_buffer: vec![0; READ_BUFFER_BYTES],
            ..Self::default()
        })
    }

    pub(in crate::bus) fn on_ready(&mut self, token: u64, flags: EventFlags) {
        // The tokens of listeners are less than those of peers.
        let index = usize::try_from(token - FIRST_TOKEN).unwrap_or(usize::MAX);
        if let Some(listener) = self.listeners.all.get_mut(index) {
            listener.may_accept = true;
            return;
        }
        let Some(peer) = self.peers.all.get_mut(&token) else { return };
        peer.is_writable |= flags.contains(EventFlags::OUT);
        peer.has_ended |= flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        // An end is read, too. Commands that wait are written before a peer is read.
        if flags.intersects(!EventFlags::OUT) || !peer.commands.is_empty() {
            self.peers.queue(token);
        }
    }

    /// Accepts connections, and reads from each peer that is ready, a bounded time in all.
    pub(in crate::bus) fn take_in(&mut self, exchange: &mut Exchange, poller: &Poller, now: Duration) {
        let has_accepted = self.accept(poller, now);
        self.read(exchange, now);
        // What those have sent that were accepted just now was read.
        let handshakes = if has_accepted { self.peers.in_handshake().count() } else { 0 };
        for _ in self.places.handshakes..handshakes {
            self.least_welcome().into_iter().for_each(|id| self.end_for(&Excess::Handshakes, id, now));
        }
    }

    /// Writes to each peer that is ready, and ends those that are overdue. Returns whether there is more to do at once.
    pub(in crate::bus) fn give_out(&mut self, exchange: &mut Exchange, now: Duration) -> bool {
        let mut is_more = self.write(exchange);
        is_more |= self.listeners.is_accepting(now) && self.listeners.all.iter().any(|listener| listener.may_accept);
        self.send_pongs(exchange, now);
        self.end_overdue(now);
        self.end_vanished(exchange, now);
        // Once in a turn, since the exchange goes through what waits.
        if !self.left.is_empty() {
            exchange.leave(std::mem::take(&mut self.left));
        }
        self.check();
        // Peers that were not reached may have commands that can be written, or may be read again after a write.
        is_more |= self.turn_bytes == 0 && !self.peers.readable.is_empty();
        is_more || self.peers.readable.iter().any(|id| self.may_read(*id, exchange))
    }

    /// Returns whether a connection was accepted.
    fn accept(&mut self, poller: &Poller, now: Duration) -> bool {
        let mut has_accepted = false;
        for index in 0..self.listeners.all.len() {
            for _ in 0..ACCEPTED_AT_ONCE {
                match self.listeners.accept(index, now) {
                    Ok(Some(accepted)) => {
                        has_accepted = true;
                        self.greet(accepted, poller, now);
                    }
                    Ok(None) => break,
                    Err((error, side)) => {
                        self.reports.report(&Excess::Accept(error.into()), &"peers", &side, now);
                    }
                }
            }
        }
        has_accepted
    }

    fn greet(&mut self, (socket, address, side): Accepted, poller: &Poller, now: Duration) {
        let id = self.next_id;
        let mut peer = Peer {
            id,
            socket,
            address,
            phase: Phase::Handshake(now + HANDSHAKE_TIMEOUT),
            session: Some(PeerSession::new(side.peers, self.payload_bytes)),
            side,
            commands: Vec::new(),
            is_queued: true,
            is_writable: true,
            has_ended: false,
            read_bytes: LEAST_READ_BYTES,
            left_at_stop: 0,
        };
        let (version, rest) = GREETING.split_at(GREETING_VERSION_BYTES);
        // A new connection has room for it.
        if peer.write([version, &[]]) != Ok(version.len()) {
            return;
        }
        peer.commands.extend_from_slice(rest);
        if let Err(error) = poller.add(peer.socket.as_fd(), id) {
            self.listeners.accepts_from = Some(now + ACCEPT_PAUSE);
            self.reports.report(&Excess::Accept(error), &peer, &peer.side, now);
            return;
        }
        self.next_id += 1;
        self.peers.wait_until(now + HANDSHAKE_TIMEOUT);
        self.peers.all.insert(id, peer);
        self.peers.readable.push_back(id);
    }

    /// Returns the connection in its handshake that ends where there are too many: one that has sent nothing before
    /// others, one of the address that has the most before others, and the oldest one of these.
    fn least_welcome(&self) -> Option<PeerId> {
        let is_silent = |peer: &Peer| peer.session.as_ref().is_some_and(PeerSession::is_silent);
        let mut of_address: HashMap<_, usize> = HashMap::new();
        let host = |peer: &Peer| peer.address.map(|address| address.ip());
        self.peers.in_handshake().for_each(|peer| *of_address.entry(host(peer)).or_default() += 1);
        let rank = |peer: &&Peer| (!is_silent(peer), Reverse(of_address.get(&host(peer)).copied()), peer.until());
        self.peers.in_handshake().min_by_key(rank).map(|peer| peer.id)
    }

    /// Writes one batch to each subscriber for which messages wait. Returns whether there is more to write at once.
    fn write(&mut self, exchange: &mut Exchange) -> bool {
        let mut is_more = false;
        for place in exchange.waiting().iter() {
            let Some(&id) = self.peers.subscribers.get(&place) else { continue };
            let Some(peer) = self.peers.all.get_mut(&id) else { continue };
            // Who is closed in a turn keeps its place until the exchange forgets it, at the end of the turn.
            let has_place = matches!(peer.phase, Phase::Subscriber(at) if at == place);
            assert!(has_place || matches!(peer.phase, Phase::Closing(_)), "{peer} is not at {place}");
            match peer.write_batch(exchange, &mut self.write_buffer) {
                Ok(is_left) => is_more |= is_left,
                Err(_) => self.end(id),
            }
        }
        is_more
    }

    /// Returns whether publishers may have to wait: for room in the hub, or for a reservation.
    fn have_to_wait(&self, exchange: &Exchange) -> bool {
        exchange.is_full() || self.reservations.has_waiting()
    }

    /// Sends the `PONG` that are due to publishers that are not read and have pinged.
    fn send_pongs(&mut self, exchange: &mut Exchange, now: Duration) {
        if !self.have_to_wait(exchange) {
            return;
        }
        for peer in self.peers.all.values_mut() {
            let has_to_wait = exchange.is_full() || !self.reservations.may_read(peer.id);
            let Phase::Publisher(heartbeat) = &mut peer.phase else { continue };
            if has_to_wait && !peer.has_ended && heartbeat.take_pong(now) && peer.commands.is_empty() {
                put_pong(&mut peer.commands, &[]);
                // An error is one of a publisher.
                let _ = peer.write_commands(exchange);
            }
        }
    }

    /// Returns whether a peer has connected from this address.
    pub(in crate::bus) fn has_peer_at(&self, address: SocketAddr) -> bool {
        let plain = |it: SocketAddr| (it.ip().to_canonical(), it.port());
        self.peers.all.values().filter_map(|peer| peer.address).any(|peer| plain(peer) == plain(address))
    }

    /// Returns whether one of the subscribers at these places has no room.
    pub(in crate::bus) fn is_blocked(&self, places: PlaceSet) -> bool {
        places.iter().filter_map(|place| self.peers.subscriber(place)).any(|peer| !peer.is_writable)
    }

    /// Logs the subscribers for which the oldest message has waited for longer than a second, at most 20.
    pub(in crate::bus) fn log_late(&self, exchange: &mut Exchange, now: Duration) {
        let before = now.saturating_sub(Duration::from_secs(1));
        let [posted, forwarded] =
            [Origin::Posted, Origin::Forwarded].map(|origin| exchange.oldest_waits_for(origin, before).0);
        let late = posted.iter().chain(forwarded.iter().filter(|place| !posted.contains(*place)));
        for (place, peer) in late.filter_map(|place| Some((place, self.peers.subscriber(place)?))).take(20) {
            log(format_args!("{} messages wait for the subscriber {peer}", exchange.waiting_at(place)));
        }
    }

    /// Disconnects subscribers that hold others up for too long. Returns whether there was one.
    pub(in crate::bus) fn end_stalled(&mut self, has_refused: bool, exchange: &mut Exchange, now: Duration) -> bool {
        let held_up = [(Origin::Posted, has_refused), (Origin::Forwarded, exchange.is_full())];
        for (origin, _) in held_up.into_iter().filter(|(_, is_held_up)| *is_held_up) {
            for place in exchange.oldest_waits_for(origin, now.saturating_sub(self.stall_timeout)).0.iter() {
                let Some(peer) = self.peers.subscriber(place) else { continue };
                self.reports.report_end(&Excess::Stalled(self.stall_timeout), peer, exchange, now);
                self.close(peer.id, now);
            }
        }
        !self.left.is_empty()
    }

    fn end_for(&mut self, excess: &Excess, id: PeerId, now: Duration) {
        if let Some(peer) = self.peers.all.get(&id) {
            self.reports.report(excess, peer, &peer.side, now);
            self.end(id);
        }
    }

    /// Accepts nobody any more, and reads of publishers what they have sent by now, and what ends a message that has
    /// begun. Returns whether all of that was read.
    pub(in crate::bus) fn read_last(&mut self, exchange: &Exchange, now: Duration) -> bool {
        self.listeners.accepts_from = None;
        let last = Intake::Last { quiet_at: now + QUIET, until: now + LAST_READS };
        match self.intake {
            Intake::All => {
                for peer in self.peers.all.values_mut() {
                    // Where the connection has failed, there is nothing to read.
                    let unread_bytes = ioctl_fionread(&peer.socket).unwrap_or(0);
                    peer.left_at_stop = usize::try_from(unread_bytes).unwrap_or(usize::MAX);
                }
                self.intake = last;
            }
            // No time passes while publishers are not read.
            Intake::Last { .. } if exchange.is_full() => self.intake = last,
            Intake::Last { quiet_at, until } if now < quiet_at.min(until) => {}
            Intake::Last { .. } | Intake::Rest => {
                self.intake = Intake::Rest;
                return self.peers.publishers().all(|peer| peer.wanted_at_stop() == 0);
            }
        }
        false
    }

    pub(in crate::bus) fn close_all(&mut self, now: Duration) {
        self.peers.ids(|_| true).into_iter().for_each(|id| self.close(id, now));
    }

    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.peers.all.is_empty()
    }

    /// Writes nothing more to a peer, and waits for its end. What the kernel has, the peer still gets.
    fn close(&mut self, id: PeerId, now: Duration) {
        self.leave(id);
        let Some(peer) = self.peers.all.get_mut(&id) else { return };
        (peer.phase, peer.session) = (Phase::Closing(now + CLOSING_TIMEOUT), None);
        peer.commands.clear();
        peer.shut_down(Shutdown::Write);
        self.peers.wait_until(now + CLOSING_TIMEOUT);
        self.peers.queue(id);
    }

    fn end(&mut self, id: PeerId) {
        self.leave(id);
        self.peers.all.remove(&id);
    }

    /// Gives back what a peer has beside its connection.
    fn leave(&mut self, id: PeerId) {
        let Some(peer) = self.peers.all.get(&id) else { return };
        if let Phase::Subscriber(place) = peer.phase {
            self.left.insert(place);
        }
        self.reservations.release(id);
    }

    /// Ends who is waited for no longer, in a handshake or at the end of the connection.
    fn end_overdue(&mut self, now: Duration) {
        if self.peers.due.is_none_or(|due| due > now) {
            return;
        }
        let is_stopping = self.listeners.accepts_from.is_none();
        for id in self.peers.ids(|peer| peer.until().is_some_and(|until| until <= now)) {
            let Some(peer) = self.peers.all.get_mut(&id) else { continue };
            // A subscriber may not have got all of it. The stop has a deadline of its own.
            let may_wait = is_stopping && peer.side.peers == SocketRole::Subscribes && !peer.is_in_handshake();
            if may_wait && peer.unacknowledged_bytes() > 0 {
                peer.phase = Phase::Closing(now + CLOSING_TIMEOUT);
            } else {
                self.end(id);
            }
        }
        self.peers.due = self.peers.all.values().filter_map(Peer::until).min();
    }

    /// Ends the connections of machines that have vanished. What a publisher has sent is still read.
    fn end_vanished(&mut self, exchange: &mut Exchange, now: Duration) {
        if now < self.check_at {
            return;
        }
        self.check_at = now + CHECK_PAUSE;
        for id in self.peers.ids(Peer::has_vanished) {
            let Some(peer) = self.peers.all.get_mut(&id) else { continue };
            self.reports.report_end(&Excess::Vanished, peer, exchange, now);
            peer.has_ended = true;
            peer.shut_down(Shutdown::Both);
            self.peers.queue(id);
        }
    }

    /// Checks what holds at the end of a turn: each subscriber has a place of its own, and is found by it, and whoever is
    /// to be read is in the queue once.
    fn check(&self) {
        let Peers { all, subscribers, readable, .. } = &self.peers;
        debug_assert!(all.values().all(|peer| match peer.phase {
            Phase::Subscriber(place) => subscribers.get(&place) == Some(&peer.id),
            _ => true,
        }));
        debug_assert_eq!(
            readable.iter().filter(|id| all.contains_key(id)).count(),
            all.values().filter(|peer| peer.is_queued).count(),
        );
    }

    /// Returns when [`Server::give_out`] must be called even if nothing happens.
    pub(in crate::bus) fn deadline(&self, exchange: &Exchange, now: Duration) -> Option<Duration> {
        // A publisher whose long message is late goes then, too.
        let pongs = self.have_to_wait(exchange).then(|| now + PONGS_PAUSE);
        let check = (!self.peers.all.is_empty()).then_some(self.check_at);
        let last_read =
            if let Intake::Last { quiet_at, until } = self.intake { Some(quiet_at.min(until)) } else { None };
        let accept = self.listeners.accepts_from.filter(|from| *from >= now);
        [self.peers.due, pongs, check, last_read, accept].into_iter().flatten().min()
    }
}
