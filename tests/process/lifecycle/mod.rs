//! The gateway from its start to its stop, as its parent process sees it.

mod drain;
mod endpoints;
pub(crate) mod running;
mod streams;
mod watching;

use crate::support::*;
