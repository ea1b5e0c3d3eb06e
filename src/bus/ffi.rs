//! The only `unsafe` of the crate: what the zmq crate does not wrap.
//!
//! Its `Message` is consumed by a send that fails, so back-pressure would lose what it refuses; it
//! cannot be shared between sockets without a copy, nor lie in a part of a buffer; its `bind` and
//! `connect` panic on an errno that it does not know, such as `ENOTDIR`; and `ZMQ_XPUB_NODROP` is
//! missing.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::{io, slice};

use zmq_sys::{zmq_msg_t, zmq_setsockopt};

/// `ZMQ_XPUB_NODROP`, from `zmq.h`.
const XPUB_NODROP: c_int = 69;

/// Makes a full pipe an `EAGAIN` on this XPUB socket instead of a silent drop.
pub(super) fn set_nodrop(socket: &mut zmq::Socket) -> io::Result<()> {
    let on: c_int = 1;
    // SAFETY: the pointer comes from a live socket, borrowed exclusively; libzmq reads
    // `size_of::<c_int>()` bytes of `on` during the call and keeps no reference.
    let rc = unsafe {
        zmq_setsockopt(socket.as_mut_ptr(), XPUB_NODROP, (&raw const on).cast::<c_void>(), size_of::<c_int>())
    };
    checked(rc)
}

/// `zmq_bind`.
pub(super) fn bind(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
    with_address(socket, address, zmq_sys::zmq_bind)
}

/// `zmq_connect`.
pub(super) fn connect(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
    with_address(socket, address, zmq_sys::zmq_connect)
}

/// `zmq_disconnect`.
pub(super) fn disconnect(socket: &mut zmq::Socket, address: &str) -> io::Result<()> {
    with_address(socket, address, zmq_sys::zmq_disconnect)
}

type AddressCall = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;

/// `call` is one of the three above.
fn with_address(socket: &mut zmq::Socket, address: &str, call: AddressCall) -> io::Result<()> {
    let address = CString::new(address)?;
    // SAFETY: a live socket, borrowed exclusively, and a string with its NUL that outlives the
    // call; libzmq copies it.
    checked(unsafe { call(socket.as_mut_ptr(), address.as_ptr()) })
}

/// The descriptor that becomes readable when the socket has news (`ZMQ_FD`).
pub(super) fn descriptor(socket: &zmq::Socket) -> zmq::Result<BorrowedFd<'_>> {
    // SAFETY: it belongs to the socket, which closes it at its own end and not before, and is borrowed for as long.
    socket.get_fd().map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// One frame of a message, owned. Up to 33 bytes are held in place, more on libzmq's heap.
pub(super) struct Frame(zmq_msg_t);

impl Frame {
    /// A frame of no bytes.
    pub(super) fn empty() -> Self {
        let mut message = zmq_msg_t::default();
        // SAFETY: `message` is 64 writable bytes, aligned as `zmq_msg_t` asks. It never fails.
        unsafe { zmq_sys::zmq_msg_init(&raw mut message) };
        Self(message)
    }

    /// A frame holding a copy of `bytes`, or `None` when there is no memory for it.
    pub(super) fn copy_of(bytes: &[u8]) -> Option<Self> {
        let mut message = zmq_msg_t::default();
        // SAFETY: as in `empty`; after a failure the message is not initialised and not used.
        let rc = unsafe { zmq_sys::zmq_msg_init_size(&raw mut message, bytes.len()) };
        if rc != 0 {
            return None;
        }
        // SAFETY: the message was initialised above with exactly `bytes.len()` bytes, which nobody
        // else can see yet; the two ranges belong to different allocations.
        unsafe {
            let data = zmq_sys::zmq_msg_data(&raw mut message).cast::<u8>();
            data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Some(Self(message))
    }

    /// A frame of `part` of `buffer`, without a copy; the buffer is kept for as long as libzmq has any of it. `None`
    /// when there is no memory for the frame, or no such part.
    pub(super) fn part_of(buffer: &Arc<Vec<u8>>, part: Range<usize>) -> Option<Self> {
        let bytes = buffer.get(part)?;
        let mut message = zmq_msg_t::default();
        let data = bytes.as_ptr().cast_mut().cast::<c_void>();
        let keeper = Arc::into_raw(Arc::clone(buffer));
        // SAFETY: as in `empty`. The data lies in the vector that `keeper` counts, which nobody can change or free
        // before `let_go` has given that count back; libzmq only reads it, from any thread, as `Vec<u8>` allows.
        let rc = unsafe {
            let keeper = keeper.cast_mut().cast::<c_void>();
            zmq_sys::zmq_msg_init_data(&raw mut message, data, bytes.len(), Some(let_go), keeper)
        };
        if rc != 0 {
            // SAFETY: the count taken above, which libzmq did not take over.
            drop(unsafe { Arc::from_raw(keeper) });
            return None;
        }
        Some(Self(message))
    }

    /// A second frame of the same content; long content is counted, not copied.
    pub(super) fn share(&mut self) -> Self {
        let mut twin = Self::empty();
        // SAFETY: both messages are initialised and borrowed exclusively. It fails only for
        // messages that were never initialised.
        unsafe { zmq_sys::zmq_msg_copy(&raw mut twin.0, &raw mut self.0) };
        twin
    }

    /// The content.
    pub(super) fn bytes(&self) -> &[u8] {
        let message = (&raw const self.0).cast_mut();
        // SAFETY: the message is initialised; both calls only read it in spite of their signature.
        // Its content is never written after creation and lives as long as `self`; libzmq never
        // returns a null pointer from an initialised message.
        unsafe {
            let data = zmq_sys::zmq_msg_data(message).cast::<u8>();
            slice::from_raw_parts(data, zmq_sys::zmq_msg_size(message))
        }
    }

    /// Whether another frame of the same message follows (after `receive`).
    pub(super) fn has_more(&self) -> bool {
        // SAFETY: the message is initialised and only read.
        unsafe { zmq_sys::zmq_msg_more(&raw const self.0) != 0 }
    }

    /// Sends without blocking. Taken: the frame is empty afterwards; refused: it is unchanged.
    pub(super) fn send(&mut self, socket: &mut zmq::Socket, more: bool) -> io::Result<()> {
        let flags = if more { zmq::DONTWAIT | zmq::SNDMORE } else { zmq::DONTWAIT };
        retry_interrupted(|| {
            // SAFETY: an initialised message and a live socket, both borrowed exclusively. libzmq
            // moves the content out on success and leaves the message alone on failure.
            checked(unsafe { zmq_sys::zmq_msg_send(&raw mut self.0, socket.as_mut_ptr(), flags) })
        })
    }

    /// Receives one frame without blocking, replacing the content.
    pub(super) fn receive(&mut self, socket: &mut zmq::Socket) -> io::Result<()> {
        retry_interrupted(|| {
            // SAFETY: as in `send`; libzmq releases the former content itself.
            checked(unsafe { zmq_sys::zmq_msg_recv(&raw mut self.0, socket.as_mut_ptr(), zmq::DONTWAIT) })
        })
    }
}

/// What libzmq calls, once, when the last frame of a buffer is gone.
unsafe extern "C" fn let_go(_data: *mut c_void, keeper: *mut c_void) {
    // SAFETY: `keeper` is the count that `part_of` took for this call.
    drop(unsafe { Arc::from_raw(keeper.cast::<Vec<u8>>().cast_const()) });
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the message is initialised for as long as the frame lives; closed once, here.
        unsafe { zmq_sys::zmq_msg_close(&raw mut self.0) };
    }
}

