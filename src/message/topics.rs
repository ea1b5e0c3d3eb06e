//! The known topics, what the payload of each must hold, and how the other vocabulary writes it: the specification's
//! table, as a table. Beside them, the topics that are not known, each told of once.

use super::fields::Field;

/// What a known topic asks of its payload.
#[derive(Debug, PartialEq, Eq)]
pub struct Schema {
    /// The topic, in full.
    pub topic: &'static str,
    /// The fields that name the sender, or the node or extension that the message is about. One that is a non-empty string
    /// is enough; of several, the first counts.
    pub(super) identifiers: &'static [Field],
    /// What `content` must be.
    pub content: Content,
    /// The topic in the older vocabulary.
    pub older: Option<&'static str>,
    /// The topic in the newer vocabulary; none if that has none.
    pub newer: Option<&'static str>,
}

/// In which vocabulary messages of the known topics are published. The vocabularies differ in names alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vocabulary {
    /// In the one that they were sent in.
    #[default]
    AsSent,
    /// In the older one, which names nodes.
    Older,
    /// In the newer one, which names extensions.
    Newer,
}

impl Schema {
    /// Returns the keys of the fields that name a node or an extension. One of them is enough.
    pub fn identifiers(&self) -> impl Iterator<Item = &'static str> {
        self.identifiers.iter().map(|field| field.key())
    }

    /// Returns the topic in which a message of this schema is published in `vocabulary`, unless it passes as it is.
    #[must_use]
    pub fn topic_in(&self, vocabulary: Vocabulary) -> Option<&'static str> {
        match vocabulary {
            Vocabulary::AsSent => None,
            Vocabulary::Older => self.older,
            Vocabulary::Newer => self.newer,
        }
    }
}

impl Field {
    /// Returns the field that has the same meaning in `vocabulary`, if this one names a node or an extension.
    pub(super) fn identifier_in(self, vocabulary: Vocabulary) -> Self {
        match (vocabulary, self) {
            (Vocabulary::Older, Self::ExtensionId) => Self::NodeId,
            (Vocabulary::Older, Self::ExtensionName) => Self::NodeName,
            (Vocabulary::Newer, Self::NodeId) => Self::ExtensionId,
            (Vocabulary::Newer, Self::NodeName) => Self::ExtensionName,
            _ => self,
        }
    }
}

impl Vocabulary {
    /// Returns the name that the identifier `key` has in this vocabulary.
    #[must_use]
    pub fn identifier(self, key: &str) -> Option<&'static str> {
        [Field::NodeId, Field::ExtensionId, Field::NodeName, Field::ExtensionName]
            .into_iter()
            .find(|field| field.key() == key)
            .map(|field| field.identifier_in(self).key())
    }
}

/// What `content` must be. It is always required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Any value.
    Any,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// A message to the home automation: an object with a string `type`, and where that is `call_service`, with `domain`,
    /// `service` and `service_data`.
    HomeAutomation,
}

/// The `type` of a call of a home-automation service.
pub(super) const CALL_SERVICE: &str = "call_service";

const SWITCH: Content = Content::OneOf(&["start", "stop"]);

const NODE_ID: &[Field] = &[Field::NodeId];
const EXTENSION_ID: &[Field] = &[Field::ExtensionId];
const EITHER_ID: &[Field] = &[Field::NodeId, Field::ExtensionId];
const NODE: &[Field] = &[Field::NodeName, Field::NodeId];
const EXTENSION: &[Field] = &[Field::ExtensionName, Field::ExtensionId];
const EITHER: &[Field] = &[Field::NodeName, Field::ExtensionName, Field::NodeId, Field::ExtensionId];

/// Every topic whose fields are checked, those of the older vocabulary and of the newer one side by side. The newer one
/// has no topic to operate a node, so that such a message is never translated to it.
/// A field that a schema does not name is not known to its topic. No check looks at it.
#[rustfmt::skip]
pub static SCHEMAS: [Schema; 9] = [
    row("adapter/nodes/data",          NODE_ID,      Content::Any,
        Some("adapter/nodes/data"),        Some("adapter/extensions/data")),
    row("adapter/extensions/data",     EXTENSION_ID, Content::Any,
        Some("adapter/nodes/data"),        Some("adapter/extensions/data")),
    row("visual/extensions/command",   EITHER_ID,    Content::Any,
        Some("visual/extensions/command"), Some("visual/extensions/command")),
    row("core/exts/operate",           NODE,         SWITCH,
        Some("core/exts/operate"),         Some("core/extensions/operate")),
    row("core/extensions/operate",     EXTENSION,    SWITCH,
        Some("core/exts/operate"),         Some("core/extensions/operate")),
    row("core/nodes/operate",          EITHER,       SWITCH,
        Some("core/nodes/operate"),        None),
    row("core/node/statu/change",      NODE,         SWITCH,
        Some("core/node/statu/change"),    Some("core/extension/statu/change")),
    row("core/extension/statu/change", EXTENSION,    SWITCH,
        Some("core/node/statu/change"),    Some("core/extension/statu/change")),
    row("to_homeauto",                 EITHER_ID,    Content::HomeAutomation,
        Some("to_homeauto"),               Some("to_homeauto")),
];

/// Topics that the public client `codelab-adapter-client` uses beside those of [`SCHEMAS`]. They are known, and their
/// payloads are not checked.
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
    older: Option<&'static str>,
    newer: Option<&'static str>,
) -> Schema {
    Schema { topic, identifiers, content, older, newer }
}

/// Returns the schema of `topic`, or `None` for a topic whose payload is not checked.
#[must_use]
pub fn find(topic: &str) -> Option<&'static Schema> {
    SCHEMAS.iter().find(|schema| schema.topic == topic)
}

/// Returns every known topic.
pub fn known() -> impl Iterator<Item = &'static str> {
    SCHEMAS.iter().map(|schema| schema.topic).chain(UNCHECKED)
}

/// Returns the known topic that differs from `topic` the least: in the case of its letters alone, or in the fewest edits.
#[must_use]
pub fn nearest(topic: &str) -> &'static str {
    let same_letters = known().find(|known| known.eq_ignore_ascii_case(topic));
    same_letters.or_else(|| known().min_by_key(|known| strsim::osa_distance(topic, known))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_topic_has_its_own_schema_or_none() {
        for schema in &SCHEMAS {
            assert_eq!(find(schema.topic), Some(schema));
        }
        assert!(UNCHECKED.iter().all(|topic| find(topic).is_none()));
        assert_eq!(known().collect::<HashSet<_>>().len(), SCHEMAS.len() + UNCHECKED.len());
    }

    #[test]
    fn a_topic_is_known_in_full_only() {
        for stranger in ["", "to_homeaut", "to_homeauto/", "TO_HOMEAUTO", "core/ext/operate"] {
            assert_eq!(find(stranger), None, "{stranger}");
        }
    }

    /// A message that is translated twice is the same as one that is translated once, and a translation of the one
    /// vocabulary is undone by that of the other.
    #[test]
    fn a_translation_leads_to_a_row_that_leads_back() {
        for schema in &SCHEMAS {
            for (vocabulary, other) in [(Vocabulary::Older, Vocabulary::Newer), (Vocabulary::Newer, Vocabulary::Older)]
            {
                let Some(topic) = schema.topic_in(vocabulary) else { continue };
                let target = find(topic).unwrap();
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
