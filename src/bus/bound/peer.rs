//! The connections that peers have made to the endpoints that we bound: the socket of each, and what the server knows
//! of it.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};

use super::listener::Side;
use crate::bus::ffi;
use crate::bus::liveness::has_vanished;
use crate::zmtp::{Exchange, Heartbeat, PeerSession};

/// What is read of a publisher at once, in bytes.
pub(super) const READ_BUFFER_BYTES: usize = 64 * 1024;
pub(super) const LEAST_READ_BYTES: usize = 512;

/// The number of a peer, which is its token for the poller too. No later peer has it, so that what the poller reports
/// of a peer is not taken for one of another that has got the same descriptor.
pub(super) type PeerId = u64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    /// The handshake must have ended by then.
    Handshake(Duration),
    /// A subscriber at this place.
    Subscriber(u8),
    Publisher(Heartbeat),
    /// It gets nothing more, and what it sends is dropped until it ends the connection, by then at the latest. Without
    /// this, the kernel would reset the connection if it had sent something, and the peer would lose what it had not
    /// read.
    Closing(Duration),
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: PeerId,
    pub(super) socket: OwnedFd,
    /// Where it has connected from over TCP; `None` over ipc.
    pub(super) address: Option<SocketAddr>,
    /// Where it has connected to.
    pub(super) side: Arc<Side>,
    pub(super) phase: Phase,
    /// What it may say next. It is not there while the peer is read, and once it is closing.
    pub(super) session: Option<PeerSession>,
    /// The rest of our greeting, and commands that are to be written between two messages.
    pub(super) commands: Vec<u8>,
    /// It is in the queue of those that may have something to read.
    pub(super) is_queued: bool,
    pub(super) is_writable: bool,
    /// The peer has ended the connection, or the system has, behind what it has sent.
    pub(super) has_ended: bool,
    /// How much of a publisher is read at once.
    pub(super) read_bytes: usize,
    /// What had come when the bus began to stop, and is not read yet, in bytes.
    pub(super) left_at_stop: usize,
}

impl Peer {
    pub(super) fn is_in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Returns when its handshake must have ended or, while it is closing, its connection.
    pub(super) fn until(&self) -> Option<Duration> {
        if let Phase::Handshake(until) | Phase::Closing(until) = self.phase { Some(until) } else { None }
    }

    /// Returns how many bytes of a publisher are read at most once the bus stops: what had come then, and what ends a
    /// message that has begun. All of one that has ended is read.
    pub(super) fn wanted_at_stop(&self) -> usize {
        match &self.session {
            _ if self.has_ended => usize::MAX,
            Some(session) if self.left_at_stop == 0 => session.missing_bytes(),
            _ => self.left_at_stop,
        }
    }

    /// Lets the next read of a publisher cost `share_bytes`, where this one has cost so much. What follows may be of
    /// another kind, so the next one is at most twice as long.
    pub(super) fn adapt_read(&mut self, read_bytes: usize, cost_bytes: usize, share_bytes: usize) {
        if read_bytes > 0 {
            let fitting = share_bytes.saturating_mul(read_bytes) / cost_bytes.max(1);
            self.read_bytes = fitting.min(2 * self.read_bytes).clamp(LEAST_READ_BYTES, READ_BUFFER_BYTES);
        }
    }

    pub(super) fn has_vanished(&self) -> bool {
        let is_watched = self.until().is_none() && self.address.is_some() && !self.has_ended;
        is_watched && has_vanished(self.socket.as_fd())
    }

