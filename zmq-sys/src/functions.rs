//! The functions of libzmq. The manual page of each one has its name.
//!
//! A caller of any of them must see to this: a context, a socket or a message comes from libzmq and has not been closed;
//! one thread at a time uses a socket or a message; a pointer is valid for the size that goes with it; a text ends with
//! a NUL.

use std::ffi::{c_char, c_int, c_long, c_void};

use crate::{zmq_free_fn, zmq_msg_t, zmq_pollitem_t};

/// An option of a context, from the part of the header that is a draft.
const ZMQ_ZERO_COPY_RECV: c_int = 10;

// SAFETY: `tests/zmq_sys.rs` compares these declarations with `zmq.h`.
unsafe extern "C" {
    // The library.
    pub fn zmq_errno() -> c_int;
    pub fn zmq_strerror(error: c_int) -> *const c_char;
    pub fn zmq_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int);
    pub fn zmq_has(capability: *const c_char) -> c_int;

    // Contexts.
    #[link_name = "zmq_ctx_new"]
    fn new_context() -> *mut c_void;
    pub fn zmq_ctx_get(context: *mut c_void, option: c_int) -> c_int;
    pub fn zmq_ctx_set(context: *mut c_void, option: c_int, value: c_int) -> c_int;
    pub fn zmq_ctx_term(context: *mut c_void) -> c_int;

    // Sockets. The last argument of `zmq_getsockopt` holds the size of the buffer, and then that of the value.
    pub fn zmq_socket(context: *mut c_void, kind: c_int) -> *mut c_void;
    pub fn zmq_close(socket: *mut c_void) -> c_int;
    pub fn zmq_getsockopt(socket: *mut c_void, option: c_int, value: *mut c_void, size: *mut usize) -> c_int;
    pub fn zmq_setsockopt(socket: *mut c_void, option: c_int, value: *const c_void, size: usize) -> c_int;
    pub fn zmq_bind(socket: *mut c_void, address: *const c_char) -> c_int;
    pub fn zmq_unbind(socket: *mut c_void, address: *const c_char) -> c_int;
    pub fn zmq_connect(socket: *mut c_void, address: *const c_char) -> c_int;
    pub fn zmq_disconnect(socket: *mut c_void, address: *const c_char) -> c_int;
    pub fn zmq_socket_monitor(socket: *mut c_void, address: *const c_char, events: c_int) -> c_int;
    pub fn zmq_recv(socket: *mut c_void, buffer: *mut c_void, size: usize, flags: c_int) -> c_int;

    // Messages. A message that was sent is empty and still has to be closed.
    pub fn zmq_msg_init(message: *mut zmq_msg_t) -> c_int;
    pub fn zmq_msg_init_size(message: *mut zmq_msg_t, size: usize) -> c_int;
    pub fn zmq_msg_init_data(
        message: *mut zmq_msg_t,
        data: *mut c_void,
        size: usize,
        free: Option<zmq_free_fn>,
        hint: *mut c_void,
    ) -> c_int;
    pub fn zmq_msg_send(message: *mut zmq_msg_t, socket: *mut c_void, flags: c_int) -> c_int;
    pub fn zmq_msg_recv(message: *mut zmq_msg_t, socket: *mut c_void, flags: c_int) -> c_int;
    pub fn zmq_msg_copy(to: *mut zmq_msg_t, from: *mut zmq_msg_t) -> c_int;
    pub fn zmq_msg_close(message: *mut zmq_msg_t) -> c_int;
    pub fn zmq_msg_data(message: *mut zmq_msg_t) -> *mut c_void;
    pub fn zmq_msg_size(message: *const zmq_msg_t) -> usize;
    pub fn zmq_msg_more(message: *const zmq_msg_t) -> c_int;
    pub fn zmq_msg_gets(message: *const zmq_msg_t, property: *const c_char) -> *const c_char;

    // Waiting and forwarding.
    pub fn zmq_poll(items: *mut zmq_pollitem_t, count: c_int, timeout_ms: c_long) -> c_int;
    pub fn zmq_proxy(frontend: *mut c_void, backend: *mut c_void, capture: *mut c_void) -> c_int;
    pub fn zmq_proxy_steerable(
        frontend: *mut c_void,
        backend: *mut c_void,
        capture: *mut c_void,
        control: *mut c_void,
    ) -> c_int;

    // Keys of CURVE. libzmq is built without it, and the `zmq` crate calls these functions.
    pub fn zmq_curve_keypair(public_key: *mut c_char, secret_key: *mut c_char) -> c_int;
    pub fn zmq_z85_encode(text: *mut c_char, data: *const u8, size: usize) -> *mut c_char;
    pub fn zmq_z85_decode(data: *mut u8, text: *const c_char) -> *mut u8;
}

/// Returns a new context, whose sockets copy each message that they receive. By default libzmq lets a message refer to the
/// buffer of 8 KiB that it was read into, so that a message of 34 bytes which waits somewhere can hold 8 KiB.
///
/// # Safety
/// Any caller may call this.
pub unsafe fn zmq_ctx_new() -> *mut c_void {
    // SAFETY: the context is new, and a failure has no effect on it.
    unsafe {
        let context = new_context();
        if !context.is_null() {
            zmq_ctx_set(context, ZMQ_ZERO_COPY_RECV, 0);
        }
        context
    }
}
