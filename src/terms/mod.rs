//! Words that several layers share.

pub mod limits;
pub mod noted_topics;
pub mod published;
pub mod token;
