//! The calls of libzmq that the zmq crate does not wrap, or does not wrap as the bus needs them, and calls for libzmq's
//! connections: with `hooks`, the `unsafe` code of the bus.
//!
//! The `Message` of the zmq crate is consumed by a send that fails, so back-pressure would lose the message. It cannot
//! be shared between sockets without a copy, and it cannot lie in a part of a buffer. The crate's `bind` and `connect`
//! panic on an errno that they do not know, such as `ENOTDIR`. `ZMQ_XPUB_NODROP` is missing.
//!
//! | file | what it holds |
//! |---|---|
//! | `frame` | a frame of a message: how it is made, shared, sent and received |
//! | `socket_calls` | an option, the addresses and the descriptor of a socket |
//! | `connection` | calls for the connections of libzmq, of which libzmq knows nothing |

#![allow(unsafe_code)]

mod connection;
mod frame;
mod socket_calls;

pub(super) use connection::{Registration, local_endpoint, shut_down, unacknowledged_bytes};
pub(super) use frame::Frame;
pub(super) use socket_calls::{bind, bind_listening, connect, descriptor, disconnect, set_nodrop};
