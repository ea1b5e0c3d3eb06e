//! The `unsafe` code of the bus. The `Message` of the zmq crate is consumed by a send that fails, so back-pressure
//! would lose the message, and it cannot lie in a part of a buffer. The crate's `connect` panics on an errno that it
//! does not know, such as `ENOTDIR`. `ZMQ_XPUB_NODROP` and `ZMQ_XPUB_MANUAL` are missing.

#![allow(unsafe_code)]

mod frame;

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use zmq_sys::{ZMQ_XPUB_MANUAL, ZMQ_XPUB_NODROP, zmq_setsockopt};

pub(super) use frame::Frame;

/// Makes this XPUB socket return `EAGAIN` if a pipe is full, instead of dropping the message silently, and leave it to
/// `set_subscribe` what the peer is sent whose subscription was received last.
pub(crate) fn set_nodrop_and_manual(socket: &mut zmq::Socket) -> io::Result<()> {
    let on: c_int = 1;
    [ZMQ_XPUB_NODROP, ZMQ_XPUB_MANUAL].into_iter().try_for_each(|option| {
        let (option, value) = (option.cast_signed(), (&raw const on).cast());
        // SAFETY: the socket is live and borrowed exclusively; libzmq reads `size_of::<c_int>()` bytes of `value` during
        // the call and keeps no reference.
        checked(unsafe { zmq_setsockopt(socket.as_mut_ptr(), option, value, size_of::<c_int>()) })
    })
}

pub(crate) fn connect(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
    let address = CString::new(address)?;
    // SAFETY: the socket is live and borrowed exclusively; libzmq copies the string, which ends with a NUL.
    checked(unsafe { zmq_sys::zmq_connect(socket.as_mut_ptr(), address.as_ptr()) })
}

/// Returns the descriptor that becomes readable when the socket has events to process (`ZMQ_FD`).
pub(crate) fn descriptor(socket: &zmq::Socket) -> zmq::Result<BorrowedFd<'_>> {
    // SAFETY: the socket, which is borrowed for as long as the descriptor, closes it only when it ends itself.
    socket.get_fd().map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// On Linux `zmq_errno` is errno.
fn checked(rc: c_int) -> io::Result<()> {
    if rc >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns another descriptor of what `descriptor` stands for now, which need not be open.
pub(crate) fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes any number, and fails for one that is not open.
    let duplicated = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    checked(duplicated)?;
    // SAFETY: the kernel has just made the descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicated) })
}

/// Returns how many of the bytes that were sent the peer has not acknowledged or, at a Unix socket, not read.
pub(crate) fn unacknowledged_bytes(connection: BorrowedFd<'_>) -> u64 {
    let mut bytes: c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes an `int` to the address.
    let status = unsafe { libc::ioctl(connection.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    debug_assert_eq!(status, 0, "a socket tells what was not acknowledged");
    // There are never fewer than none.
    bytes.unsigned_abs().into()
}

/// Returns what the kernel knows of a TCP connection, or an error for another socket.
pub(crate) fn tcp_info(connection: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the structure has numbers alone, so all of its bytes may be 0. A kernel that knows fewer of them leaves the
    // rest as it is.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `bytes` bytes to the address.
    checked(unsafe {
        libc::getsockopt(connection.as_raw_fd(), level, option, (&raw mut info).cast::<c_void>(), &raw mut bytes)
    })?;
    Ok(info)
}

/// Returns the process that has connected a Unix socket, or `None` if it is one of another container.
pub(crate) fn peer_process(connection: BorrowedFd<'_>) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `bytes` bytes to the address.
    let status = unsafe {
        libc::getsockopt(connection.as_raw_fd(), level, option, (&raw mut peer).cast::<c_void>(), &raw mut bytes)
    };
    u32::try_from(peer.pid).ok().filter(|&process| status == 0 && process > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn xpub_accepts_its_options_and_other_sockets_refuse_them() {
        let context = zmq::Context::new();
        set_nodrop_and_manual(&mut context.socket(zmq::XPUB).unwrap()).unwrap();
        let other = set_nodrop_and_manual(&mut context.socket(zmq::SUB).unwrap()).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn addresses_are_passed_to_libzmq_and_every_errno_is_returned() {
        let context = zmq::Context::new();
        let mut socket = context.socket(zmq::XPUB).unwrap();
        socket.set_linger(0).unwrap();
        connect(&mut socket, "tcp://127.0.0.1:9").unwrap();
        socket.disconnect("tcp://127.0.0.1:9").unwrap();
        assert_eq!(socket.disconnect("tcp://127.0.0.1:9"), Err(zmq::Error::ENOENT));
        assert_eq!(
            connect(&mut socket, "udp://127.0.0.1:9").unwrap_err().raw_os_error(),
            Some(zmq_sys::errno::ENOCOMPATPROTO)
        );
    }

    #[test]
    fn what_a_peer_has_not_read_of_a_unix_socket_is_unacknowledged() {
        let (mut left, mut right) = UnixStream::pair().unwrap();
        assert_eq!(unacknowledged_bytes(left.as_fd()), 0);
        left.write_all(&[0; 100]).unwrap();
        assert!(unacknowledged_bytes(left.as_fd()) >= 100);
        right.read_exact(&mut [0; 100]).unwrap();
        assert_eq!(unacknowledged_bytes(left.as_fd()), 0);
    }

    #[test]
    fn a_unix_socket_has_the_process_that_has_connected_it_and_one_of_tcp_has_none() {
        let (left, _right) = UnixStream::pair().unwrap();
        assert_eq!(peer_process(left.as_fd()), Some(std::process::id()));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(peer_process(listener.as_fd()), None);
    }

    #[test]
    fn a_tcp_connection_tells_what_the_kernel_knows_of_it_and_a_unix_socket_does_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(connection.as_fd()).unwrap();
        assert_eq!((info.tcpi_state, info.tcpi_retransmits, info.tcpi_probes), (1, 0, 0), "TCP_ESTABLISHED");
        let (left, _right) = UnixStream::pair().unwrap();
        tcp_info(left.as_fd()).unwrap_err();
    }

    #[test]
    fn a_duplicate_is_the_same_connection_and_what_is_closed_has_none() {
        let (left, right) = UnixStream::pair().unwrap();
        let mut duplicated = UnixStream::from(duplicate(left.as_raw_fd()).unwrap());
        drop(left);
        duplicated.write_all(b"1").unwrap();
        (&right).read_exact(&mut [0]).unwrap();
        for closed in [-1, RawFd::MAX] {
            assert_eq!(duplicate(closed).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
    }
}
