//! The fields of a message that are looked at: what they are called, where they stand, and what a body gives for them.

use std::borrow::Cow;

use serde::Deserialize;

use super::fault::{Fault, Flaw, Reason};
use super::pointer::Pointer;

/// A field of the body, or of one of the objects below it, that some check looks at.
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
    const COUNT: usize = Self::EntityId as usize + 1;

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
    fn pointer(self) -> &'static str {
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

    /// Returns the fault of this field having `flaw`.
    #[cold]
    pub(super) fn fault(self, flaw: Flaw) -> Fault {
        self.fault_for(Reason::Field(self.key(), flaw))
    }

    /// Returns the fault `reason` of this field.
    #[cold]
    pub(super) fn fault_for(self, reason: Reason) -> Fault {
        Fault::not_message(Pointer::to(self.pointer().split('/').skip(1)), reason)
    }
}

/// What a body gives for a field.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Given<'b> {
    #[default]
    Nothing,
    /// A string without escapes.
    Text(&'b str),
    /// A string that may have escapes: its JSON, from the opening quote on. More JSON may follow.
    Json(&'b str),
    /// An object, if the field has fields that are looked at.
    Object,
    /// Any other value.
    Other,
    /// More than one value.
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

    /// Returns whether the body has no such field.
    #[inline]
    pub(super) fn is_missing(&self, field: Field) -> bool {
        matches!(self.get(field), Given::Nothing)
    }

    /// Checks that the field is an object.
    #[inline]
    pub(super) fn object(&self, field: Field) -> Result<(), Fault> {
        match self.value(field)? {
            Given::Object => Ok(()),
            _ => Err(field.fault(Flaw::NotAnObject)),
        }
    }

    /// Checks that the field is a string, and returns whether it is empty.
    #[inline]
    pub(super) fn is_empty_string(&self, field: Field) -> Result<bool, Fault> {
        match self.value(field)? {
            Given::Text(text) => Ok(text.is_empty()),
            Given::Json(json) => Ok(json.starts_with("\"\"")),
            _ => Err(field.fault(Flaw::NotAString)),
        }
    }

    /// Returns the field as a string, decoded.
    #[inline]
    pub(super) fn text(&self, field: Field) -> Result<Cow<'b, str>, Fault> {
        match self.value(field)? {
            Given::Text(text) => Ok(Cow::Borrowed(text)),
            Given::Json(json) => decode(json).map_err(|_| field.fault_for(Reason::LoneSurrogate)),
            _ => Err(field.fault(Flaw::NotAString)),
        }
    }

    /// Returns the text behind the opening quote of a field that is a string.
    pub(super) fn inside(&self, field: Field) -> Option<&'b str> {
        match self.get(field) {
            Given::Text(text) => Some(text),
            Given::Json(json) => json.strip_prefix('"'),
            _ => None,
        }
    }

    /// Returns whether a string of another field than `field` may hold the byte that `place`, a part of the same text,
    /// begins with.
    pub(super) fn any_other_may_hold(&self, field: Field, place: &str) -> bool {
        let (Self(given), place) = (self, place.as_ptr());
        given.iter().enumerate().any(|(other, given)| match given {
            _ if other == field as usize => false,
            Given::Text(text) => text.as_bytes().as_ptr_range().contains(&place),
            Given::Json(json) => json.as_ptr() <= place,
            _ => false,
        })
    }

    /// Returns what is given for a field that must be given once.
    #[inline]
    fn value(&self, field: Field) -> Result<Given<'b>, Fault> {
        match self.get(field) {
            Given::Nothing => Err(field.fault(Flaw::Missing)),
            Given::Several => Err(field.fault(Flaw::Repeated)),
            given => Ok(given),
        }
    }

    #[inline]
    fn get(&self, field: Field) -> Given<'b> {
        let Self(given) = self;
        given.get(field as usize).copied().unwrap_or_default()
    }
}

/// Decodes the JSON string that `json` begins with.
#[cold]
fn decode<'b>(json: &str) -> serde_json::Result<Cow<'b, str>> {
    String::deserialize(&mut serde_json::Deserializer::from_str(json)).map(Cow::Owned)
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
