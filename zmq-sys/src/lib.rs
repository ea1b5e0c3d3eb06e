//! What the `zmq` crate and the bus of adapter-gateway use of libzmq's C interface: `zmq.h` of libzmq 4.3.4.
//!
//! Names, types and values are those of the header, so that its manual applies. `tests/zmq_sys.rs` of adapter-gateway
//! lets a C compiler compare them with the header.

mod constants;
pub mod errno;
mod functions;
mod hooks;

use std::ffi::{c_int, c_short, c_void};
pub use std::os::fd::RawFd;

pub use constants::*;
pub use functions::*;
pub use hooks::{Hooks, READ_BYTES, set_hooks};

/// A message of libzmq, which alone knows what the bytes mean. It has the alignment of a pointer.
///
/// It may be used by one thread at a time, whichever that is. It is neither `Copy` nor `Clone`, because libzmq counts
/// the references to a message's content.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct zmq_msg_t {
    alignment: [usize; 0],
    bytes: [u8; 64],
}

impl Default for zmq_msg_t {
    /// Returns a place for a message. One of the functions `zmq_msg_init*` makes it a message.
    fn default() -> Self {
        Self { alignment: [], bytes: [0; 64] }
    }
}

// libzmq writes 64 bytes there. This is checked for each machine that the crate is compiled for, also where no test runs.
const _: () = assert!(size_of::<zmq_msg_t>() == 64 && align_of::<zmq_msg_t>() == align_of::<*mut c_void>());

/// What `zmq_poll` waits for: a socket of libzmq, or a descriptor where `socket` is null.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct zmq_pollitem_t {
    pub socket: *mut c_void,
    pub fd: c_int,
    pub events: c_short,
    pub revents: c_short,
}

/// Frees the content of a message, given the content's address and the hint of `zmq_msg_init_data`. libzmq calls it on
/// any thread.
#[allow(non_camel_case_types)]
pub type zmq_free_fn = unsafe extern "C" fn(data: *mut c_void, hint: *mut c_void);
