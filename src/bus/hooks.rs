//! What libzmq calls instead of the kernel.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, ptr, slice, thread};

use libc::{addrinfo, sockaddr, sockaddr_in, sockaddr_in6, socklen_t, ssize_t};
use rustix::net::{getpeername, getsockname, sockopt};
use rustix::process::getpid;
use zmq_sys::{Hooks, READ_BYTES};

use super::ffi::Registration;
use super::guard::inbound::{self, ReadEnd};
use super::guard::{BackPressure, THREAD_PREFIX};
use super::link::names::{self, NameQuery};
use crate::zmtp::{HELD_BYTES, MARK_FRAME_BYTES};

/// The longest wait for the address of a host name in an endpoint that is bound. The program starts then.
const BIND_LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The hooks. They last as long as the process, as libzmq asks.
static HOOKS: Hooks = Hooks { recv, send, accept4, connect, close, epoll_ctl, getaddrinfo };

/// The connections that libzmq has made, with their address at this end: the gateway's own link to its hub is one of
/// them.
static DIALLED: Mutex<Vec<(RawFd, SocketAddr)>> = Mutex::new(Vec::new());

/// Creates a context, and opens its sockets. Every context of the bus comes from here, so that libzmq calls the hooks. One
/// that binds nothing has no `back_pressure`. libzmq starts the threads of a context with its first socket. They inherit
/// the name and the scheduling policy of the thread that creates it, so a thread with their name calls `open`.
pub(super) fn context<T: Send>(
    back_pressure: Option<&BackPressure>,
    open: impl FnOnce(&zmq::Context) -> T + Send,
) -> io::Result<(zmq::Context, T)> {
    zmq_sys::set_hooks(&HOOKS);
    let thread_name = back_pressure.map_or_else(|| format!("{THREAD_PREFIX}subscriber"), BackPressure::thread_name);
    let context = zmq::Context::new();
    let opened = thread::scope(|scope| {
        let opening = thread::Builder::new().name(thread_name).spawn_scoped(scope, || open(&context))?;
        Ok::<_, io::Error>(opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok((context, opened))
}

// What a guard withholds, and what it adds, has room where libzmq reads the beginning of a frame.
const _: () = assert!(HELD_BYTES + MARK_FRAME_BYTES < READ_BYTES);

/// Reads what a peer has sent, and leaves of it what the guard of the connection passes.
unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, size: usize, flags: c_int) -> ssize_t {
    let read = |room: usize| {
        // SAFETY: libzmq passes a buffer of `size` bytes, and `room` is at most `size`.
        let received = unsafe { libc::recv(fd, data, room, flags) };
        usize::try_from(received).map_err(|_| ReadEnd::Errno(last_errno()))
    };
    let filtered = inbound::with_guard(fd, |guard, peers, now| {
        if guard.must_wait() {
            return Err(ReadEnd::Errno(libc::EAGAIN));
        }
        if guard.is_paused(peers) {
            return Err(ReadEnd::Full);
        }
        // SAFETY: libzmq reads from a descriptor that it owns, and that is open.
        if guard.awaits_ready() && is_own(unsafe { BorrowedFd::borrow_raw(fd) }) {
            guard.set_own();
        }
        let more = guard.room_bytes();
        let room = size.checked_sub(more).filter(|room| *room > 0 || size == 0);
        debug_assert!(room.is_some(), "{more} bytes may be added, and there is room for {size}");
        let received = read(room.ok_or(ReadEnd::Errno(libc::EAGAIN))?)?;
        if received == 0 {
            return Ok(0); // the peer has closed the connection
        }
        // SAFETY: `received + more` is at most `size`. The kernel has written the first `received` bytes, and the rest
        // is written here, so that the slice has no byte without a value. Nothing else sees the buffer meanwhile.
        let buffer = unsafe {
            data.cast::<u8>().add(received).write_bytes(0, more);
            slice::from_raw_parts_mut(data.cast::<u8>(), received + more)
        };
        match guard.filter(buffer, received, peers, now) {
            Ok(0) => Err(ReadEnd::Errno(libc::EAGAIN)),
            Ok(passed) => Ok(passed),
            Err(violation) => Err(ReadEnd::PeerFault(violation)),
        }
    });
    let result = if let Err(ReadEnd::Unguarded) = filtered { read(size) } else { filtered };
    match result {
        Ok(passed) => passed.cast_signed(),
        Err(ReadEnd::Full) => {
            inbound::pause(fd);
            failed(libc::EAGAIN) as ssize_t
        }
        Err(ReadEnd::PeerFault(violation)) => {
            inbound::violated(fd, violation);
            failed(libc::ECONNRESET) as ssize_t
        }
        Err(ReadEnd::Nobody | ReadEnd::Unguarded) => {
            debug_assert!(false, "every connection of the bus has a guard");
            failed(libc::ECONNRESET) as ssize_t
        }
        // libzmq ends the process if there is no memory for what was sent.
        Err(ReadEnd::Errno(libc::ENOMEM | libc::ENOBUFS)) => failed(libc::ECONNRESET) as ssize_t,
        Err(ReadEnd::Errno(errno)) => failed(errno) as ssize_t,
    }
}

/// Sends to a peer. The guard of the connection sees our part of the handshake.
unsafe extern "C" fn send(fd: c_int, data: *const c_void, size: usize, flags: c_int) -> ssize_t {
    // SAFETY: libzmq passes `size` bytes, which it does not change during this call.
    let (sent, bytes) = unsafe { (libc::send(fd, data, size, flags), slice::from_raw_parts(data.cast::<u8>(), size)) };
    match usize::try_from(sent) {
        Ok(0) => {}
        Ok(sent) => inbound::sent(fd, bytes.get(..sent)),
        Err(_) => {
            let errno = last_errno();
            if !matches!(errno, libc::EAGAIN | libc::EINTR) {
                inbound::sent(fd, None);
            }
            return failed(errno) as ssize_t;
        }
    }
    sent
}

/// Registers a connection with libzmq's epoll instance. One that is paused is not registered meanwhile.
unsafe extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int {
    // SAFETY: libzmq passes an event with every operation.
    let libc::epoll_event { events, u64: data } = unsafe { event.read_unaligned() };
    let is_registered = operation != libc::EPOLL_CTL_DEL;
    let registration = is_registered.then_some(Registration { epoll, connection: fd, events, data });
    // SAFETY: libzmq passes an epoll instance and a descriptor that it owns, and an event.
    inbound::registered(fd, registration, || unsafe { libc::epoll_ctl(epoll, operation, fd, event) })
}

/// Accepts a peer. It takes the place of the oldest one in its handshake if there are too many.
unsafe extern "C" fn accept4(listener: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: libzmq passes a listener of its own, and an address and its size that can be written, or null pointers.
    let accepted = owned(unsafe { libc::accept4(listener, address, size, flags) });
    let Some(accepted) = accepted else {
        match last_errno() {
            errno @ (libc::EAGAIN | libc::EINTR | libc::ECONNABORTED | libc::EPROTO) => return failed(errno),
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => inbound::refuse_one(|| {
                // SAFETY: as above; the address is not wanted.
                owned(unsafe { libc::accept4(listener, ptr::null_mut(), ptr::null_mut(), flags) })
            }),
            _ => {}
        }
        // libzmq ends the process on most other errors, though accept(2) asks to pass over them.
        return failed(libc::ECONNABORTED);
    };
    let connection = accepted.into_raw_fd();
    inbound::accepted(connection);
    connection
}

/// Connects to a peer.
unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int {
    inbound::dialled(fd);
    // SAFETY: libzmq passes a socket of its own, and an address of this size.
    let (status, socket) = unsafe { (libc::connect(fd, address, size), BorrowedFd::borrow_raw(fd)) };
    let errno = last_errno();
    if let Some(address) = getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok()) {
        dialled_connections().push((fd, canonical(address)));
    }
    if status < 0 { failed(errno) } else { status }
}

/// Closes a descriptor, perhaps one of a connection.
unsafe extern "C" fn close(fd: c_int) -> c_int {
    inbound::closed(fd);
    dialled_connections().retain(|(other, _)| *other != fd);
    // SAFETY: libzmq owns the descriptor, and does not use it after this call.
    unsafe { libc::close(fd) }
}

/// Returns the address of a host. A name is looked up by [`names`].
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> c_int {
    // SAFETY: libzmq passes a host and hints, which stay valid during the call.
    let (host, mut hints) = unsafe { (CStr::from_ptr(node), *hints) };
    // libzmq looks up names only to connect, and asks for numeric addresses to bind.
    let flags = hints.ai_flags & !libc::AI_NUMERICHOST;
    let query = NameQuery { host: host.to_owned(), family: hints.ai_family, flags };
    // The lookup of a numeric address reads no file and asks nobody.
    hints.ai_flags |= libc::AI_NUMERICHOST;
    // SAFETY: libzmq passes a place for the result, and frees what is put there.
    let look_up_address = |host: &CStr| unsafe { libc::getaddrinfo(host.as_ptr(), service, &raw const hints, found) };
    let status = look_up_address(host);
    if status != libc::EAI_NONAME {
        return status;
    }
    let is_bound = flags & libc::AI_PASSIVE != 0;
    let timeout = if is_bound { BIND_LOOKUP_TIMEOUT } else { Duration::ZERO };
    match names::resolve(&query, timeout, look_up) {
        Some(Ok(address)) => CString::new(address.to_string()).map_or(libc::EAI_FAIL, |text| look_up_address(&text)),
        Some(Err(status)) => status,
        None => libc::EAI_AGAIN,
    }
}

/// Looks a name up and returns its first address. Blocks for as long as a name server needs.
fn look_up(query: &NameQuery) -> Result<IpAddr, c_int> {
    // SAFETY: null pointers and zeros are values of all fields.
    let mut hints: addrinfo = unsafe { std::mem::zeroed() };
    (hints.ai_family, hints.ai_flags, hints.ai_socktype) = (query.family, query.flags, libc::SOCK_STREAM);
    let mut found = ptr::null_mut();
    // SAFETY: the pointers are valid during the call.
    let status = unsafe { libc::getaddrinfo(query.host.as_ptr(), ptr::null(), &raw const hints, &raw mut found) };
    if status != 0 {
        return Err(status);
    }
    // SAFETY: the call succeeded, so that there is at least one result, whose address is of the family that it names.
    // The results are freed once, after they were read.
    unsafe {
        let address = (*found).ai_addr;
        let first = match (*found).ai_family {
            libc::AF_INET => Ok(IpAddr::from((*address.cast::<sockaddr_in>()).sin_addr.s_addr.to_ne_bytes())),
            libc::AF_INET6 => Ok(IpAddr::from((*address.cast::<sockaddr_in6>()).sin6_addr.s6_addr)),
            _ => Err(libc::EAI_FAMILY),
        };
        libc::freeaddrinfo(found);
        first
    }
}

/// Returns the descriptor that a call returned, if it did not fail.
fn owned(fd: c_int) -> Option<OwnedFd> {
    // SAFETY: the kernel has just made the descriptor, so nothing else owns it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn last_errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or_default()
}

/// Sets errno, and returns what a function returns that fails.
fn failed(errno: c_int) -> c_int {
    // SAFETY: the address is that of this thread's errno, and valid for as long as the thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Returns whether an accepted connection comes from this process. The other end of a Unix socket has no address, but a
/// process.
fn is_own(fd: BorrowedFd<'_>) -> bool {
    match getpeername(fd).map(|address| address.and_then(|address| SocketAddr::try_from(address).ok())) {
        Ok(Some(address)) => dialled_connections().iter().any(|(_, dialled)| *dialled == canonical(address)),
        _ => sockopt::socket_peercred(fd).is_ok_and(|peer| peer.pid == getpid()),
    }
}

/// A connection by IPv4 may be one by IPv6 at its other end.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn dialled_connections() -> MutexGuard<'static, Vec<(RawFd, SocketAddr)>> {
    DIALLED.lock().unwrap_or_else(PoisonError::into_inner)
}
