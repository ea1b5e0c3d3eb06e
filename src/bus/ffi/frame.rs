//! A frame of a message that is sent.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use zmq_sys::zmq_msg_t;

use crate::sys::memory::MEMORY;

// libzmq writes 64 bytes there. This is checked for each machine that the program is compiled for.
const _: () = assert!(size_of::<zmq_msg_t>() == 64 && align_of::<zmq_msg_t>() >= align_of::<*mut c_void>());

/// One frame of a message. libzmq holds up to 33 bytes in the frame itself, and more on its heap.
pub(crate) struct Frame(zmq_msg_t);

impl Frame {
    /// Returns `None` if there is no memory for the copy.
    pub(crate) fn copy_of(bytes: &[u8]) -> Option<Self> {
        let mut message = zmq_msg_t::default();
        // SAFETY: `message` is 64 writable bytes, aligned as `zmq_msg_t` asks; after a failure it is not used.
        let rc = unsafe { zmq_sys::zmq_msg_init_size(&raw mut message, bytes.len()) };
        if rc != 0 {
            return None;
        }
        // SAFETY: the message was initialised above with exactly `bytes.len()` bytes, which nothing else can see yet.
        unsafe {
            let data = zmq_sys::zmq_msg_data(&raw mut message).cast::<u8>();
            data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Some(Self(message))
    }

    /// Creates a frame of `part` of `buffer` without a copy. The buffer lives for as long as libzmq has any of it.
    /// Returns `None` if there is no memory for the frame, and for a part that the buffer does not have.
    pub(crate) fn part_of(buffer: &Arc<Vec<u8>>, part: Range<usize>) -> Option<Self> {
        debug_assert!(buffer.get(part.clone()).is_some(), "no part {part:?} in {} bytes", buffer.len());
        let bytes = buffer.get(part)?;
        let mut message = zmq_msg_t::default();
        let data = bytes.as_ptr().cast_mut().cast::<c_void>();
        let lent = Box::into_raw(Box::new(Arc::clone(buffer)));
        // SAFETY: as in `copy_of`. The data lies in the vector that `lent` holds a reference to, which nothing can
        // change or free before `return_buffer` has dropped that reference; libzmq only reads the data, from any
        // thread, as `Vec<u8>` allows.
        let rc = unsafe {
            zmq_sys::zmq_msg_init_data(&raw mut message, data, bytes.len(), Some(return_buffer), lent.cast::<c_void>())
        };
        if rc != 0 {
            // SAFETY: this is the box made above, which libzmq did not take over.
            drop(unsafe { Box::from_raw(lent) });
            return None;
        }
        MEMORY.note_lent(buffer.capacity());
        Some(Self(message))
    }

    /// Sends the frame without blocking. Returns whether libzmq accepted it. A refused frame is unchanged.
    pub(crate) fn send(&mut self, socket: &mut zmq::Socket, has_more: bool) -> bool {
        let flags = if has_more { zmq::DONTWAIT | zmq::SNDMORE } else { zmq::DONTWAIT };
        loop {
            // SAFETY: the message is initialised and the socket is live, and both are borrowed exclusively. libzmq
            // moves the content out on success and leaves the message alone on failure.
            if unsafe { zmq_sys::zmq_msg_send(&raw mut self.0, socket.as_mut_ptr(), flags) } >= 0 {
                return true;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                debug_assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                return false;
            }
        }
    }
}

/// libzmq calls this once, on any of its threads, when the last copy of the frame of this buffer is gone.
unsafe extern "C" fn return_buffer(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: `hint` is the box that `part_of` made for this call, and an `Arc` of bytes may be dropped on any thread.
    let buffer = unsafe { Box::from_raw(hint.cast::<Arc<Vec<u8>>>()) };
    MEMORY.note_returned(buffer.capacity());
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the message is initialised for as long as the frame lives, and is closed once, here.
        let rc = unsafe { zmq_sys::zmq_msg_close(&raw mut self.0) };
        debug_assert_eq!(rc, 0, "zmq_msg_close fails only for messages that were never initialised");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::link::receive;

    const SHORT: &[u8] = b"adapter/nodes/data";

    impl Frame {
        fn bytes(&self) -> &[u8] {
            let message = (&raw const self.0).cast_mut();
            // SAFETY: the message is initialised; both calls only read it, in spite of their signature.
            // Its content is never written after creation and lives as long as `self`; libzmq never
            // returns a null pointer from an initialised message.
            unsafe {
                let data = zmq_sys::zmq_msg_data(message).cast::<u8>();
                std::slice::from_raw_parts(data, zmq_sys::zmq_msg_size(message))
            }
        }
    }

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
    fn a_part_has_the_same_bytes_and_returns_its_buffer() {
        let buffer = Arc::new(long());
        let part = &buffer[1..9_000];
        let frame = Frame::part_of(&buffer, 1..9_000).unwrap();
        assert_eq!((frame.bytes().as_ptr(), frame.bytes()), (part.as_ptr(), part));
        assert_eq!(Arc::strong_count(&buffer), 2);
        std::thread::spawn(move || drop(frame)).join().unwrap();
        assert_eq!(Arc::strong_count(&buffer), 1);
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
        let right = context.socket(zmq::PAIR).unwrap();
        left.bind("inproc://parts").unwrap();
        right.connect("inproc://parts").unwrap();
        let buffer = Arc::new(long());
        assert!(Frame::part_of(&buffer, 0..buffer.len()).unwrap().send(&mut left, false));
        let sent = Arc::downgrade(&buffer);
        drop(buffer);
        assert_eq!(&*receive(&right).unwrap()[0], long());
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
    fn the_frames_of_a_message_arrive_together() {
        let context = zmq::Context::new();
        let mut left = context.socket(zmq::PAIR).unwrap();
        let right = context.socket(zmq::PAIR).unwrap();
        left.bind("inproc://frames").unwrap();
        right.connect("inproc://frames").unwrap();
        let mut topic = Frame::copy_of(SHORT).unwrap();
        assert!(topic.send(&mut left, true));
        assert!(Frame::copy_of(&long()).unwrap().send(&mut left, false));
        assert_eq!(topic.bytes(), b"");

        let frames = receive(&right).unwrap();
        assert_eq!(frames.iter().map(|frame| &**frame).collect::<Vec<_>>(), [SHORT, &long()]);
        assert!(receive(&right).is_none());
    }
}
