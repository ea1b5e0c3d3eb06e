//! The calls of libzmq that the zmq crate does not wrap, or does not wrap as the bus needs them: the `unsafe` code of
//! the bus.
//!
//! The `Message` of the zmq crate is consumed by a send that fails, so back-pressure would lose the message. It cannot
//! be shared between sockets without a copy, and it cannot lie in a part of a buffer. The crate's `bind` and `connect`
//! panic on an errno that they do not know, such as `ENOTDIR`. `ZMQ_XPUB_NODROP` is missing.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{io, ptr, slice};

use libc::{addrinfo, sockaddr, sockaddr_in, sockaddr_in6, socklen_t, ssize_t};
use zmq_sys::{Hooks, zmq_msg_t, zmq_setsockopt};

use super::door;
use super::memory::{COUNTED_BYTES, HeldBytes, HeldCounter};
use super::names::{self, NameQuery};

/// `ZMQ_XPUB_NODROP`, from `zmq.h`.
const XPUB_NODROP: c_int = 69;

/// `ZMQ_USE_FD`, from `zmq.h`, and its value for a socket that libzmq opens itself.
const USE_FD: c_int = 89;
const NO_FD: c_int = -1;

/// The longest wait for the address of a host name in an endpoint that is bound. The program starts then.
const BIND_LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// What libzmq calls instead of the kernel.
static HOOKS: Hooks = Hooks { recv, accept4, connect: connect_hook, close, getaddrinfo };

/// Creates a context. Every context of the bus comes from here, so that libzmq calls the hooks.
pub(super) fn context() -> zmq::Context {
    zmq_sys::set_hooks(&HOOKS);
    zmq::Context::new()
}

/// Makes this XPUB socket return `EAGAIN` if a pipe is full, instead of dropping the message silently.
pub(super) fn set_nodrop(socket: &mut zmq::Socket) -> io::Result<()> {
    set_int(socket, XPUB_NODROP, 1)
}

/// Sets an option whose value is an integer.
fn set_int(socket: &mut zmq::Socket, option: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the pointer comes from a live socket, borrowed exclusively; libzmq reads
    // `size_of::<c_int>()` bytes of `value` during the call and keeps no reference.
    let rc =
        unsafe { zmq_setsockopt(socket.as_mut_ptr(), option, (&raw const value).cast::<c_void>(), size_of::<c_int>()) };
    checked(rc)
}

/// Calls `zmq_bind` for a socket that listens already, which libzmq owns afterwards.
pub(super) fn bind_listening(socket: &mut zmq::Socket, address: &str, listening: OwnedFd) -> io::Result<()> {
    set_int(socket, USE_FD, listening.as_raw_fd())?;
    let bound = bind(socket, address);
    set_int(socket, USE_FD, NO_FD)?;
    bound?;
    let _owned_by_libzmq = listening.into_raw_fd();
    Ok(())
}

/// Calls `zmq_bind`.
pub(super) fn bind(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
    with_address(socket, address, zmq_sys::zmq_bind)
}

/// Calls `zmq_connect`.
pub(super) fn connect(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
    with_address(socket, address, zmq_sys::zmq_connect)
}

