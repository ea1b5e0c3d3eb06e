//! The calls of libzmq that the zmq crate does not wrap, or does not wrap as the bus needs them, and calls for libzmq's
//! connections: with `hooks`, the `unsafe` code of the bus. `frame` has a frame of a message.
//!
//! The `Message` of the zmq crate is consumed by a send that fails, so back-pressure would lose the message. It cannot
//! be shared between sockets without a copy, and it cannot lie in a part of a buffer. The crate's `bind` and `connect`
//! panic on an errno that they do not know, such as `ENOTDIR`. `ZMQ_XPUB_NODROP` is missing.

#![allow(unsafe_code)]

mod frame;

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use rustix::event::epoll;
use rustix::net::{Shutdown, SocketAddrUnix, getsockname, shutdown};
use zmq_sys::{ZMQ_USE_FD, ZMQ_XPUB_NODROP, zmq_setsockopt};

pub(super) use frame::Frame;

/// The value of `ZMQ_USE_FD` for a socket that libzmq opens itself.
const NO_FD: c_int = -1;

/// Makes this XPUB socket return `EAGAIN` if a pipe is full, instead of dropping the message silently.
pub(crate) fn set_nodrop(socket: &mut zmq::Socket) -> io::Result<()> {
    set_int(socket, ZMQ_XPUB_NODROP, 1)
}

/// Sets an option whose value is an integer.
fn set_int(socket: &mut zmq::Socket, option: u32, value: c_int) -> io::Result<()> {
    let option = option.cast_signed();
    // SAFETY: the pointer comes from a live socket, borrowed exclusively; libzmq reads
    // `size_of::<c_int>()` bytes of `value` during the call and keeps no reference.
    let rc =
        unsafe { zmq_setsockopt(socket.as_mut_ptr(), option, (&raw const value).cast::<c_void>(), size_of::<c_int>()) };
    checked(rc)
}

/// Calls `zmq_bind` for a socket that listens already, which libzmq owns afterwards.
pub(crate) fn bind_listening(socket: &mut zmq::Socket, address: &str, listening: OwnedFd) -> io::Result<()> {
    set_int(socket, ZMQ_USE_FD, listening.as_raw_fd())?;
    let bound = bind(socket, address);
    set_int(socket, ZMQ_USE_FD, NO_FD)?;
    bound?;
    let _owned_by_libzmq = listening.into_raw_fd();
    Ok(())
}

/// Calls `zmq_bind`.
pub(crate) fn bind(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
    with_address(socket, address, zmq_sys::zmq_bind)
}

/// Calls `zmq_connect`.
pub(crate) fn connect(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
    with_address(socket, address, zmq_sys::zmq_connect)
}

/// Calls `zmq_disconnect`.
pub(crate) fn disconnect(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
    with_address(socket, address, zmq_sys::zmq_disconnect)
}

type AddressCall = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;

/// Calls one of the three functions above with a socket and an address.
fn with_address(socket: &mut zmq::Socket, address: &str, call: AddressCall) -> io::Result<()> {
    let address = CString::new(address)?;
    // SAFETY: the socket is live and borrowed exclusively; the string ends with a NUL and outlives the
    // call, during which libzmq copies it.
    checked(unsafe { call(socket.as_mut_ptr(), address.as_ptr()) })
}

/// Returns the descriptor that becomes readable when the socket has events to process (`ZMQ_FD`).
pub(crate) fn descriptor(socket: &zmq::Socket) -> zmq::Result<BorrowedFd<'_>> {
    // SAFETY: the descriptor belongs to the socket, which closes it only when the socket itself ends, and the socket is
    // borrowed for as long as the descriptor.
    socket.get_fd().map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Returns the error of the call that returned `rc`, if it failed.
fn checked(rc: c_int) -> io::Result<()> {
    if rc >= 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error()) // on Linux `zmq_errno` is errno
}

/// How a connection is registered with the epoll instance of libzmq's thread.
///
/// This and the functions below take the number of a descriptor. The caller holds the lock under which the hook for
/// `close` forgets that number, so the descriptor is open, and is the connection that is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    pub(crate) epoll: RawFd,
    pub(crate) connection: RawFd,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

impl Registration {
    /// Lets libzmq's thread wait for the connection.
    pub(crate) fn add(&self) {
        let flags = epoll::EventFlags::from_bits_retain(self.events);
        let data = epoll::EventData::new_u64(self.data);
        let added = epoll::add(borrowed(self.epoll), borrowed(self.connection), data, flags);
        debug_assert!(added.is_ok(), "{added:?}");
    }

    /// Lets libzmq's thread not wait for the connection, not even for its end.
    pub(crate) fn remove(&self) {
        let removed = epoll::delete(borrowed(self.epoll), borrowed(self.connection));
        debug_assert!(removed.is_ok(), "{removed:?}");
    }
}

/// Ends both directions of a connection. libzmq reads the end, and closes it.
pub(crate) fn shut_down(connection: RawFd) {
    // The only error is that the peer has ended it already.
    let _ = shutdown(borrowed(connection), Shutdown::Both);
}

/// Returns how many of the sent bytes the peer has not acknowledged, or, at a Unix socket, not read.
pub(crate) fn unacknowledged_bytes(connection: RawFd) -> u64 {
    let mut bytes = 0;
    // SAFETY: the descriptor is open, and the kernel writes an `int` to the address.
    let status = unsafe { libc::ioctl(connection, libc::TIOCOUTQ, &raw mut bytes) };
    debug_assert_eq!(status, 0, "a socket tells what it has not sent");
    u64::try_from(bytes).unwrap_or_default()
}

/// Returns the endpoint of ours that the peer has connected to.
pub(crate) fn local_endpoint(connection: RawFd) -> String {
    let address = getsockname(borrowed(connection)).ok();
    let unix = || SocketAddrUnix::try_from(address.clone()?).ok();
    let path = unix().and_then(|unix| Some(format!("ipc://{}", unix.path()?.to_string_lossy())));
    let tcp = || Some(format!("tcp://{}", std::net::SocketAddr::try_from(address.clone()?).ok()?));
    path.or_else(tcp).unwrap_or_default()
}

fn borrowed<'c>(descriptor: RawFd) -> BorrowedFd<'c> {
    // SAFETY: the callers see to it that the descriptor is open for as long as they use it ([`Registration`]).
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xpub_accepts_nodrop_and_other_sockets_refuse_it() {
        let context = zmq::Context::new();
        set_nodrop(&mut context.socket(zmq::XPUB).unwrap()).unwrap();
        let other = set_nodrop(&mut context.socket(zmq::SUB).unwrap()).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn addresses_are_passed_to_libzmq_and_every_errno_is_returned() {
        let context = zmq::Context::new();
        let mut socket = context.socket(zmq::XPUB).unwrap();
        socket.set_linger(0).unwrap();
        connect(&mut socket, "tcp://127.0.0.1:9").unwrap();
        disconnect(&mut socket, "tcp://127.0.0.1:9").unwrap();
        let file_as_directory = bind(&mut socket, "ipc:///dev/null/x").unwrap_err();
        assert_eq!(file_as_directory.kind(), io::ErrorKind::NotADirectory);
    }
}
