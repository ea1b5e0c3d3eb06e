//! The peers of bound endpoints, and one turn of the loop for them.
//!
//! A turn works for each peer only so much, and the next one goes on with the next peer. So nobody waits long for others,
//! whatever they do.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use slab::Slab;

use super::admission::{Admission, HubCounters, LossReason, LostSubscriber, PeerCounters, PeerNotice};
use super::listener::{BoundListener, listen};
use super::peer::{Peer, Phase};
use crate::bus::config::{BusConfig, BusError, HubEndpoints};
use crate::bus::endpoint::Endpoint;
use crate::bus::poller::{FIRST_TOKEN, Poller, Ready};
use crate::sys::unix_listener::UnixListener;
use crate::zmtp::{
    BATCH_BYTES, Exchange, GREETING_BYTES, MAX_SUBSCRIBERS, PeerSession, PlaceSet, SocketRole, handshake,
};

/// Connections that are accepted from one listener in a turn.
const ACCEPTED_AT_ONCE: usize = 16;

/// The pause in accepting after the process had no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Bytes that are read from a publisher at once, and at most from any peer.
pub(super) const READ_BUFFER_BYTES: usize = 64 * 1024;

/// How long unfinished messages may hold as much as they may. Then the publishers end of whose message nothing more has
/// arrived, all at once.
pub(super) const UNFINISHED_TIMEOUT: Duration = Duration::from_millis(250);

/// How long a peer that gets nothing more is waited for.
const CLOSING_TIMEOUT: Duration = Duration::from_millis(500);

/// A listening socket.
pub(super) struct Listener {
    pub(super) bound: BoundListener,
    /// What its peers do.
    pub(super) peers: SocketRole,
    /// Its subscribers hear what publishers send, too.
    pub(super) hears_publishers: bool,
    /// Somebody may wait to be accepted.
    pub(super) may_accept: bool,
}

/// A peer: its index, and the generation that tells it from an earlier one there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerKey {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl PeerKey {
    /// Generations count from 1, so that no peer has the token of a listener.
    fn token(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    fn of_token(token: u64) -> Option<Self> {
        let generation = u32::try_from(token >> 32).ok().filter(|generation| *generation > 0)?;
        Some(Self { index: (token & u64::from(u32::MAX)) as u32, generation })
    }
}

/// The server.
pub(in crate::bus) struct Server {
    pub(super) listeners: Vec<Listener>,
    pub(super) peers: Slab<Peer>,
    pub(super) last_generation: u32,
    pub(super) admission: Admission<PeerKey>,
    pub(super) hub_counters: Arc<HubCounters>,
    pub(super) payload_bytes: u64,
    /// By place: the subscribers.
    pub(super) subscribers: Vec<Option<PeerKey>>,
    /// Subscribers that were disconnected, until they are reported.
    pub(super) lost: Vec<LostSubscriber>,
    /// The places of subscribers that have left, until the exchange is told.
    pub(super) left: PlaceSet,
    /// Peers that may have something to read, in rotation.
    pub(super) readable: VecDeque<PeerKey>,
    /// Peers that may have something to read, and must wait.
    pub(super) held: VecDeque<PeerKey>,
    /// Peers that get nothing more, with the times until which they are waited for.
    pub(super) closing: VecDeque<(PeerKey, Duration)>,
    pub(super) unfinished_bytes: usize,
    /// Since when unfinished messages have held as much as they may.
    pub(super) unfinished_since: Option<Duration>,
    /// A descriptor that is given up to refuse a peer.
    pub(super) spare: Option<OwnedFd>,
    /// When to accept again.
    pub(super) accept_at: Option<Duration>,
    /// Whether a message of a publisher has come in this turn.
    pub(super) heard_publisher: bool,
    pub(super) read_buffer: Vec<u8>,
    pub(super) write_buffer: Vec<u8>,
}

