//! Types that threads and layers share. They do no I/O, so the core may use them.

pub mod counting;
pub mod limits;
pub mod mistyped;
pub mod noted_topics;
pub mod token;
