//! What threads share: atomics, a queue, counters, and wakers.
//!
//! The models (`bus/models.rs`, `.ci/loom`) replace what stands here by loom's types, and so run the code that uses it in
//! every order that the memory model allows. Their flag is not `cfg(loom)`, because tokio has no sockets with that one.

pub mod counting;
#[cfg(not(gateway_loom))]
mod event_fd;
#[cfg(gateway_loom)]
mod model;
pub mod waker;

#[cfg(not(gateway_loom))]
pub(crate) use crossbeam_queue::SegQueue;
#[cfg(not(gateway_loom))]
use event_fd::EventFd;
#[cfg(gateway_loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(gateway_loom)]
use model::EventCount as EventFd;
#[cfg(gateway_loom)]
pub(crate) use model::{AtomicBool, SegQueue};
#[cfg(not(gateway_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
