//! Listening sockets, which the workers share: our own, and those that the parent passes.
//!
//! Other processes may accept from an inherited socket too: the parent, or a gateway that this one replaces. So it is
//! never shut down. It is made non-blocking, as every event-driven server needs it, and so it is for all who share its
//! open file description. No other option of it is set.
//!
//! `TCP_DEFER_ACCEPT` would hide a client that sends nothing from deadlines, limits and counters. `TCP_QUICKACK` is set
//! where a connection waits for the rest of a request: an answer carries the acknowledgement itself.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fmt, io};

use libc::{BPF_ABS, BPF_B, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use socket2::{SockFilter, SockRef, Type};

use crate::sys::listener::{UnixListener, listen_at};
use crate::sys::lock;
use crate::sys::log::log;
use crate::sys::process::inherited_descriptor;

/// Connections that wait to be accepted. The kernel reduces the number to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A filter of packets at a socket of TCP that drops those with which clients begin to connect, and lets pass what
/// completes a handshake that has begun. Without it, a request could come between the last accept and the close, and
/// clients that connect all the time would never let the backlog be empty.
const NO_SYN: [SockFilter; 4] = [
    SockFilter::new((BPF_LD | BPF_B | BPF_ABS) as u16, 0, 0, FLAGS_AT),
    // Where the bit is not set, the next instruction is skipped.
    SockFilter::new((BPF_JMP | BPF_JSET | BPF_K) as u16, 0, 1, SYN),
    SockFilter::new((BPF_RET | BPF_K) as u16, 0, 0, NOTHING),
    SockFilter::new((BPF_RET | BPF_K) as u16, 0, 0, ALL),
];

/// Where the byte of the flags is in the header of TCP, and the bit of SYN in it (RFC 9293 §3.1).
const FLAGS_AT: u32 = 13;
const SYN: u32 = 0x02;

/// How many bytes of a packet pass.
const NOTHING: u32 = 0;
const ALL: u32 = u32::MAX;

/// The pause in accepting after an error, such as no descriptors left: attempts that fail at once take a whole core.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where to listen with sockets of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenTarget {
    /// On those of these addresses that this host has, at least one.
    Addresses(Vec<SocketAddr>),
    /// At this path, with a Unix socket.
    Path(PathBuf),
}

impl ListenTarget {
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        if let Self::Addresses(addresses) = self { addresses } else { &[] }
    }
}

/// Where clients connect to a listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAddress {
    /// By TCP, to this address.
    Tcp(SocketAddr),
    /// To a Unix socket, at this path if it has one.
    Unix(Option<PathBuf>),
}

impl BoundAddress {
    /// A Unix socket speaks http alone: nobody reads what passes through it.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }
}

impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("a Unix socket without a path"),
        }
    }
}

/// A bound and listening socket.
pub struct ListeningSocket {
    pub(crate) socket: OwnedFd,
    /// With the port that the kernel chose.
    pub(crate) address: BoundAddress,
    /// The descriptor that the parent passed it as, if it is shared with processes that go on accepting when this one
    /// stops.
    pub(crate) inherited: Option<RawFd>,
    /// Set when another process has shut it down.
    pub(crate) is_lost: AtomicBool,
}

impl ListeningSocket {
    fn own(socket: impl Into<OwnedFd>, address: BoundAddress) -> Arc<Self> {
        Arc::new(Self { socket: socket.into(), address, inherited: None, is_lost: AtomicBool::new(false) })
    }

