//! A frame of a message: how it is made, shared, sent and received.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::{io, slice};

use zmq_sys::zmq_msg_t;

/// libzmq holds less content than this in the frame itself.
const LEAST_HEAP_BYTES: usize = 34;

/// One frame of a message. libzmq holds up to 33 bytes in the frame itself, and more on its heap.
pub(crate) struct Frame(zmq_msg_t);

impl Frame {
    /// Creates a frame of no bytes.
    pub(crate) fn empty() -> Self {
        let mut message = zmq_msg_t::default();
        // SAFETY: `message` is 64 writable bytes, aligned as `zmq_msg_t` asks.
        let rc = unsafe { zmq_sys::zmq_msg_init(&raw mut message) };
        debug_assert_eq!(rc, 0, "zmq_msg_init never fails");
        Self(message)
    }

    /// Creates a frame that holds a copy of `bytes`. Returns `None` if there is no memory for it.
    pub(crate) fn copy_of(bytes: &[u8]) -> Option<Self> {
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

    /// Creates a frame of `part` of `buffer` without a copy. The buffer lives for as long as libzmq has any of it.
    /// Returns `None` if there is no memory for the frame, and for a part that the buffer does not have, so that a
    /// message is refused instead of published without its payload.
    pub(crate) fn part_of(buffer: &Arc<Vec<u8>>, part: Range<usize>) -> Option<Self> {
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

    /// Returns a frame of the same content, without a copy, that drops `attached` when libzmq has none of the content any
    /// more. The content of such a frame must be on the heap ([`LEAST_HEAP_BYTES`]); for less, this does nothing.
    pub(crate) fn with_attached<A: Send + 'static>(self, attached: A) -> Self {
        let bytes = self.bytes().len();
        if bytes < LEAST_HEAP_BYTES {
            debug_assert!(false, "{bytes} bytes move with the frame");
            return self;
        }
        let data = self.bytes().as_ptr().cast_mut().cast::<c_void>();
        let with_attached = Box::into_raw(Box::new(FrameWith { frame: self, _attached: attached }));
        let mut message = zmq_msg_t::default();
        // SAFETY: as in `empty`. The data is on the heap, since there is so much of it, and belongs to the frame in
        // the box, which nothing changes or frees before `release_with_attached`; libzmq only reads the data, from any
        // thread, as for every frame, and `A` may be dropped on any thread.
        let rc = unsafe {
            let (hint, release) = (with_attached.cast::<c_void>(), release_with_attached::<A> as zmq_sys::zmq_free_fn);
            zmq_sys::zmq_msg_init_data(&raw mut message, data, bytes, Some(release), hint)
        };
        if rc != 0 {
            // SAFETY: this is the box made above, which libzmq did not take over.
            return unsafe { Box::from_raw(with_attached) }.frame;
        }
        Self(message)
    }

    /// Returns a second frame of the same content. libzmq counts references to long content and copies short content.
    pub(crate) fn share(&mut self) -> Self {
        let mut second = Self::empty();
        // SAFETY: both messages are initialised and borrowed exclusively.
        let rc = unsafe { zmq_sys::zmq_msg_copy(&raw mut second.0, &raw mut self.0) };
        debug_assert_eq!(rc, 0, "zmq_msg_copy fails only for messages that were never initialised");
        second
    }

    /// Returns the content.
    pub(crate) fn bytes(&self) -> &[u8] {
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
    pub(crate) fn has_more(&self) -> bool {
        // SAFETY: the message is initialised and only read.
        unsafe { zmq_sys::zmq_msg_more(&raw const self.0) != 0 }
    }

    /// Sends the frame without blocking. Returns whether libzmq accepted it: an accepted frame is empty afterwards, and
    /// a refused one is unchanged.
    pub(crate) fn send(&mut self, socket: &mut zmq::Socket, has_more: bool) -> bool {
        let flags = if has_more { zmq::DONTWAIT | zmq::SNDMORE } else { zmq::DONTWAIT };
        without_blocking(|| {
            // SAFETY: the message is initialised and the socket is live, and both are borrowed exclusively. libzmq
            // moves the content out on success and leaves the message alone on failure.
            unsafe { zmq_sys::zmq_msg_send(&raw mut self.0, socket.as_mut_ptr(), flags) }
        })
    }

    /// Receives one frame without blocking and replaces the content with it. Returns whether a frame had arrived.
    pub(crate) fn receive(&mut self, socket: &mut zmq::Socket) -> bool {
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

/// A frame, and what is dropped after its content was freed.
struct FrameWith<A> {
    frame: Frame,
    _attached: A,
}

/// Releases such a frame. libzmq calls this once, when the last copy of the content is gone.
unsafe extern "C" fn release_with_attached<A>(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is the box that `with_attached` made for this call.
    drop(unsafe { Box::from_raw(hint.cast::<FrameWith<A>>()) });
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the message is initialised for as long as the frame lives, and is closed once, here.
        let rc = unsafe { zmq_sys::zmq_msg_close(&raw mut self.0) };
        debug_assert_eq!(rc, 0, "zmq_msg_close fails only for messages that were never initialised");
    }
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
    fn what_is_attached_to_a_frame_is_dropped_with_its_last_copy() {
        let (large, attached) = (Arc::new(vec![7; LEAST_HEAP_BYTES + 1]), Arc::new(()));
        let mut frame = Frame::part_of(&large, 1..large.len()).unwrap().with_attached(Arc::clone(&attached));
        let second = frame.share();
        drop(frame);
        assert_eq!((second.bytes(), Arc::strong_count(&attached)), (&large[1..], 2));
        drop(second);
        assert_eq!((Arc::strong_count(&large), Arc::strong_count(&attached)), (1, 1));
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
}
