//! The gateway as its users meet it: the real binary as a child process, real TCP sockets, a real
//! libzmq on the other side, and nothing of the crate's own code in between.
//!
//! | file | the question it answers |
//! |---|---|
//! | `topics` | does every message of the specification's table arrive as it stood, and its broken neighbour not? |
//! | `statuses` | does every row of the contract's status table hold, in its order? |
//! | `encoding` | does a payload arrive in MessagePack where that is asked for? |
//! | `hub` | do messages cross the embedded hub? |
//! | `settings` | does the gateway follow `user_settings.py` while it runs? |
//! | `io` | does it run where io_uring is refused, and say so? |
//! | `endurance` | does it stay whole and fair when clients are rude, greedy or many? |
//! | `lifecycle` | can a parent start it, watch it and stop it without losing a message? |
//! | `adapter_states` | do the transitions of the specification's section 3 happen, driven by HTTP alone? |
//! | `listen_and_demo` | do the two commands for people do what they print? |
//! | `harness` | would the tests above notice? (the client and the stand-in adapter, tested themselves) |
//!
//! All of it runs twice: waiting on io_uring here, on epoll in `process_epoll.rs`.
//!
//! Every wait is bounded by [`support::PATIENCE`]; what must *not* happen is shown by a marker that
//! follows it on the same ordered path, never by sleeping.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets the unexpected has one thing to do: fail where it stands"
)]

pub(crate) mod adapter;
mod adapter_states;
mod encoding;
mod endurance;
mod harness;
mod hub;
mod io;
mod lifecycle;
mod listen_and_demo;
pub(crate) mod settings;
pub(crate) mod statuses;
#[allow(dead_code, reason = "shared with tests/https and others, each of which uses some of it")]
pub(crate) mod support;
mod topics;
