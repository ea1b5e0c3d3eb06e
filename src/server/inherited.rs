//! Listening sockets that the parent passes, and the threads that accept from them.
//!
//! Other processes may accept from such a socket too: the parent, or a gateway that this one replaces. So it is never shut
//! down, and no option of it is set. `O_NONBLOCK` belongs to the open file description, which all of them share, so
//! accept(2) may block, and no worker may call it. A thread of its own does, and hands the connections to the workers. A
//! blocked call cannot be ended through the socket, so a signal interrupts it.
//!
//! There is no cheaper way. `/proc/self/fd` refuses to open sockets, so the gateway cannot have an open file description
//! of its own. Between a poll and a call of accept(2), another process may take the connection. A pending accept of
//! io_uring would take connections after the gateway was asked to stop.
//!
//! While the API is switched off, the threads go on, and the connections are closed. In the backlog, clients would wait
//! for an answer that does not come.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, getsockname};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::server::listener::{ACCEPT_PAUSE, BoundAddress, is_of_connection};
use crate::sys::log::warning;
use crate::sys::process::{become_interruptible, inherited_descriptor, interrupt};

/// The pause between two interruptions of a thread that is to end: a signal that comes just before the system call does
/// not interrupt it.
const INTERRUPT_PAUSE: Duration = Duration::from_millis(5);

/// An inherited listening socket.
#[derive(Debug)]
pub struct InheritedSocket {
    number: RawFd,
    socket: OwnedFd,
    /// Where clients connect.
    pub(crate) address: BoundAddress,
}

impl InheritedSocket {
    /// Takes the socket that the parent passed as this descriptor.
    ///
    /// # Errors
    /// The descriptor is not open, or is no listening stream socket of TCP or of Unix sockets.
    pub fn take(number: RawFd) -> io::Result<Self> {
        let refused = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        let Ok(socket) = inherited_descriptor(number) else {
            return refused("the parent passed no such descriptor");
        };
        let is_stream = match socket_type(&socket) {
            Err(Errno::NOTSOCK) => return refused("it is not a socket"),
            socket_type => socket_type? == SocketType::STREAM,
        };
        if !is_stream || !socket_acceptconn(&socket)? {
            return refused("it is not a listening stream socket");
        }
        let address = match socket_domain(&socket)? {
            AddressFamily::INET | AddressFamily::INET6 => BoundAddress::Tcp(getsockname(&socket)?.try_into()?),
            AddressFamily::UNIX => BoundAddress::Unix(path(&getsockname(&socket)?.try_into()?)),
            _ => return refused("it is a socket neither of TCP nor of Unix sockets"),
        };
        Ok(Self { number, socket, address })
    }
}

/// Returns the path of a Unix socket; `None` if it has none, or an abstract name.
fn path(address: &SocketAddrUnix) -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(std::ffi::OsStr::from_bytes(address.path()?.to_bytes()).into())
}

/// A connection that was accepted from an inherited socket.
pub struct InheritedConnection {
    /// It does not block.
    pub socket: OwnedFd,
    /// Whether it is one of TCP.
    pub is_tcp: bool,
    /// Its share of the bound on connections.
    pub permit: OwnedSemaphorePermit,
}

/// What the workers receive connections from, one at a time. It ends when no more connections come.
pub type InheritedConnections = Arc<Mutex<mpsc::UnboundedReceiver<InheritedConnection>>>;

/// The threads that accept from inherited sockets.
pub(crate) struct AcceptThreads {
    /// Those that were not started yet.
    acceptors: Vec<SocketAcceptor>,
    threads: Vec<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
}

impl AcceptThreads {
    /// Prepares a thread for each socket, and returns what its connections come through.
    pub(crate) fn new(sockets: &[Arc<InheritedSocket>], permits: &Arc<Semaphore>) -> (Self, InheritedConnections) {
        // The permits bound what waits in it.
        let (sender, receiver) = mpsc::unbounded_channel();
        let stopping = Arc::<AtomicBool>::default();
        let acceptor = |socket: &Arc<InheritedSocket>| SocketAcceptor {
            socket: Arc::clone(socket),
            permits: Arc::clone(permits),
            connections: sender.clone(),
            stopping: Arc::clone(&stopping),
        };
        let acceptors = sockets.iter().map(acceptor).collect();
        (Self { acceptors, threads: Vec::new(), stopping }, Arc::new(Mutex::new(receiver)))
    }

    /// Starts the threads.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        for acceptor in self.acceptors.drain(..) {
            // Its event loop waits for permits alone.
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            let body = move || runtime.block_on(acceptor.run());
            self.threads.push(std::thread::Builder::new().name("accept".into()).spawn(body)?);
        }
        Ok(())
    }

    /// Accepts no more connections, and waits until the threads have ended. The backlog belongs to whoever accepts next.
    pub(crate) async fn stop(&mut self) {
        self.acceptors.clear();
        self.stopping.store(true, Ordering::Release);
        while !self.threads.iter().all(JoinHandle::is_finished) {
            self.threads.iter().for_each(interrupt);
            tokio::time::sleep(INTERRUPT_PAUSE).await;
        }
    }
}

/// What a thread accepts, and for whom.
struct SocketAcceptor {
    socket: Arc<InheritedSocket>,
    permits: Arc<Semaphore>,
    connections: mpsc::UnboundedSender<InheritedConnection>,
    stopping: Arc<AtomicBool>,
}

impl SocketAcceptor {
    /// Accepts connections until it is to stop, or another process has shut the socket down. It may block its thread.
    async fn run(self) {
        let InheritedSocket { number, socket, address } = &*self.socket;
        if let Err(error) = become_interruptible() {
            warning(format_args!("the thread that accepts from fd:{number} cannot be interrupted: {error}"));
        }
        let is_tcp = address.is_tcp();
        let mut failing = false;
        while !self.stopping.load(Ordering::Acquire) {
            match accept_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    failing = false;
                    if is_tcp {
                        // The option is not set on the inherited socket, whose other holders would feel it.
                        let _ = set_tcp_nodelay(&socket, true);
                    }
                    // At the limit of connections this one waits, and others in the backlog.
                    let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
                    if self.connections.send(InheritedConnection { socket, is_tcp, permit }).is_err() {
                        return;
                    }
                }
                // The socket is one that does not block. It may become one at any time.
                Err(Errno::AGAIN) if waits_for_connections(socket) => {}
                Err(Errno::AGAIN | Errno::INVAL) => {
                    warning(format_args!("fd:{number} accepts no more connections: another process has shut it down"));
                    return;
                }
                Err(error) if is_of_connection(error) => {}
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        warning(format_args!("cannot accept connections from fd:{number} for now: {error}"));
                    }
                    sleep(ACCEPT_PAUSE);
                }
            }
        }
    }
}

/// Waits until a connection may be accepted, or a signal comes. Returns whether the socket still listens.
fn waits_for_connections(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    // A Unix socket that was shut down hangs up.
    poll(&mut polled, None).is_err() || !polled[0].revents().contains(PollFlags::HUP)
}
