//! What the settings make of the REST API.

use std::path::PathBuf;

use crate::gateway::failure::Failure;
use crate::server::shared::Opened;

/// Whether the REST API is open. The thread that follows the settings makes the value, and all others derive what they do
/// from it: the workers where they accept, and the main thread what it tells the parent.
#[derive(Clone, PartialEq)]
pub(super) enum Api {
    /// The settings have it off, or say nothing so far.
    Off {
        /// A sentence that names the file.
        reason: String,
        /// The file in which a command can switch it on, if its settings could be understood once.
        to_switch_on: Option<PathBuf>,
    },
    /// The settings have it on, but it cannot be opened. That is tried again at each look at the files.
    Closed {
        failure: Failure,
        /// Whether a start goes on: a file does not answer, and may do so later.
        may_pass: bool,
    },
    Open(Opened),
}