/// Calls `zmq_disconnect`.
pub(super) fn disconnect(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
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
pub(super) fn descriptor(socket: &zmq::Socket) -> zmq::Result<BorrowedFd<'_>> {
    // SAFETY: the descriptor belongs to the socket, which closes it only when the socket itself ends, and the socket is
    // borrowed for as long as the descriptor.
    socket.get_fd().map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// One frame of a message. libzmq holds up to 33 bytes in the frame itself, and more on its heap.
pub(super) struct Frame(zmq_msg_t);

impl Frame {
    /// Creates a frame of no bytes.
    pub(super) fn empty() -> Self {
        let mut message = zmq_msg_t::default();
        // SAFETY: `message` is 64 writable bytes, aligned as `zmq_msg_t` asks.
        let rc = unsafe { zmq_sys::zmq_msg_init(&raw mut message) };
        debug_assert_eq!(rc, 0, "zmq_msg_init never fails");
        Self(message)
    }

    /// Creates a frame that holds a copy of `bytes`. Returns `None` if there is no memory for it.
    pub(super) fn copy_of(bytes: &[u8]) -> Option<Self> {
        let mut message = zmq_msg_t::default();
        // SAFETY: as in `empty`; after a failure the message is not initialised and is not used.
        let rc = unsafe { zmq_sys::zmq_msg_init_size(&raw mut message, bytes.len()) };
        if rc != 0 {
            return None;
        }
        // SAFETY: the message was initialised above with exactly `bytes.len()` bytes, which nothing
        // else can see yet; the two ranges belong to different allocations.
        unsafe {
            let data = zmq_sys::zmq_msg_data(&raw mut message).cast::<u8>();
            data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Some(Self(message))
    }

    /// Creates a frame of `part` of `buffer` without a copy. The buffer is kept for as long as libzmq has any of it.
    /// Returns `None` if there is no memory for the frame, and for a part that the buffer does not have, so that a
    /// message is refused instead of published without its payload.
    pub(super) fn part_of(buffer: &Arc<Vec<u8>>, part: Range<usize>) -> Option<Self> {
        debug_assert!(buffer.get(part.clone()).is_some(), "no part {part:?} in {} bytes", buffer.len());
        let bytes = buffer.get(part)?;
        let mut message = zmq_msg_t::default();
        let data = bytes.as_ptr().cast_mut().cast::<c_void>();
        let counted = Arc::into_raw(Arc::clone(buffer));
        // SAFETY: as in `empty`. The data lies in the vector that `counted` holds a reference to, which nothing can
        // change or free before `release_buffer` has given that reference back; libzmq only reads the data, from any
        // thread, as `Vec<u8>` allows.
        let rc = unsafe {
            let hint = counted.cast_mut().cast::<c_void>();
            zmq_sys::zmq_msg_init_data(&raw mut message, data, bytes.len(), Some(release_buffer), hint)
        };
        if rc != 0 {
            // SAFETY: this is the reference taken above, which libzmq did not take over.
            drop(unsafe { Arc::from_raw(counted) });
            return None;
        }
        Some(Self(message))
    }

    /// Returns a frame of the same content, without a copy, that counts as held until libzmq has none of it. A frame of
    /// little content is returned as it is.
    pub(super) fn counted_by(self, counter: &HeldCounter) -> Self {
        let bytes = self.bytes().len();
        if bytes < COUNTED_BYTES {
            return self;
        }
        let data = self.bytes().as_ptr().cast_mut().cast::<c_void>();
        let counted = Box::into_raw(Box::new(CountedFrame { frame: self, _held: counter.hold(bytes) }));
        let mut message = zmq_msg_t::default();
        // SAFETY: as in `empty`. The data is on the heap, since there is so much of it, and belongs to the frame in
        // `counted`, which nothing changes or frees before `release_counted`; libzmq only reads the data, from any
        // thread, as for every frame.
        let rc = unsafe {
            zmq_sys::zmq_msg_init_data(&raw mut message, data, bytes, Some(release_counted), counted.cast::<c_void>())
        };
        if rc != 0 {
            // SAFETY: this is the box made above, which libzmq did not take over.
            return unsafe { Box::from_raw(counted) }.frame;
        }
        Self(message)
    }

    /// Returns a second frame of the same content. libzmq counts references to long content and copies short content.
    pub(super) fn share(&mut self) -> Self {
        let mut second = Self::empty();
        // SAFETY: both messages are initialised and borrowed exclusively.
        let rc = unsafe { zmq_sys::zmq_msg_copy(&raw mut second.0, &raw mut self.0) };
        debug_assert_eq!(rc, 0, "zmq_msg_copy fails only for messages that were never initialised");
        second
    }

    /// Returns the content.
    pub(super) fn bytes(&self) -> &[u8] {
        let message = (&raw const self.0).cast_mut();
        // SAFETY: the message is initialised; both calls only read it, in spite of their signature.
        // Its content is never written after creation and lives as long as `self`; libzmq never
        // returns a null pointer from an initialised message.
        unsafe {
            let data = zmq_sys::zmq_msg_data(message).cast::<u8>();
            slice::from_raw_parts(data, zmq_sys::zmq_msg_size(message))
        }
    }

    /// Returns whether another frame of the same message follows (after `receive`).
    pub(super) fn has_more(&self) -> bool {
        // SAFETY: the message is initialised and only read.
        unsafe { zmq_sys::zmq_msg_more(&raw const self.0) != 0 }
    }

    /// Sends the frame without blocking. Returns whether libzmq accepted it: an accepted frame is empty afterwards, and
    /// a refused one is unchanged.
    pub(super) fn send(&mut self, socket: &mut zmq::Socket, has_more: bool) -> bool {
        let flags = if has_more { zmq::DONTWAIT | zmq::SNDMORE } else { zmq::DONTWAIT };
        without_blocking(|| {
            // SAFETY: the message is initialised and the socket is live, and both are borrowed exclusively. libzmq
            // moves the content out on success and leaves the message alone on failure.
            unsafe { zmq_sys::zmq_msg_send(&raw mut self.0, socket.as_mut_ptr(), flags) }
        })
    }

    /// Receives one frame without blocking and replaces the content with it. Returns whether a frame had arrived.
    pub(super) fn receive(&mut self, socket: &mut zmq::Socket) -> bool {
        without_blocking(|| {
            // SAFETY: as in `send`; libzmq releases the former content itself.
            unsafe { zmq_sys::zmq_msg_recv(&raw mut self.0, socket.as_mut_ptr(), zmq::DONTWAIT) }
        })
    }
}

/// Releases a buffer that a frame was made of. libzmq calls this once, when the last copy of the frame is gone.
unsafe extern "C" fn release_buffer(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is the reference that `part_of` took for this call.
    drop(unsafe { Arc::from_raw(hint.cast::<Vec<u8>>().cast_const()) });
}

/// A frame whose content counts as held. The content is freed before it stops to count.
struct CountedFrame {
    frame: Frame,
    _held: HeldBytes,
}

/// Releases a counted frame. libzmq calls this once, when the last copy of the content is gone.
unsafe extern "C" fn release_counted(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is the box that `counted_by` made for this call.
    drop(unsafe { Box::from_raw(hint.cast::<CountedFrame>()) });
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the message is initialised for as long as the frame lives, and is closed once, here.
        let rc = unsafe { zmq_sys::zmq_msg_close(&raw mut self.0) };
        debug_assert_eq!(rc, 0, "zmq_msg_close fails only for messages that were never initialised");
    }
}

/// Reads what a peer has sent, and leaves of it what the guard of the connection passes.
unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, size: usize, flags: c_int) -> ssize_t {
    // SAFETY: libzmq passes a buffer of `size` bytes, and `room` is at most `size`.
    let read = |room: usize| usize::try_from(unsafe { libc::recv(fd, data, room, flags) }).map_err(|_| last_errno());
    let filtered = door::with_guard(fd, |guard| {
        let held = guard.held_bytes();
        let room = size.checked_sub(held).filter(|room| *room > 0 || size == 0);
        debug_assert!(room.is_some(), "{held} bytes are held, and there is room for {size}");
        let received = read(room.ok_or(libc::EAGAIN)?)?;
        if received == 0 {
            return Ok(0); // the peer has closed the connection
        }
        // SAFETY: `received + held` is at most `size`. The kernel has written the first `received` bytes, and the rest
        // is written here, so that the slice has no byte without a value. Nothing else sees the buffer meanwhile.
        let buffer = unsafe {
            data.cast::<u8>().add(received).write_bytes(0, held);
            slice::from_raw_parts_mut(data.cast::<u8>(), received + held)
        };
        match guard.filter(buffer, received) {
            Ok(0) => Err(libc::EAGAIN),
            Ok(passed) => Ok(passed),
            Err(_) => Err(libc::EPROTO),
        }
    });
    match filtered.unwrap_or_else(|| read(size)) {
        Ok(passed) => passed.cast_signed(),
        Err(libc::EPROTO) => {
            door::violated(fd);
            failed(libc::ECONNRESET) as ssize_t
        }
        // libzmq ends the process if there is no memory for what was sent.
        Err(libc::ENOMEM | libc::ENOBUFS) => failed(libc::ECONNRESET) as ssize_t,
        Err(errno) => failed(errno) as ssize_t,
    }
}

