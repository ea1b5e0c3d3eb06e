//! The fields of a message that some check looks at, and what a body gives for them.

use std::fmt::Display;
use std::ops::Range;

use super::fault::Fault;
use super::json::JsonString;
use crate::sync::counting::enum_of_rows;

/// The key may be written with escapes.
pub(super) const REPEATED: &str = "is given more than once";

enum_of_rows! {
    /// A field of the body, or of one of the objects below it, with the field that holds it, or the body, and its key.
    pub(super) enum Field: (Option<Field>, &'static str) => {
        Topic = (None, "topic"),
        Payload = (None, "payload"),
        NodeId = (Some(Field::Payload), "node_id"),
        ExtensionId = (Some(Field::Payload), "extension_id"),
        NodeName = (Some(Field::Payload), "node_name"),
        ExtensionName = (Some(Field::Payload), "extension_name"),
        Content = (Some(Field::Payload), "content"),
        Type = (Some(Field::Content), "type"),
        Domain = (Some(Field::Content), "domain"),
        Service = (Some(Field::Content), "service"),
        ServiceData = (Some(Field::Content), "service_data"),
        EntityId = (Some(Field::ServiceData), "entity_id"),
    }
}

impl Field {
    /// Returns the field that `key` names in the object `parent`, or in the body.
    #[inline]
    pub(super) fn find(parent: Option<Self>, key: &[u8]) -> Option<Self> {
        let is_named = |field: &&Self| field.row().0 == parent && field.key().as_bytes() == key;
        Self::ALL.iter().find(is_named).copied()
    }

    pub(super) fn key(self) -> &'static str {
        self.row().1
    }

    /// Returns the keys that lead to the field.
    fn path(self) -> Vec<&'static str> {
        let (parent, key) = self.row();
        let mut path = parent.map_or_else(Vec::new, Self::path);
        path.push(key);
        path
    }

    #[cold]
    pub(super) fn fault(self, flaw: impl Display) -> Fault {
        Fault::not_message(self.path(), format!("`{}` {flaw}", self.key()))
    }
}

/// What a body gives for a field.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Given<'b> {
    #[default]
    Nothing,
    /// With where the text of the key begins.
    String(JsonString<'b>, usize),
    /// With where it begins and ends.
    Object(usize, usize),
    Other,
    Several,
}

/// What a body gives for each [`Field`].
#[derive(Default)]
pub(super) struct CapturedFields<'b>([Given<'b>; Field::ALL.len()]);

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
        matches!(self.get(field), Given::String(string, _) if !string.raw.is_empty())
    }

    /// Returns where the object stands in the body.
    #[inline]
    pub(super) fn object(&self, field: Field) -> Result<Range<usize>, Fault> {
        match self.value(field)? {
            Given::Object(start, end) => Ok(start..end),
            _ => Err(field.fault("must be an object")),
        }
    }

    #[inline]
    pub(super) fn string(&self, field: Field) -> Result<JsonString<'b>, Fault> {
        match self.value(field)? {
            Given::String(string, _) => Ok(string),
            _ => Err(field.fault("must be a string")),
        }
    }

    /// Returns whether `byte` stands in a string of another field than `field`.
    pub(super) fn any_other_holds(&self, field: Field, byte: u8) -> bool {
        self.0.iter().enumerate().any(|(other, given)| {
            matches!(given, Given::String(string, _) if other != field as usize && string.raw.contains(&byte))
        })
    }

    /// Returns what is given for a field that must be given once.
    #[inline]
    pub(super) fn value(&self, field: Field) -> Result<Given<'b>, Fault> {
        match self.get(field) {
            Given::Nothing => Err(field.fault("is missing")),
            Given::Several => Err(field.fault(REPEATED)),
            given => Ok(given),
        }
    }

    #[inline]
    pub(super) fn get(&self, field: Field) -> Given<'b> {
        self.0.get(field as usize).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_own_row() {
        for field in Field::ALL {
            let (parent, key) = field.row();
            assert_eq!(Field::find(parent, key.as_bytes()), Some(*field));
        }
        assert_eq!(Field::EntityId.path(), ["payload", "content", "service_data", "entity_id"]);
    }

    #[test]
    fn other_keys_are_no_fields() {
        for parent in Field::ALL.iter().copied().map(Some).chain([None]) {
            for key in ["", "node", "Topic", "entity_id/", "payload/content"] {
                assert_eq!(Field::find(parent, key.as_bytes()), None, "{key} in {parent:?}");
            }
        }
    }
}
