//! What the sockets that dial need of libzmq: threads, options, keep-alive, messages, and the time to send the rest.
//!
//! There are no ZMTP heartbeats, on purpose. A hub that is stopped (by SIGSTOP or a debugger) answers no heartbeat, so
//! heartbeats would turn back-pressure into a lost connection, and lose what the kernel had accepted for it. With TCP
//! keep-alive, the kernel of a stopped process still answers, and a machine that is gone does not.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use std::{io, thread};

use socket2::Socket;

use crate::bus::config::BusError;
use crate::bus::endpoint::{Endpoint, keepalive};
use crate::bus::ffi;
use crate::sys::process::schedule_as_batch;

const THREAD_NAME: &str = "zmq";

/// What libzmq starts for a context: a thread for input and output, and one that closes sockets.
const LIBZMQ_THREADS: usize = 2;

/// First pause before libzmq connects again, in ms. libzmq adds a random part of at most the same length.
const RECONNECT_MS: i32 = 100;
/// Longest such pause, in ms; it doubles from the first. A hub that is away costs two attempts a second.
const RECONNECT_MAX_MS: i32 = 400;
/// Longest wait for a TCP connection, in ms, where packets vanish. The kernel itself waits for two minutes.
pub(super) const CONNECT_TIMEOUT_MS: u16 = 3_000;
/// Longest time for a handshake, in ms. It is two round trips, each of a second and more where a link is congested, and
/// has no end if the peer speaks another protocol.
pub(super) const HANDSHAKE_TIMEOUT_MS: u16 = 5_000;

/// Creates a context, and opens a socket for each endpoint. libzmq starts the threads of a context with its first
/// socket. They inherit the name and the scheduling policy of the thread that creates it, so a thread with both calls
/// `open`. Where the system allows too few threads, libzmq would abort the process.
pub(crate) fn with_context<T: Send>(
    endpoints: &[Endpoint],
    open: impl Fn(&zmq::Context, &Endpoint) -> io::Result<T> + Sync,
) -> Result<(zmq::Context, Vec<T>), BusError> {
    try_threads()?;
    let context = zmq::Context::new();
    let opened = thread::scope(|scope| {
        let body = || {
            schedule_as_batch();
            let open = |endpoint: &Endpoint| {
                open(&context, endpoint).map_err(|cause| BusError::Endpoint(endpoint.clone(), cause))
            };
            endpoints.iter().map(open).collect::<Result<_, BusError>>()
        };
        let opening = thread::Builder::new().name(THREAD_NAME.into()).spawn_scoped(scope, body)?;
        opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok((context, opened))
}

fn try_threads() -> io::Result<()> {
    let all_started = Mutex::new(());
    let guard = all_started.lock();
    thread::scope(|scope| {
        let wait = || drop(all_started.lock());
        let start = |_| thread::Builder::new().name(THREAD_NAME.into()).spawn_scoped(scope, wait);
        let threads: io::Result<Vec<_>> = (0..=LIBZMQ_THREADS).map(start).collect();
        drop(guard);
        // A thread counts until it is joined.
        threads?.into_iter().try_for_each(ScopedJoinHandle::join).map_err(|_| io::ErrorKind::Other.into())
    })
}

/// Sets the options of all sockets that dial.
pub(super) fn set_options(socket: &zmq::Socket) -> zmq::Result<()> {
    socket.set_linger(0)?;
    socket.set_reconnect_ivl(RECONNECT_MS)?;
    socket.set_reconnect_ivl_max(RECONNECT_MAX_MS)?;
    socket.set_connect_timeout(CONNECT_TIMEOUT_MS.into())?;
    socket.set_handshake_ivl(HANDSHAKE_TIMEOUT_MS.into())
}

/// Sets TCP keep-alive, which libzmq as the `zmq-sys` crate builds it does not do.
///
/// libzmq may have closed the descriptor since it reported it, and its number may stand for something else. So what it
/// stands for is duplicated first, and left alone unless its peer is `peer`. Another connection to the same peer is one
/// of this process too, which keep-alive does not harm.
pub(super) fn keep_alive(descriptor: RawFd, peer: SocketAddr) -> io::Result<()> {
    let connection = Socket::from(ffi::duplicate(descriptor)?);
    let address = connection.peer_addr()?.as_socket().ok_or(io::ErrorKind::NotConnected)?;
    if !is_same(address, peer) {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    }
    connection.set_tcp_keepalive(&keepalive())
}

/// Compares two addresses without what names the zone, which may be a number or the name of an interface.
pub(super) fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

/// Receives a message without blocking. Returns its frames, or `None` if none has arrived.
pub(crate) fn receive(socket: &zmq::Socket) -> Option<Vec<zmq::Message>> {
    let mut frames = Vec::new();
    loop {
        let mut frame = zmq::Message::new();
        match socket.recv(&mut frame, zmq::DONTWAIT) {
            Ok(()) => frames.push(frame),
            Err(zmq::Error::EINTR) => continue,
            Err(error) => {
                debug_assert!(error == zmq::Error::EAGAIN && frames.is_empty(), "{error} behind {frames:?}");
                return None;
            }
        }
        if frames.last().is_some_and(|frame| !frame.get_more()) {
            return Some(frames);
        }
    }
}

pub(super) fn left_ms(deadline: Option<Instant>) -> i32 {
    let left = deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
    left.as_millis().try_into().unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use socket2::SockRef;

    use super::*;
    use crate::bus::endpoint::{KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES};

    #[test]
    fn what_is_left_until_a_deadline_is_never_negative_nor_too_much() {
        let now = Instant::now();
        assert_eq!((left_ms(None), left_ms(Some(now))), (0, 0));
        let hour_ms = 3_600_000;
        let left = left_ms(Some(now + Duration::from_millis(hour_ms)));
        assert!((1..=hour_ms as i32).contains(&left), "{left}");
        assert_eq!(left_ms(Some(now + Duration::from_secs(1 << 32))), i32::MAX);
    }

    #[test]
    fn a_connection_to_the_peer_is_kept_alive_and_nothing_else_is_touched() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let connection = TcpStream::connect(peer).unwrap();
        let other = SocketAddr::new(peer.ip(), peer.port() ^ 1);
        let (left, _right) = UnixStream::pair().unwrap();
        let closed = left.try_clone().unwrap().as_raw_fd();
        for (descriptor, peer) in
            [(connection.as_raw_fd(), other), (left.as_raw_fd(), peer), (listener.as_raw_fd(), peer), (closed, peer)]
        {
            keep_alive(descriptor, peer).unwrap_err();
        }
        let found = SockRef::from(&connection);
        assert!(!found.keepalive().unwrap());
        keep_alive(connection.as_raw_fd(), peer).unwrap();
        assert!(found.keepalive().unwrap());
        assert_eq!(found.tcp_keepalive_time().unwrap(), KEEPALIVE_IDLE);
        assert_eq!(found.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(found.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
    }
}
