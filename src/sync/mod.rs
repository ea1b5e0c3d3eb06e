//! Types that threads and layers share. They do no I/O, so the core may use them.
//!
//! The models (`bus/models.rs`, `.ci/loom`) replace the atomics and the queue by types of loom. Their flag is not
//! `cfg(loom)`, because tokio has no sockets with that one.

pub mod counting;
pub mod limits;
#[cfg(gateway_loom)]
mod model;
pub mod noted_topics;
pub mod token;

#[cfg(not(gateway_loom))]
pub(crate) use crossbeam_queue::SegQueue;
#[cfg(gateway_loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(gateway_loom)]
pub(crate) use model::{AtomicBool, SegQueue};
#[cfg(not(gateway_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
