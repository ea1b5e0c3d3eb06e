//! The known topics and what each asks of its payload: the specification's table, as a table.

/// One known topic.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// The topic, in full.
    pub topic: &'static str,
    /// Who sends, or whom the message is about.
    pub who: Who,
    /// What `content` must be.
    pub content: Content,
}

/// The fields that name a node or an extension. Each is a non-empty string.
#[derive(Debug, PartialEq, Eq)]
pub enum Who {
    /// This field is required.
    One(&'static str),
    /// At least one of these is required. Where both are given, both must be valid.
    Either(&'static str, &'static str),
}

/// What `content` must be; it is always required.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// Any string.
    Text,
    /// `start` or `stop`.
    Switch,
    /// A call of a home-automation service: an object of `type`, `domain`, `service` and `service_data`.
    ServiceCall,
}

const NODE_ID: Who = Who::One("node_id");
const EXTENSION_ID: Who = Who::One("extension_id");
const EITHER_ID: Who = Who::Either("node_id", "extension_id");
const NODE_NAME: Who = Who::One("node_name");
const EXTENSION_NAME: Who = Who::One("extension_name");
const EITHER_NAME: Who = Who::Either("node_name", "extension_name");

/// Every known topic, those of the older vocabulary and of the newer side by side.
/// A field that a row does not name is not known to its topic, and is never looked at.
#[rustfmt::skip]
pub static TABLE: [Row; 9] = [
    Row { topic: "adapter/nodes/data",           who: NODE_ID,        content: Content::Text },
    Row { topic: "adapter/extensions/data",      who: EXTENSION_ID,   content: Content::Text },
    Row { topic: "visual/extensions/command",    who: EITHER_ID,      content: Content::Text },
    Row { topic: "core/exts/operate",            who: NODE_NAME,      content: Content::Switch },
    Row { topic: "core/extensions/operate",      who: EXTENSION_NAME, content: Content::Switch },
    Row { topic: "core/nodes/operate",           who: EITHER_NAME,    content: Content::Switch },
    Row { topic: "core/node/statu/change",       who: NODE_NAME,      content: Content::Switch },
    Row { topic: "core/extension/statu/change",  who: EXTENSION_NAME, content: Content::Switch },
    Row { topic: "to_homeauto",                  who: EITHER_ID,      content: Content::ServiceCall },
];

/// The row of `topic`; `None` for a topic that is not known.
#[must_use]
pub fn find(topic: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.topic == topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_is_found_at_its_own_row() {
        for row in &TABLE {
            assert_eq!(find(row.topic), Some(row));
        }
    }

    #[test]
    fn a_topic_is_known_in_full_only() {
        for stranger in ["", "to_homeaut", "to_homeauto/", "TO_HOMEAUTO", "core/ext/operate"] {
            assert_eq!(find(stranger), None, "{stranger}");
        }
    }
}
