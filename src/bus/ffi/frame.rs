//! A frame of a message that is sent.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use zmq_sys::zmq_msg_t;

use crate::terms::published::published;

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
    /// Returns `None` if there is no memory for the frame.
    pub(crate) fn part_of(buffer: &Arc<Vec<u8>>, part: Range<usize>) -> Option<Self> {
        let bytes = published(buffer, part);
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
    drop(unsafe { Box::from_raw(hint.cast::<Arc<Vec<u8>>>()) });
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the message is initialised for as long as the frame lives, and is closed once, here.
        let rc = unsafe { zmq_sys::zmq_msg_close(&raw mut self.0) };
        debug_assert_eq!(rc, 0, "zmq_msg_close fails only for messages that were never initialised");
    }
}

#[cfg(test)]
mod tests;
