//! Words that several layers share.

pub mod limits;
pub mod token;
