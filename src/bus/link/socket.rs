//! What the sockets that dial need of libzmq: threads, connections and messages.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::LazyLock;
use std::{io, thread};

use socket2::Socket;

use crate::bus::config::BusError;
use crate::bus::endpoint::Endpoint;
use crate::bus::ffi;
use crate::sys::host::EPHEMERAL_PORTS;
use crate::sys::process::schedule_as_batch;

/// Longest wait for a TCP connection, in ms, where packets vanish. The kernel itself waits for two minutes.
pub(super) const CONNECT_TIMEOUT_MS: u16 = 3_000;
/// Longest time for a handshake, in ms. It is two round trips, each of a second and more where a link is congested, and
/// has no end if the peer speaks another protocol.
pub(super) const HANDSHAKE_TIMEOUT_MS: u16 = 5_000;

/// Creates a context, which lives as long as its sockets, and opens a socket for each endpoint. libzmq starts the threads
/// of a context with its first socket. They inherit the name and the scheduling policy of the thread that creates it, so
/// a thread with both calls `open`.
pub(crate) fn with_context<T: Send>(
    endpoints: &[Endpoint],
    open: impl Fn(&zmq::Context, &Endpoint) -> io::Result<T> + Sync,
) -> Result<Vec<T>, BusError> {
    // Where the system allows too few threads, libzmq would abort the process. It starts one for input and output, and
    // one that closes sockets.
    in_thread(|| in_thread(|| in_thread(|| Ok(()))))?;
    // The bus thread reads no file.
    LazyLock::force(&EPHEMERAL_PORTS);
    in_thread(|| {
        schedule_as_batch();
        let context = zmq::Context::new();
        let open =
            |endpoint: &Endpoint| open(&context, endpoint).map_err(|cause| BusError::Endpoint(endpoint.clone(), cause));
        endpoints.iter().map(open).collect()
    })
}

fn in_thread<T: Send>(body: impl FnOnce() -> Result<T, BusError> + Send) -> Result<T, BusError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("zmq".into()).spawn_scoped(scope, body)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Returns a connection of libzmq by its descriptor.
///
/// libzmq may have closed the descriptor since it reported it, and its number may stand for something else. So what it
/// stands for is duplicated first, and returned only if its peer is `peer`. Another connection to the same peer is one of
/// this process too, and what is done to the one does not harm the other.
pub(super) fn connection_to(peer: SocketAddr, descriptor: RawFd) -> Option<Socket> {
    let connection = Socket::from(ffi::duplicate(descriptor).ok()?);
    let address = connection.peer_addr().ok()?.as_socket()?;
    is_same(address, peer).then_some(connection)
}

/// Compares two addresses without what names the zone, which may be a number or the name of an interface.
pub(super) fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

/// Receives a message without blocking. Returns its frames, or `None` if none has arrived.
pub(crate) fn receive(socket: &zmq::Socket) -> Option<Vec<zmq::Message>> {
    let mut frames: Vec<zmq::Message> = Vec::new();
    while frames.last().is_none_or(zmq::Message::get_more) {
        let mut frame = zmq::Message::new();
        match socket.recv(&mut frame, zmq::DONTWAIT) {
            Ok(()) => frames.push(frame),
            Err(zmq::Error::EINTR) => {}
            Err(error) => {
                debug_assert!(error == zmq::Error::EAGAIN && frames.is_empty(), "{error} behind {frames:?}");
                return None;
            }
        }
    }
    Some(frames)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use socket2::SockRef;

    use super::*;
    use crate::bus::liveness::{KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES, keepalive};

    #[test]
    fn a_connection_to_the_peer_is_found_by_its_descriptor_and_nothing_else_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let connection = TcpStream::connect(peer).unwrap();
        let other = SocketAddr::new(peer.ip(), peer.port() ^ 1);
        let (left, _right) = UnixStream::pair().unwrap();
        let closed = left.try_clone().unwrap().as_raw_fd();
        for (descriptor, peer) in
            [(connection.as_raw_fd(), other), (left.as_raw_fd(), peer), (listener.as_raw_fd(), peer), (closed, peer)]
        {
            assert!(connection_to(peer, descriptor).is_none());
        }
        let found = connection_to(peer, connection.as_raw_fd()).unwrap();
        found.set_tcp_keepalive(&keepalive()).unwrap();
        let same = SockRef::from(&connection);
        assert!(same.keepalive().unwrap());
        assert_eq!(same.tcp_keepalive_time().unwrap(), KEEPALIVE_IDLE);
        assert_eq!(same.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(same.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
    }
}
