//! Finds out which addresses an endpoint has, and why nothing is connected to it. libzmq reports that an attempt
//! has failed, and not why, so the probe connects once more by itself, and reads the beginning of a ZMTP handshake.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{mem, thread};

use socket2::{Domain, SockAddr, Socket, Type};

use super::socket::{CONNECT_TIMEOUT_MS, HANDSHAKE_TIMEOUT_MS};
use super::state::{LinkStatus, NotConnected};
use crate::bus::endpoint::Endpoint;
use crate::bus::poller::Waker;
use crate::zmtp::{GREETING, GREETING_VERSION_BYTES, PeerSession, SocketRole, ready};

impl From<io::Error> for NotConnected {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // A Unix socket whose file is not there.
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Self::Refused,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Silent,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Closed,
            // There is no error of the system at a Unix socket whose backlog is full.
            _ if error.raw_os_error().is_none() => Self::Silent,
            _ => Self::Unreachable(error.to_string()),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProbeReport {
    /// The TCP addresses of the endpoint, and then that of them at which there is a peer of the right kind.
    Addresses(Vec<SocketAddr>),
    /// Whether a peer of the right kind is there. Nothing follows.
    End(LinkStatus),
}

/// Probes the endpoint in a thread of its own, since the lookup of a name may take long. Each report wakes `waker`.
/// Without a thread the receiver is disconnected, nothing is found out, and libzmq still tries to connect.
pub(super) fn start(endpoint: &Endpoint, role: SocketRole, waker: &Arc<Waker>) -> Receiver<ProbeReport> {
    let (sender, receiver) = channel();
    let (endpoint, waker) = (endpoint.clone(), Arc::clone(waker));
    let report = move |report| {
        // The receiver is gone if the socket is.
        let _ = sender.send(report);
        waker.wake();
    };
    let body = move || report(ProbeReport::End(probe(&endpoint, role, &report)));
    let _ = thread::Builder::new().name("probe".into()).spawn(body);
    receiver
}

/// Probes the endpoint, whose peers are to do what `role` says. Blocks for as long as the system resolves the name.
fn probe(endpoint: &Endpoint, role: SocketRole, report: &dyn Fn(ProbeReport)) -> LinkStatus {
    let addresses = addresses(endpoint)?;
    report(ProbeReport::Addresses(addresses.iter().filter_map(SockAddr::as_socket).collect()));
    let found = find_peer(&addresses, role)?;
    report(ProbeReport::Addresses(found.as_socket().into_iter().collect()));
    Ok(())
}

/// Returns the first address with a peer of the right kind. If there is none, a peer that does not fit is the reason.
fn find_peer(addresses: &[SockAddr], role: SocketRole) -> Result<&SockAddr, NotConnected> {
    let mut failure = NotConnected::Unresolved("no address of the right family".into());
    for address in addresses {
        let Err(reason) = shake_hands(address, role) else { return Ok(address) };
        failure = if matches!(failure, NotConnected::Unfit(_)) { failure } else { reason };
    }
    Err(failure)
}

/// Connects to the address, shakes hands, and closes the connection. A peer that does not fit gets no `READY`, as it gets
/// none of libzmq.
fn shake_hands(address: &SockAddr, role: SocketRole) -> LinkStatus {
    let mut socket = Socket::new(address.domain(), Type::STREAM, None)?;
    // See `Endpoint::for_libzmq`.
    socket.set_reuse_address(true)?;
    socket.connect_timeout(address, Duration::from_millis(CONNECT_TIMEOUT_MS.into()))?;
    let timeout = Duration::from_millis(HANDSHAKE_TIMEOUT_MS.into());
    let deadline = Instant::now() + timeout;
    socket.set_write_timeout(Some(timeout))?;
    let (version, mut rest) = GREETING.split_at(GREETING_VERSION_BYTES);
    socket.write_all(version)?;
    let (mut session, mut buffer) = (PeerSession::new(role, 0), [0; 512]);
    while !session.is_ready() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NotConnected::Silent);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut buffer) {
            Ok(0) => return Err(NotConnected::Closed),
            Ok(read) => {
                session.receive(buffer.split_at(read).0, &mut |_| {}).map_err(NotConnected::Unfit)?;
                if session.has_major_version() {
                    socket.write_all(mem::take(&mut rest))?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Without it, a hub of another gateway would take this for a socket that does not fit.
    socket.write_all(ready(role))?;
    Ok(())
}

/// Returns the addresses to connect to: those of IPv6 if the host stands in brackets, otherwise those of IPv4.
fn addresses(endpoint: &Endpoint) -> Result<Vec<SockAddr>, NotConnected> {
    match &endpoint.address {
        Some(address) => {
            let found = address.addresses().map_err(|error| NotConnected::Unresolved(error.to_string()))?;
            let family = if endpoint.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
            Ok(found.into_iter().map(SockAddr::from).filter(|address| address.domain() == family).collect())
        }
        None => {
            let path = endpoint.ipc_path();
            // socket2 takes a leading NUL for an abstract name, and libzmq an `@`.
            let path = path.strip_prefix('@').map_or_else(|| path.to_string(), |name| format!("\0{name}"));
            Ok(vec![SockAddr::unix(path)?])
        }
    }
}

#[cfg(test)]
mod tests;
