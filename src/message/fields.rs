//! The fields of a message that some check looks at, and what a body gives for them.

use std::borrow::Cow;
use std::fmt::Display;

use super::fault::Fault;

/// The key may be written with escapes.
pub(super) const REPEATED: &str = "is given more than once";

/// A field of the body, or of one of the objects below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
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
    pub(super) const COUNT: usize = Self::EntityId as usize + 1;

    /// Returns the field that `key` names in the object `parent`, or in the body.
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

    /// A JSON pointer, whose last token is the key.
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

    pub(super) fn key(self) -> &'static str {
        self.pointer().rsplit('/').next().unwrap_or_default()
    }

    #[cold]
    pub(super) fn fault(self, flaw: impl Display) -> Fault {
        self.fault_for(format!("`{}` {flaw}", self.key()))
    }

    #[cold]
    pub(super) fn fault_for(self, reason: impl Into<String>) -> Fault {
        Fault::not_message(self.pointer().split('/').skip(1), reason)
    }
}

/// What a body gives for a field.
#[derive(Debug, Default)]
pub(super) enum Given<'b> {
    #[default]
    Nothing,
    String(Cow<'b, str>),
    /// An object, if the field has fields that are looked at.
    Object,
    Other,
    Several,
}

/// What a body gives for each [`Field`].
#[derive(Default)]
pub(super) struct CapturedFields<'b>([Given<'b>; Field::COUNT]);

impl<'b> CapturedFields<'b> {
    #[inline]
    pub(super) fn set(&mut self, field: Field, given: Given<'b>) {
        if let Some(entry) = self.0.get_mut(field as usize) {
            *entry = given;
        }
    }

    #[inline]
    pub(super) fn is_missing(&self, field: Field) -> bool {
        matches!(self.get(field), Given::Nothing)
    }

    /// Returns whether the field is a non-empty string.
    #[inline]
    pub(super) fn is_name(&self, field: Field) -> bool {
        match self.get(field) {
            Given::String(string) => !string.is_empty(),
            _ => false,
        }
    }

    #[inline]
    pub(super) fn object(&self, field: Field) -> Result<(), Fault> {
        match self.value(field)? {
            Given::Object => Ok(()),
            _ => Err(field.fault("must be an object")),
        }
    }

    #[inline]
    pub(super) fn text(&self, field: Field) -> Result<&Cow<'b, str>, Fault> {
        match self.value(field)? {
            Given::String(string) => Ok(string),
            _ => Err(field.fault("must be a string")),
        }
    }

    /// Returns whether a string of another field than `field` has `text` in it.
    pub(super) fn any_other_holds(&self, field: Field, text: &str) -> bool {
        let Self(given) = self;
        given.iter().enumerate().any(|(other, given)| match given {
            Given::String(string) => other != field as usize && string.contains(text),
            _ => false,
        })
    }

    /// Returns what is given for a field that must be given once.
    #[inline]
    pub(super) fn value(&self, field: Field) -> Result<&Given<'b>, Fault> {
        match self.get(field) {
            Given::Nothing => Err(field.fault("is missing")),
            Given::Several => Err(field.fault(REPEATED)),
            given => Ok(given),
        }
    }

    #[inline]
    pub(super) fn get(&self, field: Field) -> &Given<'b> {
        let Self(given) = self;
        given.get(field as usize).unwrap_or(&Given::Nothing)
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