    /// Takes the socket that the parent passed. Fails if it is no listening stream socket of TCP or of Unix sockets.
    pub fn inherited(number: RawFd) -> io::Result<Arc<Self>> {
        let refused = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        let Ok(descriptor) = inherited_descriptor(number) else {
            return refused("the parent passed no such descriptor");
        };
        let socket = SockRef::from(&descriptor);
        let is_stream = match socket.r#type() {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTSOCK) => return refused("it is not a socket"),
            socket_type => socket_type? == Type::STREAM,
        };
        if !is_stream || !socket.is_listener()? {
            return refused("it is not a listening stream socket");
        }
        let local = socket.local_addr()?;
        let address = match local.as_socket() {
            Some(address) => BoundAddress::Tcp(address),
            None if local.is_unix() => BoundAddress::Unix(local.as_pathname().map(Path::to_path_buf)),
            None => return refused("it is a socket neither of TCP nor of Unix sockets"),
        };
        socket.set_nonblocking(true)?;
        Ok(Arc::new(Self { socket: descriptor, address, inherited: Some(number), is_lost: AtomicBool::new(false) }))
    }
}

/// Sockets of our own.
#[derive(Default)]
pub struct Listening {
    pub(crate) sockets: Vec<Arc<ListeningSocket>>,
    unix_listeners: Mutex<Vec<UnixListener>>,
}

impl Listening {
    /// Fails with the first address that is taken, not permitted, or the last of a target of which this host has none.
    /// Calls `begin` before it opens the socket at a path, which may block.
    pub fn bind(targets: &[ListenTarget], begin: impl Fn(&BoundAddress)) -> io::Result<Self> {
        let mut listening = Self::default();
        for target in targets {
            match target {
                ListenTarget::Addresses(addresses) => listening.bind_addresses(addresses)?,
                ListenTarget::Path(path) => {
                    let address = BoundAddress::Unix(Some(path.clone()));
                    begin(&address);
                    let opened = UnixListener::open(path, BACKLOG);
                    let opened = opened.and_then(|listener| Ok((listener.as_fd().try_clone_to_owned()?, listener)));
                    let (socket, listener) = opened.map_err(|error| refused(&address, &error))?;
                    listening.sockets.push(ListeningSocket::own(socket, address));
                    lock(&listening.unix_listeners).push(listener);
                }
            }
        }
        Ok(listening)
    }

    fn bind_addresses(&mut self, addresses: &[SocketAddr]) -> io::Result<()> {
        let bound_before = self.sockets.len();
        let mut absent = None;
        for &address in addresses {
            // Each address family has a listener of its own.
            match listen_at(address, false, BACKLOG, |_| Ok(())).map(TcpListener::from) {
                Ok(socket) => {
                    let bound = BoundAddress::Tcp(socket.local_addr().unwrap_or(address));
                    self.sockets.push(ListeningSocket::own(socket, bound));
                }
                Err(error) if is_absent(&error) => absent = Some(refused(&BoundAddress::Tcp(address), &error)),
                Err(error) => return Err(refused(&BoundAddress::Tcp(address), &error)),
            }
        }
        match absent {
            Some(absent) if self.sockets.len() == bound_before => return Err(absent),
            Some(absent) => log(format_args!("{absent}")),
            None => {}
        }
        Ok(())
    }

    /// Where clients connect to them.
    pub fn addresses(&self) -> impl Iterator<Item = &BoundAddress> {
        self.sockets.iter().map(|socket| &socket.address)
    }

    /// Lets no client connect by TCP from now on. The connections that have come can still be accepted, and are not
    /// more than the backlog.
    pub(crate) fn end_backlog(&self) {
        // A client tries again after a second. It is refused by then, or reaches the next gateway.
        let tcp = self.sockets.iter().filter(|socket| socket.address.is_tcp());
        tcp.for_each(|tcp| drop(SockRef::from(&tcp.socket).attach_filter(&NO_SYN)));
    }

    /// Does the same for Unix sockets: removes their files, which may block. They go on listening, so that no other
    /// process takes them for stale ones.
    pub(crate) fn remove_files(&self) {
        lock(&self.unix_listeners).clear();
    }

    /// Refuses new connections, and resets those that nobody has accepted.
    pub fn close(&self) {
        for socket in &self.sockets {
            let _ = shutdown(&socket.socket, Shutdown::Both);
        }
    }
}

fn refused(address: &BoundAddress, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT))
}