/// Accepts a peer, or refuses it if there are too many.
unsafe extern "C" fn accept4(listener: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: libzmq passes a listener of its own, and an address and its size that can be written, or null pointers.
    let accepted = owned(unsafe { libc::accept4(listener, address, size, flags) });
    let Some(accepted) = accepted else {
        match last_errno() {
            errno @ (libc::EAGAIN | libc::EINTR | libc::ECONNABORTED | libc::EPROTO) => return failed(errno),
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => door::refuse_one(|| {
                // SAFETY: as above; the address is not wanted.
                owned(unsafe { libc::accept4(listener, ptr::null_mut(), ptr::null_mut(), flags) })
            }),
            _ => {}
        }
        // libzmq ends the process on most other errors, though accept(2) asks to pass over them.
        return failed(libc::ECONNABORTED);
    };
    door::accepted(accepted).map_or_else(|| failed(libc::ECONNABORTED), IntoRawFd::into_raw_fd)
}

/// Connects to a peer.
unsafe extern "C" fn connect_hook(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int {
    door::dialled(fd);
    // SAFETY: libzmq passes a socket of its own, and an address of this size.
    unsafe { libc::connect(fd, address, size) }
}

/// Closes a descriptor, perhaps one of a connection.
unsafe extern "C" fn close(fd: c_int) -> c_int {
    door::closed(fd);
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

/// Returns the error of the call that returned `rc`, if it failed.
fn checked(rc: c_int) -> io::Result<()> {
    if rc >= 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error()) // on Linux `zmq_errno` is errno
}

/// Makes a call that does not block, again if a signal interrupted it. Returns false if the call would block, which is
/// the only other error that `zmq_msg_send` and `zmq_msg_recv` return for a live socket of the types used here.
fn without_blocking(mut call: impl FnMut() -> c_int) -> bool {
    loop {
        if call() >= 0 {
            return true;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            debug_assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &[u8] = b"adapter/nodes/data";

    fn long() -> Vec<u8> {
        (0..10_000u32).map(|n| n.to_le_bytes()[0]).collect()
    }

    #[test]
    fn a_copied_frame_has_the_same_bytes_and_may_change_its_thread() {
        for bytes in [&b""[..], SHORT, &long()] {
            let frame = Box::new(Frame::copy_of(bytes).unwrap());
            assert_eq!(frame.bytes(), bytes);
            let moved = std::thread::spawn(move || *frame).join().unwrap();
            assert_eq!(moved.bytes(), bytes);
        }
    }

    #[test]
    fn a_shared_frame_outlives_the_first() {
        for bytes in [SHORT, &long()] {
            let mut frame = Frame::copy_of(bytes).unwrap();
            let second = frame.share();
            drop(frame);
            assert_eq!(second.bytes(), bytes);
        }
    }

    #[test]
    fn a_part_has_the_same_bytes_and_releases_its_buffer_with_the_last_frame() {
        let buffer = Arc::new(long());
        let part = &buffer[1..9_000];
        let mut frame = Frame::part_of(&buffer, 1..9_000).unwrap();
        assert_eq!(frame.bytes().as_ptr(), part.as_ptr());
        let second = frame.share();
        drop(frame);
        assert_eq!((second.bytes(), Arc::strong_count(&buffer)), (part, 2));
        std::thread::spawn(move || drop(second)).join().unwrap();
        assert_eq!(Arc::strong_count(&buffer), 1);
    }

    #[test]
    fn a_counted_frame_counts_until_its_last_copy_is_gone() {
        let counter = HeldCounter::default();
        let large = Arc::new(vec![7; COUNTED_BYTES + 1]);
        let mut frame = Frame::part_of(&large, 1..large.len()).unwrap().counted_by(&counter);
        assert_eq!((frame.bytes(), counter.bytes()), (&large[1..], COUNTED_BYTES));
        let second = frame.share();
        drop(frame);
        assert_eq!((second.bytes(), counter.bytes()), (&large[1..], COUNTED_BYTES));
        drop(second);
        assert_eq!((Arc::strong_count(&large), counter.bytes()), (1, 0));
        let _small = Frame::copy_of(&large[2..]).unwrap().counted_by(&counter);
        assert_eq!(counter.bytes(), 0);
    }

    /// A debug build stops at the assertion. A release build makes no frame, so that nothing is published.
    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "no part 1..10001 in 10000 bytes"))]
    fn a_part_that_the_buffer_does_not_have_makes_no_frame() {
        assert!(Frame::part_of(&Arc::new(long()), 1..10_001).is_none());
    }

    #[test]
    fn a_part_that_is_sent_is_kept_until_it_is_received() {
        let context = zmq::Context::new();
        let mut left = context.socket(zmq::PAIR).unwrap();
        let mut right = context.socket(zmq::PAIR).unwrap();
        left.bind("inproc://parts").unwrap();
        right.connect("inproc://parts").unwrap();
        let buffer = Arc::new(long());
        assert!(Frame::part_of(&buffer, 0..buffer.len()).unwrap().send(&mut left, false));
        let sent = Arc::downgrade(&buffer);
        drop(buffer);
        let mut frame = Frame::empty();
        assert!(frame.receive(&mut right));
        assert_eq!(frame.bytes(), long());
        drop(frame);
        assert_eq!(sent.strong_count(), 0);
    }

    #[test]
    fn a_refused_frame_keeps_its_content() {
        let context = zmq::Context::new();
        let mut socket = context.socket(zmq::PUSH).unwrap();
        for bytes in [SHORT, &long()] {
            let mut frame = Frame::copy_of(bytes).unwrap();
            assert!(!frame.send(&mut socket, false));
            assert_eq!(frame.bytes(), bytes);
        }
    }

    #[test]
    fn frames_arrive_with_their_more_flag() {
        let context = zmq::Context::new();
        let mut left = context.socket(zmq::PAIR).unwrap();
        let mut right = context.socket(zmq::PAIR).unwrap();
        left.bind("inproc://frames").unwrap();
        right.connect("inproc://frames").unwrap();
        let mut topic = Frame::copy_of(SHORT).unwrap();
        assert!(topic.send(&mut left, true));
        assert!(Frame::copy_of(&long()).unwrap().send(&mut left, false));
        assert_eq!(topic.bytes(), b"");

        let mut frame = Frame::empty();
        assert!(frame.receive(&mut right));
        assert_eq!((frame.bytes(), frame.has_more()), (SHORT, true));
        assert!(frame.receive(&mut right));
        assert_eq!((frame.bytes(), frame.has_more()), (&long()[..], false));
        assert!(!frame.receive(&mut right));
    }

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