impl Server {
    /// Listens at the endpoints that are to be bound. Returns `None` if there are none.
    ///
    /// # Errors
    /// Returns an error if an endpoint cannot be bound, or the poller has no room for it.
    pub(in crate::bus) fn open(config: &BusConfig, poller: &Poller) -> Result<Option<Self>, BusError> {
        let of_bind = config.bind.iter().map(|endpoint| (endpoint, SocketRole::Subscribes, false));
        let of_hub = config.hub.iter().flat_map(|HubEndpoints { publishers, subscribers }| {
            [(publishers, SocketRole::Publishes, false), (subscribers, SocketRole::Subscribes, true)]
        });
        let mut listeners = Vec::new();
        for (token, (endpoint, peers, hears_publishers)) in (FIRST_TOKEN..).zip(of_bind.chain(of_hub)) {
            let is_of_hub = hears_publishers || peers == SocketRole::Publishes;
            let bound = listen(endpoint).map_err(|cause| match is_of_hub {
                true => BusError::about_hub(endpoint, &cause),
                false => BusError::about(endpoint)(cause),
            })?;
            poller.watch(bound.as_fd(), token)?;
            listeners.push(Listener { bound, peers, hears_publishers, may_accept: true });
        }
        if listeners.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            listeners,
            peers: Slab::new(),
            last_generation: 0,
            admission: Admission::new(config.max_peers),
            hub_counters: Arc::default(),
            payload_bytes: config.payload_bytes,
            subscribers: vec![None; MAX_SUBSCRIBERS],
            lost: Vec::new(),
            left: PlaceSet::default(),
            readable: VecDeque::new(),
            held: VecDeque::new(),
            closing: VecDeque::new(),
            unfinished_bytes: 0,
            unfinished_since: None,
            spare: spare(),
            accept_at: None,
            heard_publisher: false,
            read_buffer: vec![0; READ_BUFFER_BYTES],
            write_buffer: Vec::new(),
        }))
    }

    /// Returns the endpoints that are bound, with the ports that the system chose, and what their peers do: those of the
    /// configuration in their order, then those of the hub for publishers and for subscribers.
    pub(in crate::bus) fn endpoints(&self) -> impl Iterator<Item = (&Endpoint, SocketRole)> {
        self.listeners.iter().map(|listener| (&listener.bound.endpoint, listener.peers))
    }

    /// Takes the Unix sockets, whose files must go even if the thread of the server does not end.
    pub(in crate::bus) fn take_unix_listeners(&mut self) -> Vec<UnixListener> {
        self.listeners.iter_mut().filter_map(|listener| listener.bound.ipc.take()).collect()
    }

    /// Returns what is counted of peers, and of publishers.
    pub(in crate::bus) fn counters(&self) -> (Arc<PeerCounters>, Arc<HubCounters>) {
        (Arc::clone(&self.admission.counters), Arc::clone(&self.hub_counters))
    }

    /// Takes note of what has changed at sockets.
    pub(in crate::bus) fn on_ready(&mut self, ready: &Ready) {
        let Some(key) = PeerKey::of_token(ready.token) else {
            let index = usize::try_from(ready.token - FIRST_TOKEN).unwrap_or(usize::MAX);
            if let Some(listener) = self.listeners.get_mut(index) {
                listener.may_accept = true;
            }
            return;
        };
        // The descriptor of a peer that has left may be that of another one now.
        let Some(peer) = peer_of(&mut self.peers, key) else { return };
        peer.is_writable |= ready.may_write;
        peer.has_ended |= ready.has_ended;
        // Commands that wait are written before a peer is read.
        if (ready.may_read || !peer.commands.is_empty()) && !peer.is_queued {
            peer.is_queued = true;
            self.readable.push_back(key);
        }
    }

    /// Works for each peer that is ready, a bounded time in all. Returns whether there is more to do at once.
    pub(in crate::bus) fn turn(&mut self, exchange: &mut Exchange, poller: &Poller, now: Duration) -> bool {
        let mut is_more = self.write(exchange);
        is_more |= self.accept(poller, now);
        is_more |= self.read(exchange, now);
        self.end_overdue(now);
        self.forget_left(exchange);
        is_more || self.held.iter().any(|key| self.may_read(*key, exchange))
    }

    /// Accepts connections. Returns whether more may wait.
    fn accept(&mut self, poller: &Poller, now: Duration) -> bool {
        if self.accept_at.take_if(|at| now >= *at).is_none() && self.accept_at.is_some() {
            return false;
        }
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTED_AT_ONCE {
                let Some(listener) = self.listeners.get_mut(index).filter(|listener| listener.may_accept) else {
                    break;
                };
                let socket = match accept_with(&listener.bound, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                    Ok(socket) => socket,
                    Err(Errno::AGAIN) => {
                        listener.may_accept = false;
                        break;
                    }
                    Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                        // The kernel says so also where nobody waits. With the descriptor that is given up, a peer that waits
                        // can be refused. It would come back at once, so this is paced.
                        self.spare = None;
                        let refused = accept_with(&listener.bound, SocketFlags::CLOEXEC).map(drop);
                        self.spare = spare();
                        if refused == Err(Errno::AGAIN) {
                            listener.may_accept = false;
                            break;
                        }
                        self.admission.counters.refused.add(usize::from(refused.is_ok()));
                        self.admission.tell(PeerNotice::NoDescriptor, now);
                        self.accept_at = Some(now + ACCEPT_PAUSE);
                        return false;
                    }
                    // accept(2) returns the errors of the connection.
                    Err(_) => continue,
                };
                let session = PeerSession::new(listener.peers, self.payload_bytes);
                let (greeting, _) = handshake(listener.peers).split_at(GREETING_BYTES);
                self.last_generation = self.last_generation.wrapping_add(1).max(1);
                let entry = self.peers.vacant_entry();
                let key =
                    PeerKey { index: u32::try_from(entry.key()).unwrap_or(u32::MAX), generation: self.last_generation };
                let mut peer = Peer::new(socket, key.generation, index, session);
                // A new connection has room for it.
                if peer.write([greeting, &[]]) != Ok(greeting.len()) || poller.watch(peer.as_fd(), key.token()).is_err()
                {
                    continue;
                }
                entry.insert(peer);
                if let Some(oldest) = self.admission.begin_handshake(key, now) {
                    self.drop_peer(oldest);
                }
            }
        }
        self.listeners.iter().any(|listener| listener.may_accept)
    }

    /// Accepts nobody from now on.
    pub(in crate::bus) fn stop_accepting(&mut self) {
        self.listeners.iter_mut().for_each(|listener| listener.may_accept = false);
        self.accept_at = Some(Duration::MAX);
    }

    /// Writes to each subscriber for which messages wait, one batch to each. Returns whether there is more to write at once.
    fn write(&mut self, exchange: &mut Exchange) -> bool {
        let mut is_more = false;
        for place in exchange.waiting().iter() {
            let Some(key) = self.subscribers.get(usize::from(place)).copied().flatten() else { continue };
            let Some(peer) = peer_of(&mut self.peers, key).filter(|peer| peer.is_writable) else { continue };
            match write_batch(peer, place, exchange, &mut self.write_buffer) {
                Ok(is_left) => is_more |= is_left,
                Err(_) => self.drop_peer(key),
            }
        }
        is_more
    }

    /// Writes the commands that wait for a peer, unless they would stand within a message.
    pub(super) fn write_commands(&mut self, key: PeerKey, exchange: &mut Exchange) {
        let Some(peer) = peer_of(&mut self.peers, key).filter(|peer| peer.is_writable && !peer.commands.is_empty())
        else {
            return;
        };
        let place = if let Phase::Subscriber(place) = peer.phase { Some(place) } else { None };
        if place.is_some_and(|place| !exchange.is_between_messages(place)) {
            return;
        }
        match peer.write_commands() {
            Ok(bytes) => place.into_iter().for_each(|place| exchange.command_written(place, bytes)),
            Err(_) => self.drop_peer(key),
        }
    }

    /// Disconnects the subscribers at these places, for which a message has waited for longer than `stall_timeout`.
    pub(in crate::bus) fn disconnect(
        &mut self,
        places: PlaceSet,
        stall_timeout: Duration,
        exchange: &mut Exchange,
        now: Duration,
    ) {
        for place in places.iter() {
            if let Some(key) = self.report_lost(place, LossReason::Stalled(stall_timeout), exchange) {
                self.admission.counters.stalled.add(1);
                self.close(key, now);
            }
        }
        self.forget_left(exchange);
    }

    /// Takes note of what the subscriber at this place loses.
    pub(super) fn report_lost(&mut self, place: u8, reason: LossReason, exchange: &mut Exchange) -> Option<PeerKey> {
        let key = self.subscribers.get(usize::from(place)).copied().flatten()?;
        let peer = peer_of(&mut self.peers, key)?;
        exchange.acknowledged(place, peer.unacknowledged_bytes());
        let endpoint = self.listeners.get(peer.listener)?.bound.endpoint.clone();
        self.lost.push(LostSubscriber { endpoint, reason, lost_messages: exchange.lost(place) });
        Some(key)
    }

    /// Returns the subscribers that were disconnected since the last call.
    pub(in crate::bus) fn take_lost(&mut self) -> Vec<LostSubscriber> {
        std::mem::take(&mut self.lost)
    }

    /// Ends all connections. Their peers still get what the kernel has.
    pub(in crate::bus) fn close_all(&mut self, exchange: &mut Exchange, now: Duration) {
        let keys: Vec<_> = self.peers.iter().filter_map(|(index, peer)| key_of(index, peer)).collect();
        keys.into_iter().for_each(|key| self.close(key, now));
        self.forget_left(exchange);
    }

    /// Returns whether no connection is left.
    pub(in crate::bus) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Writes nothing more to a peer, and waits for its end.
    fn close(&mut self, key: PeerKey, now: Duration) {
        self.leave(key);
        let Some(peer) = peer_of(&mut self.peers, key).filter(|peer| peer.phase != Phase::Closing) else { return };
        peer.phase = Phase::Closing;
        peer.end_writing();
        if !peer.is_queued {
            peer.is_queued = true;
            self.readable.push_back(key);
        }
        self.closing.push_back((key, now + CLOSING_TIMEOUT));
    }

    /// Ends a connection at once.
    pub(super) fn drop_peer(&mut self, key: PeerKey) {
        self.leave(key);
        if peer_of(&mut self.peers, key).is_some() {
            self.peers.try_remove(key.index as usize);
        }
    }

    /// Gives back the place of a peer.
    fn leave(&mut self, key: PeerKey) {
        let Some(peer) = peer_of(&mut self.peers, key) else { return };
        if let Some((bytes, _)) = peer.unfinished.take() {
            self.unfinished_bytes -= bytes;
        }
        match peer.phase {
            Phase::Handshake => self.admission.end_handshake(key),
            Phase::Publisher => self.admission.publisher_left(),
            Phase::Subscriber(place) => {
                self.left.insert(place);
                if let Some(subscriber) = self.subscribers.get_mut(usize::from(place)) {
                    *subscriber = None;
                }
            }
            Phase::Closing => {}
        }
    }

    pub(super) fn forget_left(&mut self, exchange: &mut Exchange) {
        if !self.left.is_empty() {
            self.admission.subscribers_left(self.left.len());
            exchange.leave(std::mem::take(&mut self.left));
        }
    }

    /// Ends the connections whose time is over.
    fn end_overdue(&mut self, now: Duration) {
        while let Some(key) = self.admission.overdue_handshake(now) {
            self.drop_peer(key);
        }
        while let Some((key, _)) = self.closing.pop_front_if(|(_, until)| *until <= now) {
            match peer_of(&mut self.peers, key) {
                // The peer has not got all of it. Who stops has a deadline of its own.
                Some(peer) if peer.unacknowledged_bytes() > 0 && self.accept_at == Some(Duration::MAX) => {
                    self.closing.push_back((key, now + CLOSING_TIMEOUT));
                }
                Some(_) => self.drop_peer(key),
                None => {}
            }
        }
    }

    /// Returns when [`Server::turn`] must be called even if nothing happens.
    pub(in crate::bus) fn deadline(&self) -> Option<Duration> {
        let unfinished = self.unfinished_since.map(|since| since + UNFINISHED_TIMEOUT);
        let closing = self.closing.front().map(|(_, until)| *until);
        let accept_at = self.accept_at.filter(|at| *at < Duration::MAX);
        [self.admission.handshake_deadline(), unfinished, closing, accept_at].into_iter().flatten().min()
    }

    /// Returns the number of subscribers.
    pub(in crate::bus) fn subscribers(&self) -> usize {
        self.admission.subscribers()
    }

    /// Returns the number of publishers.
    pub(in crate::bus) fn publishers(&self) -> usize {
        self.admission.publishers()
    }

    /// Returns whether a message of a publisher has come since the last call.
    pub(in crate::bus) fn take_heard_publisher(&mut self) -> bool {
        std::mem::take(&mut self.heard_publisher)
    }

    /// Returns what unfinished messages hold, in bytes.
    pub(in crate::bus) fn unfinished_bytes(&self) -> usize {
        self.unfinished_bytes
    }
}

/// Writes one batch to a subscriber. Returns whether more could be written at once.
fn write_batch(peer: &mut Peer, place: u8, exchange: &mut Exchange, buffer: &mut Vec<u8>) -> Result<bool, Errno> {
    if !peer.commands.is_empty() && exchange.is_between_messages(place) {
        exchange.command_written(place, peer.write_commands()?);
        if !peer.commands.is_empty() {
            return Ok(false);
        }
    }
    let referenced = exchange.batch(place, !peer.commands.is_empty(), buffer);
    debug_assert!(buffer.len() < 2 * BATCH_BYTES);
    let written = peer.write([buffer, referenced])?;
    if exchange.written(place, written) {
        exchange.acknowledged(place, peer.unacknowledged_bytes());
    }
    Ok(peer.is_writable && exchange.waiting_at(place) > 0)
}

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

pub(super) fn peer_of(peers: &mut Slab<Peer>, key: PeerKey) -> Option<&mut Peer> {
    peers.get_mut(key.index as usize).filter(|peer| peer.generation == key.generation)
}

pub(super) fn key_of(index: usize, peer: &Peer) -> Option<PeerKey> {
    Some(PeerKey { index: u32::try_from(index).ok()?, generation: peer.generation })
}
