//! The known topics, what the payload of each must hold, and how the other vocabulary writes it: the specification's
//! table, as a table.

use super::fields::Field;

/// What a known topic asks of its payload.
#[derive(Debug, PartialEq, Eq)]
pub struct Schema {
    /// The topic, in full.
    pub topic: &'static str,
    /// The fields that name the sender, or the node or extension that the message is about.
    pub(super) identifier: Identifier,
    /// What `content` must be.
    pub content: Content,
    /// How the message is published in the older vocabulary, if that is not as it is.
    pub older: Option<Translation>,
    /// How the message is published in the newer vocabulary, if that is not as it is.
    pub newer: Option<Translation>,
}

/// How a message is published in a vocabulary that it may not have been written in.
#[derive(Debug, PartialEq, Eq)]
pub struct Translation {
    /// The topic.
    pub topic: &'static str,
    /// The field that takes the place of the identifier, unless the payload has it already.
    pub(super) identifier: Field,
}

impl Translation {
    /// Returns the key of the field that takes the place of the identifier.
    #[must_use]
    pub fn identifier(&self) -> &'static str {
        self.identifier.key()
    }
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
        self.identifier.fields().map(Field::key)
    }

    /// Returns how a message of this schema is published in `vocabulary`, if that is not as it is.
    #[inline]
    pub(super) fn translation(&self, vocabulary: Vocabulary) -> Option<&Translation> {
        match vocabulary {
            Vocabulary::AsSent => None,
            Vocabulary::Older => self.older.as_ref(),
            Vocabulary::Newer => self.newer.as_ref(),
        }
    }
}

/// The fields that name a node or an extension. Each is a non-empty string.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Identifier {
    /// This field is required.
    One(Field),
    /// At least one of these fields is required. Where both are given, both must be valid.
    Either(Field, Field),
}

impl Identifier {
    /// Returns the fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field> {
        let (one, other) = match *self {
            Self::One(field) => (field, None),
            Self::Either(one, other) => (one, Some(other)),
        };
        [Some(one), other].into_iter().flatten()
    }
}

/// What `content` must be. It is always required.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// Any string.
    Text,
    /// `start` or `stop`.
    StartOrStop,
    /// A call of a home-automation service: an object of `type`, `domain`, `service` and `service_data`.
    ServiceCall,
}

const NODE_ID: Identifier = Identifier::One(Field::NodeId);
const EXTENSION_ID: Identifier = Identifier::One(Field::ExtensionId);
const EITHER_ID: Identifier = Identifier::Either(Field::NodeId, Field::ExtensionId);
const NODE_NAME: Identifier = Identifier::One(Field::NodeName);
const EXTENSION_NAME: Identifier = Identifier::One(Field::ExtensionName);
const EITHER_NAME: Identifier = Identifier::Either(Field::NodeName, Field::ExtensionName);

const AS_IT_IS: Option<Translation> = None;

const fn to(topic: &'static str, identifier: Field) -> Option<Translation> {
    Some(Translation { topic, identifier })
}

/// Every known topic, those of the older vocabulary and of the newer one side by side. The newer one has no topic to
/// operate a node, so that such a message is never translated to it.
/// A field that a schema does not name is not known to its topic. No check looks at it.
#[rustfmt::skip]
pub static SCHEMAS: [Schema; 9] = [
    Schema { topic: "adapter/nodes/data",           identifier: NODE_ID,        content: Content::Text,
             older: AS_IT_IS,
             newer: to("adapter/extensions/data", Field::ExtensionId) },
    Schema { topic: "adapter/extensions/data",      identifier: EXTENSION_ID,   content: Content::Text,
             older: to("adapter/nodes/data", Field::NodeId),
             newer: AS_IT_IS },
    Schema { topic: "visual/extensions/command",    identifier: EITHER_ID,      content: Content::Text,
             older: to("visual/extensions/command", Field::NodeId),
             newer: to("visual/extensions/command", Field::ExtensionId) },
    Schema { topic: "core/exts/operate",            identifier: NODE_NAME,      content: Content::StartOrStop,
             older: AS_IT_IS,
             newer: to("core/extensions/operate", Field::ExtensionName) },
    Schema { topic: "core/extensions/operate",      identifier: EXTENSION_NAME, content: Content::StartOrStop,
             older: to("core/exts/operate", Field::NodeName),
             newer: AS_IT_IS },
    Schema { topic: "core/nodes/operate",           identifier: EITHER_NAME,    content: Content::StartOrStop,
             older: to("core/nodes/operate", Field::NodeName),
             newer: AS_IT_IS },
    Schema { topic: "core/node/statu/change",       identifier: NODE_NAME,      content: Content::StartOrStop,
             older: AS_IT_IS,
             newer: to("core/extension/statu/change", Field::ExtensionName) },
    Schema { topic: "core/extension/statu/change",  identifier: EXTENSION_NAME, content: Content::StartOrStop,
             older: to("core/node/statu/change", Field::NodeName),
             newer: AS_IT_IS },
    Schema { topic: "to_homeauto",                  identifier: EITHER_ID,      content: Content::ServiceCall,
             older: to("to_homeauto", Field::NodeId),
             newer: to("to_homeauto", Field::ExtensionId) },
];

/// Returns the schema of `topic`, or `None` for a topic that is not known.
#[must_use]
pub fn find(topic: &str) -> Option<&'static Schema> {
    SCHEMAS.iter().find(|schema| schema.topic == topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_its_own_schema() {
        for schema in &SCHEMAS {
            assert_eq!(find(schema.topic), Some(schema));
        }
    }

    #[test]
    fn a_topic_is_known_in_full_only() {
        for stranger in ["", "to_homeaut", "to_homeauto/", "TO_HOMEAUTO", "core/ext/operate"] {
            assert_eq!(find(stranger), None, "{stranger}");
        }
    }
    /// A message that is translated twice is the same as one that is translated once, and a translation of the one
    /// vocabulary is undone by that of the other, since its target is a row of the table that has the way back.
    #[test]
    fn a_translation_leads_to_a_row_that_leads_back() {
        for schema in &SCHEMAS {
            for (vocabulary, other) in [(Vocabulary::Older, Vocabulary::Newer), (Vocabulary::Newer, Vocabulary::Older)]
            {
                let Some(translation) = schema.translation(vocabulary) else { continue };
                let target = find(translation.topic).unwrap();
                assert!(target.identifier.fields().any(|field| field == translation.identifier), "{translation:?}");
                assert_eq!(target.content, schema.content, "{translation:?}");
                let again = target.translation(vocabulary);
                assert!(again.is_none_or(|again| again == translation), "{translation:?}");
                let back = target.translation(other);
                let is_nodes = schema.topic == "core/nodes/operate" && vocabulary == Vocabulary::Older;
                assert!(back.is_some_and(|back| back.topic == schema.topic) || is_nodes, "{translation:?}");
            }
            assert_eq!(schema.translation(Vocabulary::AsSent), None);
        }
    }
}
