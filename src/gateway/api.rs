//! What the settings make of the REST API, and what the parent is told of it.

use std::path::PathBuf;

use crate::gateway::events::Event;
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

/// Whether a message that is posted is taken, as the last event said.
#[derive(Debug, PartialEq)]
pub(super) enum Readiness {
    /// No event has said so far.
    Starting,
    Ready,
    NotReady(String),
    Disabled(String),
}

impl Readiness {
    pub(super) fn event(&self) -> Option<Event<'_>> {
        match self {
            Self::Starting => None,
            Self::Ready => Some(Event::Ready),
            Self::NotReady(reason) => Some(Event::NotReady { reason }),
            Self::Disabled(reason) => Some(Event::Disabled { reason }),
        }
    }

    /// Returns what the next event says; `None` if the parent knows all. `is_bus_connected` tells whether messages had
    /// somewhere to go when the bus last reported a change. It is `None` until its first report.
    pub(super) fn next(&self, api: &Api, is_bus_connected: Option<bool>) -> Option<Self> {
        let next = match (api, is_bus_connected) {
            (Api::Open(_), None) => return None,
            (Api::Open(_), Some(true)) => Self::Ready,
            // A start is not ready yet.
            (Api::Open(_), Some(false)) if *self == Self::Starting => return None,
            (Api::Open(_), Some(false)) => Self::NotReady("the bus is not connected".into()),
            (Api::Closed { failure, .. }, _) => Self::NotReady(failure.to_string()),
            // That messages are no longer taken comes first.
            (Api::Off { reason, .. }, _) if *self == Self::Ready => Self::NotReady(reason.clone()),
            (Api::Off { reason, .. }, _) => Self::Disabled(reason.clone()),
        };
        (next != *self).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::terms::token::Token;

    /// Each row: what the last event said, the API, whether the bus is connected, and what the next events say.
    #[test]
    fn the_parent_is_told_each_change_once_and_why() {
        let open = || Api::Open(Opened { listening: Arc::default(), token: Token::new("t").unwrap(), tls: None });
        let off = || Api::Off { reason: "off".into(), to_switch_on: None };
        let closed = || Api::Closed { failure: Failure::configuration("taken"), may_pass: false };
        let not_ready = |reason: &str| Readiness::NotReady(reason.into());
        let [disabled, other] = ["off", "other"].map(|reason| move || Readiness::Disabled(reason.into()));
        let no_bus = || not_ready("the bus is not connected");
        for (before, api, is_bus_connected, expected) in [
            (Readiness::Starting, open(), None, vec![]),
            (Readiness::Starting, open(), Some(false), vec![]),
            (Readiness::Starting, open(), Some(true), vec![Readiness::Ready]),
            (Readiness::Starting, off(), Some(true), vec![disabled()]),
            (Readiness::Starting, closed(), None, vec![not_ready("taken")]),
            (Readiness::Ready, open(), Some(true), vec![]),
            (Readiness::Ready, open(), Some(false), vec![no_bus()]),
            (Readiness::Ready, off(), Some(true), vec![not_ready("off"), disabled()]),
            (Readiness::Ready, closed(), Some(true), vec![not_ready("taken")]),
            (no_bus(), open(), Some(false), vec![]),
            (no_bus(), open(), Some(true), vec![Readiness::Ready]),
            (no_bus(), off(), Some(false), vec![disabled()]),
            (no_bus(), closed(), Some(false), vec![not_ready("taken")]),
            (not_ready("taken"), closed(), Some(true), vec![]),
            (not_ready("taken"), off(), None, vec![disabled()]),
            (not_ready("taken"), open(), Some(true), vec![Readiness::Ready]),
            (disabled(), off(), Some(true), vec![]),
            (other(), off(), Some(true), vec![disabled()]),
            (disabled(), open(), None, vec![]),
            (disabled(), open(), Some(false), vec![no_bus()]),
            (disabled(), open(), Some(true), vec![Readiness::Ready]),
            (disabled(), closed(), Some(true), vec![not_ready("taken")]),
        ] {
            let row = format!("{before:?}, {is_bus_connected:?}, {expected:?}");
            let mut last = before;
            for next in expected {
                last = last.next(&api, is_bus_connected).expect(&row);
                assert_eq!(last, next, "{row}");
            }
            assert_eq!(last.next(&api, is_bus_connected), None, "{row}");
        }
    }
}
