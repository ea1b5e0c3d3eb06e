//! What the parent is told of whether a message that is posted is taken.

use crate::gateway::api::Api;
use crate::gateway::events::Event;

/// What the parent was told last.
#[derive(Debug, PartialEq)]
pub(super) enum Told {
    /// Nothing yet.
    Starting,
    Ready,
    NotReady(String),
    Disabled(String),
}

impl Told {
    pub(super) fn event(&self) -> Option<Event<'_>> {
        match self {
            Self::Starting => None,
            Self::Ready => Some(Event::Ready),
            Self::NotReady(reason) => Some(Event::NotReady { reason }),
            Self::Disabled(reason) => Some(Event::Disabled { reason }),
        }
    }

    /// Returns what is to be told next; `None` if the parent knows all. `is_bus_connected` tells whether messages had
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
    use crate::gateway::failure::Failure;
    use crate::server::shared::Opened;
    use crate::terms::token::Token;

    /// Each row: what was told, the API, whether the bus is connected, and what is told then, one after the other.
    #[test]
    fn the_parent_is_told_each_change_once_and_why() {
        let open = || Api::Open(Opened { listening: Arc::default(), token: Token::new("t").unwrap(), tls: None });
        let off = || Api::Off { reason: "off".into(), to_switch_on: None };
        let closed = || Api::Closed { failure: Failure::configuration("taken"), may_pass: false };
        let not_ready = |reason: &str| Told::NotReady(reason.into());
        let [disabled, other] = ["off", "other"].map(|reason| move || Told::Disabled(reason.into()));
        let no_bus = || not_ready("the bus is not connected");
        for (told, api, is_bus_connected, expected) in [
            (Told::Starting, open(), None, vec![]),
            (Told::Starting, open(), Some(false), vec![]),
            (Told::Starting, open(), Some(true), vec![Told::Ready]),
            (Told::Starting, off(), Some(true), vec![disabled()]),
            (Told::Starting, closed(), None, vec![not_ready("taken")]),
            (Told::Ready, open(), Some(true), vec![]),
            (Told::Ready, open(), Some(false), vec![no_bus()]),
            (Told::Ready, off(), Some(true), vec![not_ready("off"), disabled()]),
            (Told::Ready, closed(), Some(true), vec![not_ready("taken")]),
            (no_bus(), open(), Some(false), vec![]),
            (no_bus(), open(), Some(true), vec![Told::Ready]),
            (no_bus(), off(), Some(false), vec![disabled()]),
            (no_bus(), closed(), Some(false), vec![not_ready("taken")]),
            (not_ready("taken"), closed(), Some(true), vec![]),
            (not_ready("taken"), off(), None, vec![disabled()]),
            (not_ready("taken"), open(), Some(true), vec![Told::Ready]),
            (disabled(), off(), Some(true), vec![]),
            (other(), off(), Some(true), vec![disabled()]),
            (disabled(), open(), None, vec![]),
            (disabled(), open(), Some(false), vec![no_bus()]),
            (disabled(), open(), Some(true), vec![Told::Ready]),
            (disabled(), closed(), Some(true), vec![not_ready("taken")]),
        ] {
            let row = format!("{told:?}, {is_bus_connected:?}, {expected:?}");
            let (mut told, mut all) = (told, Vec::new());
            while let Some(next) = told.next(&api, is_bus_connected) {
                all.push(format!("{next:?}"));
                told = next;
            }
            assert_eq!(all, expected.iter().map(|told| format!("{told:?}")).collect::<Vec<_>>(), "{row}");
        }
    }
}
