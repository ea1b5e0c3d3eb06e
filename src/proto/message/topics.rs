//! The known topics and what the payload of each must hold: the specification's table, as a table.

/// What a known topic asks of its payload.
#[derive(Debug, PartialEq, Eq)]
pub struct Schema {
    /// The topic, in full.
    pub topic: &'static str,
    /// The fields that name the sender, or the node or extension that the message is about.
    pub identifier: Identifier,
    /// What `content` must be.
    pub content: Content,
}

/// The fields that name a node or an extension. Each is a non-empty string.
#[derive(Debug, PartialEq, Eq)]
pub enum Identifier {
    /// This field is required.
    One(&'static str),
    /// At least one of these fields is required. Where both are given, both must be valid.
    Either(&'static str, &'static str),
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

const NODE_ID: Identifier = Identifier::One("node_id");
const EXTENSION_ID: Identifier = Identifier::One("extension_id");
const EITHER_ID: Identifier = Identifier::Either("node_id", "extension_id");
const NODE_NAME: Identifier = Identifier::One("node_name");
const EXTENSION_NAME: Identifier = Identifier::One("extension_name");
const EITHER_NAME: Identifier = Identifier::Either("node_name", "extension_name");

/// Every known topic, those of the older vocabulary and of the newer one side by side.
/// A field that a schema does not name is not known to its topic, and is never looked at.
#[rustfmt::skip]
pub static SCHEMAS: [Schema; 9] = [
    Schema { topic: "adapter/nodes/data",           identifier: NODE_ID,        content: Content::Text },
    Schema { topic: "adapter/extensions/data",      identifier: EXTENSION_ID,   content: Content::Text },
    Schema { topic: "visual/extensions/command",    identifier: EITHER_ID,      content: Content::Text },
    Schema { topic: "core/exts/operate",            identifier: NODE_NAME,      content: Content::StartOrStop },
    Schema { topic: "core/extensions/operate",      identifier: EXTENSION_NAME, content: Content::StartOrStop },
    Schema { topic: "core/nodes/operate",           identifier: EITHER_NAME,    content: Content::StartOrStop },
    Schema { topic: "core/node/statu/change",       identifier: NODE_NAME,      content: Content::StartOrStop },
    Schema { topic: "core/extension/statu/change",  identifier: EXTENSION_NAME, content: Content::StartOrStop },
    Schema { topic: "to_homeauto",                  identifier: EITHER_ID,      content: Content::ServiceCall },
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
}