    /// Returns how many bytes the kernel took: none if it has no room. After an error the connection has ended.
    pub(super) fn write(&mut self, parts: [&[u8]; 2]) -> Result<usize, Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let slices = parts.map(IoSlice::new);
        let written = retry_on_intr(|| sendmsg(&self.socket, &slices, &mut SendAncillaryBuffer::default(), flags));
        let written = if written == Err(Errno::AGAIN) { Ok(0) } else { written };
        // Less than asked for: the socket is announced when it has room again.
        self.is_writable = written == Ok(parts.map(<[u8]>::len).iter().sum());
        written
    }

    /// Writes the commands that wait, between two messages, if there is room, and the peer's major version is known. An
    /// error ends no publisher, as all that it had sent is read first.
    pub(super) fn write_commands(&mut self, exchange: &Exchange) -> Result<(), Errno> {
        let is_publisher = matches!(self.phase, Phase::Publisher(_));
        if is_publisher && self.has_ended {
            self.commands.clear();
        }
        let is_within_message = || matches!(self.phase, Phase::Subscriber(at) if !exchange.is_between_messages(at));
        let awaits_version = || self.session.as_ref().is_some_and(|session| !session.has_major_version());
        if self.commands.is_empty() || !self.is_writable || is_within_message() || awaits_version() {
            return Ok(());
        }
        let mut commands = mem::take(&mut self.commands);
        match self.write([&commands, &[]]) {
            Err(_) if is_publisher => self.has_ended = true,
            written => {
                commands.drain(..written?);
                self.commands = commands;
            }
        }
        Ok(())
    }

    /// Writes the next batch of messages to a subscriber. Returns whether more could be written at once.
    pub(super) fn write_batch(&mut self, exchange: &mut Exchange, buffer: &mut Vec<u8>) -> Result<bool, Errno> {
        self.write_commands(exchange)?;
        let Phase::Subscriber(place) = self.phase else { return Ok(false) };
        if !self.is_writable {
            return Ok(false);
        }
        let referenced = exchange.batch(place, !self.commands.is_empty(), buffer);
        let written = self.write([buffer, referenced])?;
        exchange.written(place, written, || self.unacknowledged_bytes());
        // Nothing else may happen after the end of the message that they have waited for.
        self.write_commands(exchange)?;
        Ok(self.is_writable && exchange.waiting_at(place) > 0)
    }

    /// Ends the connection in one direction or in both. What has been sent before is still read.
    pub(super) fn shut_down(&self, how: Shutdown) {
        // The only error is that the connection has ended.
        let _ = shutdown(&self.socket, how);
    }

    /// Returns how many of the bytes written the other side has not acknowledged or, over ipc, not read.
    pub(super) fn unacknowledged_bytes(&self) -> u64 {
        ffi::unacknowledged_bytes(self.socket.as_fd())
    }
}

/// The address from which the peer has connected or, over ipc, its process.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            // Where IPv4 arrives at a socket of IPv6, the address is mapped.
            Some(address) => match address.ip().to_canonical() {
                IpAddr::V4(ip) => SocketAddr::from((ip, address.port())).fmt(f),
                IpAddr::V6(_) => address.fmt(f),
            },
            None => match ffi::peer_process(self.socket.as_fd()) {
                Some(process) => write!(f, "process {process}"),
                None => f.write_str("a process of another container"),
            },
        }
    }
}

/// The peers of all listeners, and who of them is read next.
#[derive(Default)]
pub(super) struct Peers {
    pub(super) all: BTreeMap<PeerId, Peer>,
    /// The subscriber that has, or had, each place.
    pub(super) subscribers: BTreeMap<u8, PeerId>,
    /// Peers that may have something to read, in rotation.
    pub(super) readable: VecDeque<PeerId>,
    /// Nobody in a handshake or at its end is waited for until an earlier time than this.
    pub(super) due: Option<Duration>,
}

impl Peers {
    pub(super) fn subscriber(&self, place: u8) -> Option<&Peer> {
        self.all.get(self.subscribers.get(&place)?).filter(|peer| peer.phase == Phase::Subscriber(place))
    }

    pub(super) fn publishers(&self) -> impl Iterator<Item = &Peer> {
        self.all.values().filter(|peer| matches!(peer.phase, Phase::Publisher(_)))
    }

    pub(super) fn in_handshake(&self) -> impl Iterator<Item = &Peer> {
        self.all.values().filter(|peer| peer.is_in_handshake())
    }

    /// Returns the peers of which this is true, by their numbers.
    pub(super) fn ids(&self, is_sought: impl Fn(&Peer) -> bool) -> Vec<PeerId> {
        self.all.values().filter(|peer| is_sought(peer)).map(|peer| peer.id).collect()
    }

    /// Takes note that a peer may have something to read.
    pub(super) fn queue(&mut self, id: PeerId) {
        if let Some(peer) = self.all.get_mut(&id)
            && !mem::replace(&mut peer.is_queued, true)
        {
            self.readable.push_back(id);
        }
    }

    /// Says that a peer is waited for until this time, and walks over no other one.
    pub(super) fn wait_until(&mut self, until: Duration) {
        self.due = self.due.into_iter().chain([until]).min();
    }
}