fn checked(rc: c_int) -> io::Result<()> {
    if rc >= 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error()) // on Linux `zmq_errno` is errno
}

/// A signal that lands on this thread must look like nothing at all.
fn retry_interrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
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
    fn a_copy_is_equal_and_may_move() {
        for bytes in [&b""[..], SHORT, &long()] {
            let frame = Box::new(Frame::copy_of(bytes).unwrap());
            assert_eq!(frame.bytes(), bytes);
            let moved = std::thread::spawn(move || *frame).join().unwrap();
            assert_eq!(moved.bytes(), bytes);
        }
    }

    #[test]
    fn a_twin_outlives_the_first() {
        for bytes in [SHORT, &long()] {
            let mut frame = Frame::copy_of(bytes).unwrap();
            let twin = frame.share();
            drop(frame);
            assert_eq!(twin.bytes(), bytes);
        }
    }

    #[test]
    fn a_part_is_equal_and_lets_go_of_its_buffer_with_the_last_frame() {
        let buffer = Arc::new(long());
        let part = &buffer[1..9_000];
        let mut frame = Frame::part_of(&buffer, 1..9_000).unwrap();
        assert_eq!(frame.bytes().as_ptr(), part.as_ptr());
        let twin = frame.share();
        drop(frame);
        assert_eq!((twin.bytes(), Arc::strong_count(&buffer)), (part, 2));
        std::thread::spawn(move || drop(twin)).join().unwrap();
        assert_eq!(Arc::strong_count(&buffer), 1);
        assert!(Frame::part_of(&buffer, 1..10_001).is_none(), "no such part");
    }

    #[test]
    fn a_part_that_is_sent_is_kept_until_it_was_received() {
        let context = zmq::Context::new();
        let mut left = context.socket(zmq::PAIR).unwrap();
        let mut right = context.socket(zmq::PAIR).unwrap();
        left.bind("inproc://parts").unwrap();
        right.connect("inproc://parts").unwrap();
        let buffer = Arc::new(long());
        Frame::part_of(&buffer, 0..buffer.len()).unwrap().send(&mut left, false).unwrap();
        let sent = Arc::downgrade(&buffer);
        drop(buffer);
        let mut frame = Frame::empty();
        frame.receive(&mut right).unwrap();
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
            let refused = frame.send(&mut socket, false).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
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
        topic.send(&mut left, true).unwrap();
        Frame::copy_of(&long()).unwrap().send(&mut left, false).unwrap();
        assert_eq!(topic.bytes(), b"");

        let mut frame = Frame::empty();
        frame.receive(&mut right).unwrap();
        assert_eq!((frame.bytes(), frame.has_more()), (SHORT, true));
        frame.receive(&mut right).unwrap();
        assert_eq!((frame.bytes(), frame.has_more()), (&long()[..], false));
        let nothing = frame.receive(&mut right).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn nodrop_is_taken_by_xpub_and_refused_by_others() {
        let context = zmq::Context::new();
        set_nodrop(&mut context.socket(zmq::XPUB).unwrap()).unwrap();
        let other = set_nodrop(&mut context.socket(zmq::SUB).unwrap()).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn addresses_reach_libzmq_and_any_errno_comes_back() {
        let context = zmq::Context::new();
        let mut socket = context.socket(zmq::XPUB).unwrap();
        socket.set_linger(0).unwrap();
        connect(&mut socket, "tcp://127.0.0.1:9").unwrap();
        disconnect(&mut socket, "tcp://127.0.0.1:9").unwrap();
        let file_as_directory = bind(&mut socket, "ipc:///dev/null/x").unwrap_err();
        assert_eq!(file_as_directory.kind(), io::ErrorKind::NotADirectory);
    }
}
