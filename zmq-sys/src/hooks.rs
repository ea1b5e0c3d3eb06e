//! Functions that libzmq calls in the place of libc's. The build script renames libzmq's calls.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{addrinfo, c_char, c_int, c_void, epoll_event, size_t, sockaddr, socklen_t, ssize_t};

/// The least room in bytes for which libzmq calls `recv`, once a peer has sent its greeting. No option changes it.
pub const READ_BYTES: usize = 8_192;

/// What libzmq calls instead of the functions of libc of the same names. Each one behaves as that function does: it
/// returns the same values and sets `errno`.
pub struct Hooks {
    /// Called for the bytes that a peer has sent.
    pub recv: unsafe extern "C" fn(c_int, *mut c_void, size_t, c_int) -> ssize_t,
    /// Called for the bytes that libzmq sends to a peer.
    pub send: unsafe extern "C" fn(c_int, *const c_void, size_t, c_int) -> ssize_t,
    /// Called when a peer connects to a listener.
    pub accept4: unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int,
    /// Called to connect to a peer.
    pub connect: unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int,
    /// Called for every descriptor that libzmq closes.
    pub close: unsafe extern "C" fn(c_int) -> c_int,
    /// Called to wait for a descriptor, or to wait for it no more.
    pub epoll_ctl: unsafe extern "C" fn(c_int, c_int, c_int, *mut epoll_event) -> c_int,
    /// Called for the host of an endpoint, also for a numeric address.
    pub getaddrinfo: unsafe extern "C" fn(*const c_char, *const c_char, *const addrinfo, *mut *mut addrinfo) -> c_int,
}

static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(ptr::null_mut());

/// Makes libzmq call `hooks`, in every context of this process, from now on.
pub fn set_hooks(hooks: &'static Hooks) {
    HOOKS.store(ptr::from_ref(hooks).cast_mut(), Ordering::Release);
}

fn hooks() -> Option<&'static Hooks> {
    // SAFETY: the pointer is null, or it comes from a reference for the whole life of the process, which nothing writes
    // through.
    unsafe { HOOKS.load(Ordering::Acquire).as_ref() }
}

/// # Safety
/// As for recv(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_sys_recv(fd: c_int, data: *mut c_void, size: size_t, flags: c_int) -> ssize_t {
    let recv = hooks().map_or(libc::recv as _, |hooks| hooks.recv);
    // SAFETY: the caller promises what recv(2) asks for.
    unsafe { recv(fd, data, size, flags) }
}

/// # Safety
/// As for send(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_sys_send(fd: c_int, data: *const c_void, size: size_t, flags: c_int) -> ssize_t {
    let send = hooks().map_or(libc::send as _, |hooks| hooks.send);
    // SAFETY: the caller promises what send(2) asks for.
    unsafe { send(fd, data, size, flags) }
}

/// # Safety
/// As for accept4(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_sys_accept4(
    fd: c_int,
    address: *mut sockaddr,
    size: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let accept4 = hooks().map_or(libc::accept4 as _, |hooks| hooks.accept4);
    // SAFETY: the caller promises what accept4(2) asks for.
    unsafe { accept4(fd, address, size, flags) }
}

/// # Safety
/// As for connect(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_sys_connect(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int {
    let connect = hooks().map_or(libc::connect as _, |hooks| hooks.connect);
    // SAFETY: the caller promises what connect(2) asks for.
    unsafe { connect(fd, address, size) }
}

/// # Safety
/// As for close(2): the caller owns the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_sys_close(fd: c_int) -> c_int {
    let close = hooks().map_or(libc::close as _, |hooks| hooks.close);
    // SAFETY: the caller promises what close(2) asks for.
    unsafe { close(fd) }
}

/// # Safety
/// As for epoll_ctl(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_sys_epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let epoll_ctl = hooks().map_or(libc::epoll_ctl as _, |hooks| hooks.epoll_ctl);
    // SAFETY: the caller promises what epoll_ctl(2) asks for.
    unsafe { epoll_ctl(epoll, operation, fd, event) }
}

/// # Safety
/// As for getaddrinfo(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_sys_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> c_int {
    let getaddrinfo = hooks().map_or(libc::getaddrinfo as _, |hooks| hooks.getaddrinfo);
    // SAFETY: the caller promises what getaddrinfo(3) asks for.
    unsafe { getaddrinfo(node, service, hints, found) }
}
