//! An option, the addresses and the descriptor of a socket.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use zmq_sys::{ZMQ_USE_FD, ZMQ_XPUB_NODROP, zmq_setsockopt};

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
