//! What all owners of ZeroMQ sockets need: the options, the addresses that they bind, how they wait, and how they close.
//!
//! There are no ZMTP heartbeats, on purpose. A hub that is stopped (by SIGSTOP or a debugger) answers no heartbeat, so
//! heartbeats would turn back-pressure into a lost connection, and lose what the kernel had accepted for that
//! connection. TCP keep-alive distinguishes the two cases: the kernel of a stopped process still answers, and a machine
//! that is gone does not.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use super::endpoint::{Endpoint, Location};
use super::ffi;
use crate::sync::waker::Waker;
use crate::sys::unix_listener::UnixListener;

/// First pause before libzmq connects again, in ms. libzmq adds a random part of at most the same length.
const RECONNECT_MS: i32 = 100;
/// Longest such pause, in ms; it doubles from the first. A hub that is away costs two attempts a second.
const RECONNECT_MAX_MS: i32 = 400;
/// Longest wait for a TCP connection, in ms, where packets vanish. The kernel itself waits for two minutes.
const CONNECT_TIMEOUT_MS: i32 = 3_000;
/// Idle time of a TCP connection before the kernel probes it, in s.
const KEEPALIVE_IDLE_S: i32 = 30;
/// Pause between two such probes, in s.
const KEEPALIVE_INTERVAL_S: i32 = 5;
/// Number of unanswered probes that end the connection.
const KEEPALIVE_PROBES: i32 = 3;
/// Longest time that a peer may take for its handshake, in ms.
const HANDSHAKE_TIMEOUT_MS: i32 = 5_000;

/// Peers that the kernel connects to a Unix socket before libzmq accepts them: libzmq's own default.
const IPC_BACKLOG: i32 = 100;
/// The last number that is tried in the name of a Unix socket with any path.
const LAST_IPC_NUMBER: u32 = 100;

/// Longest wait for room in a full pipe. The socket's descriptor announces the room, except if the attempt to send has
/// itself consumed the announcement together with other commands.
pub(super) const FULL_RECHECK: Duration = Duration::from_millis(100);

/// Longest wait in one call, because the kernel's older system call takes at most some 24 days. A caller that waits for
/// longer waits again.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// The data of an epoll event, which says where it comes from.
const WAKER: u64 = 0;
const SOCKET: u64 = 1;

/// Sets how often a connecting socket tries to connect.
pub(super) fn set_reconnect(socket: &zmq::Socket) -> zmq::Result<()> {
    socket.set_reconnect_ivl(RECONNECT_MS)?;
    socket.set_reconnect_ivl_max(RECONNECT_MAX_MS)?;
    socket.set_connect_timeout(CONNECT_TIMEOUT_MS)
}

/// Bounds the time of a handshake, and makes the kernel detect peers that have disappeared without closing their
/// connection.
pub(super) fn set_peer_timeouts(socket: &zmq::Socket) -> zmq::Result<()> {
    socket.set_handshake_ivl(HANDSHAKE_TIMEOUT_MS)?;
    socket.set_tcp_keepalive(1)?;
    socket.set_tcp_keepalive_idle(KEEPALIVE_IDLE_S)?;
    socket.set_tcp_keepalive_intvl(KEEPALIVE_INTERVAL_S)?;
    socket.set_tcp_keepalive_cnt(KEEPALIVE_PROBES)
}

/// What a socket is bound to.
pub(super) struct Bound {
    /// The endpoint that is actually bound, with wildcards resolved.
    pub(super) endpoint: Endpoint,
    /// The Unix socket of an `ipc://` endpoint. Its file is removed when this is dropped.
    pub(super) ipc: Option<UnixListener>,
}

/// Binds `socket`.
///
/// libzmq unlinks whatever is at the path of an `ipc://` endpoint: a file, or the socket of another process, to which nobody
/// can connect from then on. So the bus opens that socket itself, and libzmq takes it over.
pub(super) fn bind(socket: &mut zmq::Socket, endpoint: &Endpoint) -> io::Result<Bound> {
    socket.set_ipv6(endpoint.is_ipv6())?;
    let ipc = match endpoint.place() {
        Location::Ipc(name) => Some(open_ipc(name)?),
        Location::Tcp(_) => None,
    };
    match &ipc {
        Some(listener) => ffi::bind_listening(socket, endpoint.as_str(), listener.descriptor()?)?,
        None => ffi::bind(socket, endpoint.as_str()).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => io::Error::other("the host is no interface, no address and no known name"),
            _ => error,
        })?,
    }
    let bound = socket.get_last_endpoint()?.ok().and_then(|text| text.parse().ok());
    Ok(Bound { endpoint: bound.unwrap_or_else(|| endpoint.clone()), ipc })
}

/// Listens at `name`: a path, an abstract name after an `@`, or `*` for any path. A socket at the path that nobody
/// listens on is replaced.
///
/// # Errors
/// Returns an error if somebody listens there, if there is a file that is not a socket, or if the system refuses. Then
/// whatever is at the path is as it was.
fn open_ipc(name: &str) -> io::Result<UnixListener> {
    match name.strip_prefix('@') {
        Some("") => Err(io::Error::new(io::ErrorKind::InvalidInput, "an abstract name is not empty")),
        Some(name) => UnixListener::open_abstract(name.as_bytes(), IPC_BACKLOG),
        None if name == "*" => open_any_ipc(),
        None => UnixListener::open(Path::new(name), IPC_BACKLOG),
    }
}

