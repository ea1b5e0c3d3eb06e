//! The fields of a message that are looked at: what they are called, and where they stand.

/// A field of the body, or of one of the objects below it, that some check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Topic,
    Payload,
    NodeId,
    ExtensionId,
    NodeName,
    ExtensionName,
    Content,
    Type,
    Domain,
    Service,
    ServiceData,
    EntityId,
}

impl Field {
    /// How many there are.
    pub(super) const COUNT: usize = Self::EntityId as usize + 1;

    /// Returns the field that `key` names in the object `parent`, or in the body where that is `None`.
    #[inline]
    pub(super) fn find(parent: Option<Self>, key: &str) -> Option<Self> {
        let field = match parent {
            None => match key {
                "topic" => Self::Topic,
                "payload" => Self::Payload,
                _ => return None,
            },
            Some(Self::Payload) => match key {
                "node_id" => Self::NodeId,
                "extension_id" => Self::ExtensionId,
                "node_name" => Self::NodeName,
                "extension_name" => Self::ExtensionName,
                "content" => Self::Content,
                _ => return None,
            },
            Some(Self::Content) => match key {
                "type" => Self::Type,
                "domain" => Self::Domain,
                "service" => Self::Service,
                "service_data" => Self::ServiceData,
                _ => return None,
            },
            Some(Self::ServiceData) if key == "entity_id" => Self::EntityId,
            Some(_) => return None,
        };
        Some(field)
    }

    /// Returns the JSON pointer to the field, whose last token is the key.
    pub(super) fn pointer(self) -> &'static str {
        match self {
            Self::Topic => "/topic",
            Self::Payload => "/payload",
            Self::NodeId => "/payload/node_id",
            Self::ExtensionId => "/payload/extension_id",
            Self::NodeName => "/payload/node_name",
            Self::ExtensionName => "/payload/extension_name",
            Self::Content => "/payload/content",
            Self::Type => "/payload/content/type",
            Self::Domain => "/payload/content/domain",
            Self::Service => "/payload/content/service",
            Self::ServiceData => "/payload/content/service_data",
            Self::EntityId => "/payload/content/service_data/entity_id",
        }
    }

    /// Returns the key of the field.
    pub(super) fn key(self) -> &'static str {
        self.pointer().rsplit('/').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [Field; Field::COUNT] = [
        Field::Topic,
        Field::Payload,
        Field::NodeId,
        Field::ExtensionId,
        Field::NodeName,
        Field::ExtensionName,
        Field::Content,
        Field::Type,
        Field::Domain,
        Field::Service,
        Field::ServiceData,
        Field::EntityId,
    ];

    #[test]
    fn a_field_is_found_where_its_pointer_leads() {
        for field in FIELDS {
            let (parent, key) = field.pointer().rsplit_once('/').unwrap();
            let parent = FIELDS.into_iter().find(|field| field.pointer() == parent);
            assert_eq!(Field::find(parent, key), Some(field));
        }
    }

    #[test]
    fn other_keys_are_no_fields() {
        for parent in FIELDS.map(Some).into_iter().chain([None]) {
            for key in ["", "node", "Topic", "entity_id/", "payload/content"] {
                assert_eq!(Field::find(parent, key), None, "{key} in {parent:?}");
            }
        }
    }
}
