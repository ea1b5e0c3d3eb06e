//! One connection that a peer has made to an endpoint that we bound: its socket, and what the server knows of it.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown};

use crate::bus::ffi;
use crate::zmtp::{GREETING_BYTES, PeerSession};

/// Where a peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Handshake,
    /// A subscriber past its handshake, at this place.
    Subscriber(u8),
    /// A publisher past its handshake.
    Publisher,
    /// It gets nothing more, and what it sends is dropped until it ends the connection. Without this, the kernel would reset
    /// the connection if it had sent something, and the peer would lose what it had not read.
    Closing,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Peer {
    socket: OwnedFd,
    /// Tells this peer from an earlier one at the same index.
    pub(super) generation: u32,
    /// The index of the listener that it has connected to.
    pub(super) listener: usize,
    pub(super) session: PeerSession,
    pub(super) phase: Phase,
    /// Commands that are to be written between two messages.
    pub(super) commands: Vec<u8>,
    /// It is in the queue of those that may have something to read.
    pub(super) is_queued: bool,
    pub(super) is_writable: bool,
    /// The peer has ended the connection, or the system has, behind what it has sent.
    pub(super) has_ended: bool,
    /// The bytes of its greeting that have not arrived.
    pub(super) greeting_left: usize,
    /// What its unfinished message counted when it was last read, in bytes, and since when it has been unfinished.
    pub(super) unfinished: Option<(usize, Duration)>,
}

/// What came of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// So many bytes have arrived. There may be more if the buffer is full.
    Bytes(usize),
    /// Nothing has arrived.
    Blocked,
    /// The peer has ended the connection, or the system has.
    Ended,
}

impl Peer {
    pub(super) fn new(socket: OwnedFd, generation: u32, listener: usize, session: PeerSession) -> Self {
        Self {
            socket,
            generation,
            listener,
            session,
            phase: Phase::Handshake,
            commands: Vec::new(),
            is_queued: false,
            is_writable: true,
            has_ended: false,
            greeting_left: GREETING_BYTES,
            unfinished: None,
        }
    }

    /// Reads what has arrived.
    pub(super) fn read(&self, buffer: &mut [u8]) -> ReadEnd {
        match retry(|| recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT)) {
            Ok((0, _)) => ReadEnd::Ended,
            Ok((bytes, _)) => ReadEnd::Bytes(bytes),
            Err(Errno::AGAIN) => ReadEnd::Blocked,
            Err(_) => ReadEnd::Ended,
        }
    }

    /// Writes one part after the other, as much as the kernel takes. Returns how many bytes it took: none if it has no room.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn write(&mut self, [first, second]: [&[u8]; 2]) -> Result<usize, Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let written = retry(|| match second {
            [] => send(&self.socket, first, flags),
            _ => {
                let parts = [IoSlice::new(first), IoSlice::new(second)];
                sendmsg(&self.socket, &parts, &mut SendAncillaryBuffer::default(), flags)
            }
        });
        let written = if written == Err(Errno::AGAIN) { Ok(0) } else { written };
        // Less than asked for: the socket is announced when it has room again.
        self.is_writable = written == Ok(first.len() + second.len());
        written
    }

    /// Writes the commands that wait. Returns how many bytes were written.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn write_commands(&mut self) -> Result<usize, Errno> {
        let commands = std::mem::take(&mut self.commands);
        let written = self.write([&commands, &[]]);
        self.commands = commands;
        self.commands.drain(..written.unwrap_or_default().min(self.commands.len()));
        written
    }

    /// Writes nothing more to the peer. What the kernel has, the peer still gets.
    pub(super) fn end_writing(&self) {
        // The only error is that the connection has ended.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Returns how many of the bytes written the other side has not acknowledged or, over ipc, not read.
    pub(super) fn unacknowledged_bytes(&self) -> u64 {
        ffi::unacknowledged_bytes(self.socket.as_fd())
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Makes a call again if a signal has interrupted it.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