/// libzmq would choose a name in the current directory, and leave the file behind.
fn open_any_ipc() -> io::Result<UnixListener> {
    let (directory, process) = (std::env::temp_dir(), std::process::id());
    let mut number = 0;
    loop {
        match UnixListener::open(&directory.join(format!("adapter-gateway-{process}-{number}")), IPC_BACKLOG) {
            Err(_) if number < LAST_IPC_NUMBER => number += 1,
            opened => return opened,
        }
    }
}

/// Closes `socket`. libzmq continues to send until `stop_at`; without it, it sends nothing more.
pub(super) fn close(socket: zmq::Socket, stop_at: Option<&Instant>) {
    let set = socket.set_linger(left_ms(stop_at));
    debug_assert!(set.is_ok(), "libzmq takes every linger time from 0 on");
    drop(socket);
}

/// Returns the time left until `deadline` in milliseconds, rounded down; 0 if there is no deadline.
fn left_ms(deadline: Option<&Instant>) -> i32 {
    let left = deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
    left.as_millis().try_into().unwrap_or(i32::MAX)
}

/// Waits for a waker and for sockets with one call. `zmq_poll` polls twice and knows no waker: when messages come one by
/// one, it takes ten system calls for a message, and epoll takes six.
pub(super) struct Poller(OwnedFd);

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// The time was over.
    TimedOut,
    /// The waker was set, and no socket is ready.
    Waker,
    /// A socket may have something to read, or room to write.
    Sockets,
}

impl Poller {
    /// Creates a poller that waits for `waker` alone. Each wake ends one wait; the waker need not be cleared.
    pub(super) fn new(waker: &Waker) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edge_triggered = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, waker, epoll::EventData::new_u64(WAKER), edge_triggered)?;
        Ok(Self(epoll))
    }

    /// Adds the descriptor of a socket, until that is closed.
    pub(super) fn add(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.0, socket, epoll::EventData::new_u64(SOCKET), epoll::EventFlags::IN)?)
    }

    /// Waits until the waker is set or a socket is ready, at most until `until`; without it, for ever.
    ///
    /// A socket's descriptor announces only what arrives after the socket was last read until nothing was left.
    pub(super) fn wait(&self, until: Option<Instant>) -> WaitEnd {
        let left = until.map(|at| at.saturating_duration_since(Instant::now()).min(LONGEST_WAIT));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(WAKER) }; 8];
        match epoll::wait(&self.0, &mut events, timeout.as_ref()) {
            Ok(0) => WaitEnd::TimedOut,
            Ok(count) if events.iter().take(count).all(|event| event.data.u64() == WAKER) => WaitEnd::Waker,
            // After an error, a signal interrupted the wait: the caller looks at the sockets too.
            Ok(_) | Err(_) => WaitEnd::Sockets,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(1))
    }

    #[test]
    fn what_is_left_until_a_deadline_is_never_negative_nor_too_much() {
        let now = Instant::now();
        assert_eq!((left_ms(None), left_ms(Some(&now))), (0, 0));
        let hour_ms = 3_600_000;
        let left = left_ms(Some(&(now + Duration::from_millis(hour_ms))));
        assert!((1..=hour_ms as i32).contains(&left), "{left}");
        assert_eq!(left_ms(Some(&(now + Duration::from_secs(1 << 32)))), i32::MAX);
    }

    #[test]
    fn a_set_waker_ends_one_wait_and_the_time_ends_the_next() {
        let waker = Waker::new().unwrap();
        let poller = Poller::new(&waker).unwrap();
        for _ in 0..2 {
            waker.force_wake();
            assert_eq!(poller.wait(None), WaitEnd::Waker);
            assert_eq!(poller.wait(soon()), WaitEnd::TimedOut);
        }
    }

    #[test]
    fn a_socket_with_a_message_ends_the_wait() {
        let (waker, context) = (Waker::new().unwrap(), zmq::Context::new());
        let [left, right] = [zmq::PAIR; 2].map(|kind| context.socket(kind).unwrap());
        left.bind("inproc://wait").unwrap();
        right.connect("inproc://wait").unwrap();
        let poller = Poller::new(&waker).unwrap();
        poller.add(ffi::descriptor(&right).unwrap()).unwrap();
        while right.recv_bytes(zmq::DONTWAIT).is_ok() {}
        assert_eq!(poller.wait(soon()), WaitEnd::TimedOut);
        left.send("message", 0).unwrap();
        assert_eq!(poller.wait(None), WaitEnd::Sockets);
    }

    #[test]
    fn any_path_is_free_and_in_the_temporary_directory() {
        let listeners = [(); 3].map(|()| open_ipc("*").unwrap());
        let paths = listeners.each_ref().map(|listener| listener.path().unwrap().to_owned());
        for path in &paths {
            assert_eq!(path.parent(), Some(&*std::env::temp_dir()));
            UnixStream::connect(path).unwrap();
        }
        drop(listeners);
        assert!(!paths.iter().any(|path| path.exists()));
    }

    #[test]
    fn an_abstract_name_is_taken_once_and_is_no_file() {
        let name = format!("@adapter-gateway-test-{}", std::process::id());
        let listener = open_ipc(&name).unwrap();
        assert_eq!(open_ipc(&name).map(drop).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(!Path::new(&name).exists());
        drop(listener);
        open_ipc(&name).unwrap();
        assert_eq!(open_ipc("@").map(drop).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
