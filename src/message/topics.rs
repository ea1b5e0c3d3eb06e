//! The known topics: what the payload of each must hold, and how the other vocabulary writes it.

use argh::FromArgValue;

use self::Vocabulary::{Newer, Older};
use super::fields::Field;
use super::mistyped;

/// What a known topic asks of its payload.
#[derive(Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names and types say it")]
pub struct Schema {
    pub topic: &'static str,
    /// The fields that name the sender or the target. The first one that is a non-empty string counts.
    pub(super) identifiers: &'static [Field],
    pub content: Content,
    /// The vocabulary of the topic, the older one of a topic of both, and what the other one has for it.
    vocabulary: Vocabulary,
    other: Option<&'static str>,
}

/// In which vocabulary messages of the known topics are published. Vocabularies differ in names alone.
#[derive(Clone, Copy, Debug, Default, FromArgValue, PartialEq, Eq)]
pub enum Vocabulary {
    /// In the one that they were sent in.
    #[default]
    #[argh(name = "as-sent")]
    AsSent,
    /// In the older one, which names nodes.
    Older,
    /// In the newer one, which names extensions.
    Newer,
}

impl Schema {
    /// The keys of the fields that name a node or an extension. One of them is enough.
    pub fn identifiers(&self) -> impl Iterator<Item = &'static str> {
        self.identifiers.iter().map(|field| field.key())
    }

    /// Returns the topic to publish in `vocabulary`, unless the message passes as it is.
    pub fn topic_in(&self, vocabulary: Vocabulary) -> Option<&'static str> {
        match vocabulary {
            Vocabulary::AsSent => None,
            own if own == self.vocabulary => Some(self.topic),
            _ => self.other,
        }
    }
}

impl Field {
    /// Returns the field of the same meaning, if this one names a node or an extension.
    pub(super) fn identifier_in(self, vocabulary: Vocabulary) -> Self {
        match (vocabulary, self) {
            (Older, Self::ExtensionId) => Self::NodeId,
            (Older, Self::ExtensionName) => Self::NodeName,
            (Newer, Self::NodeId) => Self::ExtensionId,
            (Newer, Self::NodeName) => Self::ExtensionName,
            _ => self,
        }
    }
}

/// What `content` must be. It is always required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Any value.
    Any,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An object with a string `type`, and where that is `call_service`, with `domain`, `service` and `service_data`.
    HomeAutomation,
}

pub(super) const CALL_SERVICE: &str = "call_service";

const SWITCH: Content = Content::OneOf(&["start", "stop"]);

const NODE_ID: &[Field] = &[Field::NodeId];
const EXTENSION_ID: &[Field] = &[Field::ExtensionId];
const EITHER_ID: &[Field] = &[Field::NodeId, Field::ExtensionId];
const NODE: &[Field] = &[Field::NodeName, Field::NodeId];
const EXTENSION: &[Field] = &[Field::ExtensionName, Field::ExtensionId];
const EITHER: &[Field] = &[Field::NodeName, Field::ExtensionName, Field::NodeId, Field::ExtensionId];

/// Every topic whose fields are checked. The newer vocabulary has no topic to operate a node, so that such a message is
/// never translated to it. No check looks at a field that a schema does not name.
#[rustfmt::skip]
pub static SCHEMAS: [Schema; 9] = [
    row("adapter/nodes/data",          NODE_ID,      Content::Any, Older, Some("adapter/extensions/data")),
    row("adapter/extensions/data",     EXTENSION_ID, Content::Any, Newer, Some("adapter/nodes/data")),
    row("visual/extensions/command",   EITHER_ID,    Content::Any, Older, Some("visual/extensions/command")),
    row("core/exts/operate",           NODE,         SWITCH,       Older, Some("core/extensions/operate")),
    row("core/extensions/operate",     EXTENSION,    SWITCH,       Newer, Some("core/exts/operate")),
    row("core/nodes/operate",          EITHER,       SWITCH,       Older, None),
    row("core/node/statu/change",      NODE,         SWITCH,       Older, Some("core/extension/statu/change")),
    row("core/extension/statu/change", EXTENSION,    SWITCH,       Newer, Some("core/node/statu/change")),
    row("to_homeauto",                 EITHER_ID,    Content::HomeAutomation, Older, Some("to_homeauto")),
];

/// Topics that the public client `codelab-adapter-client` uses beside those. Their payloads are not checked.
pub static UNCHECKED: [&str; 16] = [
    "scratch/extensions/command",
    "to_HA",
    "from_HA",
    "core/nodes/status",
    "core/nodes/status/trigger",
    "core/status",
    "core/notification",
    "gui/operate",
    "adapter/ble",
    "scratch/ble",
    "to_mqtt",
    "from_mqtt",
    "to_websocket",
    "from_websocket",
    "linda/server",
    "linda/client",
];

const fn row(
    topic: &'static str,
    identifiers: &'static [Field],
    content: Content,
    vocabulary: Vocabulary,
    other: Option<&'static str>,
) -> Schema {
    Schema { topic, identifiers, content, vocabulary, other }
}

/// Returns `None` for a topic whose payload is not checked.
pub(super) fn find(topic: &[u8]) -> Option<&'static Schema> {
    SCHEMAS.iter().find(|schema| schema.topic.as_bytes() == topic)
}

/// Returns every known topic.
pub fn known() -> impl Iterator<Item = &'static str> {
    SCHEMAS.iter().map(|schema| schema.topic).chain(UNCHECKED)
}

/// The most edits between a topic and the known one that it is taken to be a mistake for. More cost the search more.
const MISTYPED_EDITS: usize = 3;

/// Returns the known topic that `topic` is likely a mistake for.
pub fn nearest(topic: &str) -> Option<&'static str> {
    mistyped::nearest(topic, known(), MISTYPED_EDITS)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_topic_has_its_own_schema_or_none() {
        for schema in &SCHEMAS {
            assert_eq!(find(schema.topic.as_bytes()), Some(schema));
        }
        assert!(UNCHECKED.iter().all(|topic| find(topic.as_bytes()).is_none()));
        assert_eq!(known().collect::<HashSet<_>>().len(), SCHEMAS.len() + UNCHECKED.len());
    }

    #[test]
    fn a_topic_is_known_in_full_only() {
        for stranger in ["", "to_homeaut", "to_homeauto/", "TO_HOMEAUTO", "core/ext/operate"] {
            assert_eq!(find(stranger.as_bytes()), None, "{stranger}");
        }
    }

    /// A message that is translated twice is the same as one that is translated once, and a translation of the one
    /// vocabulary is undone by that of the other.
    #[test]
    fn a_translation_leads_to_a_row_that_leads_back() {
        for schema in &SCHEMAS {
            for (vocabulary, other) in [(Older, Newer), (Newer, Older)] {
                let Some(topic) = schema.topic_in(vocabulary) else { continue };
                let target = find(topic.as_bytes()).unwrap();
                for field in schema.identifiers {
                    assert!(target.identifiers.contains(&field.identifier_in(vocabulary)), "{topic}: {field:?}");
                }
                assert_eq!(target.content, schema.content, "{topic}");
                assert_eq!(target.topic_in(vocabulary), Some(topic));
                let back = target.topic_in(other);
                assert!(back.is_none() || back == Some(schema.topic) || topic == schema.topic, "{topic}");
            }
            assert_eq!(schema.topic_in(Vocabulary::AsSent), None);
        }
    }
}
