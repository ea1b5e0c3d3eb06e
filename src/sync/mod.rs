//! Types that threads and layers share. They do no I/O, so the core may use them.
//!
//! | file | what it holds |
//! |---|---|
//! | [`limits`] | the length of a topic, and the budget of the bytes that all connections hold together |
//! | [`noted_topics`] | topics that the log tells of once |
//! | [`token`] | the access token |
//! | [`counting`] | how counters are declared |
//! | `model` | what the models of loom have in place of a queue and of an atomic |
//!
//! The models (`bus/models.rs`, `.ci/loom`) replace the atomics and the queue by loom's types, and so run the code that uses it in
//! every order that the memory model allows. Their flag is not `cfg(loom)`, because tokio has no sockets with that one.

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
