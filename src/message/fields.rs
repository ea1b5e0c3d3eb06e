//! The fields of a message that some check looks at, and what a body gives for them.

use std::fmt::Display;
use std::ops::Range;

use super::fault::Fault;
use super::json::JsonString;
use crate::sync::counting::enum_of_rows;

/// The key may be written with escapes.
pub(super) const REPEATED: &str = "is given more than once";

/// Defines the fields, and the search for one. It is a chain of comparisons: with the optimisation of the program, a
/// search in a list of rows stays a loop.
macro_rules! fields {
    ($($field:ident = ($parent:expr, $key:literal),)*) => {
        enum_of_rows! {
            /// A field of the body, or of an object below it: the field that holds it, or the body, and its key.
            #[expect(unreachable_pub, reason = "so is every enum of rows")]
            pub enum Field: (Option<Self>, &'static str) => { $($field = ($parent, $key),)* }
        }

        impl Field {
            /// Returns the field that `key` names in the object `parent`, or in the body.
            #[inline]
            pub(super) fn find(parent: Option<Self>, key: &[u8]) -> Option<Self> {
                $(if parent == $parent && key == $key.as_bytes() {
                    return Some(Self::$field);
                })*
                None
            }
        }
    };
}

fields! {
    Topic = (None, "topic"),
    Payload = (None, "payload"),
    NodeId = (Some(Self::Payload), "node_id"),
    ExtensionId = (Some(Self::Payload), "extension_id"),
    NodeName = (Some(Self::Payload), "node_name"),
    ExtensionName = (Some(Self::Payload), "extension_name"),
    Content = (Some(Self::Payload), "content"),
    Type = (Some(Self::Content), "type"),
    Domain = (Some(Self::Content), "domain"),
    Service = (Some(Self::Content), "service"),
    ServiceData = (Some(Self::Content), "service_data"),
    EntityId = (Some(Self::ServiceData), "entity_id"),
}

impl Field {
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
    /// With the offset of the key.
    String(JsonString<'b>, usize),
    /// With where it begins and ends.
    Object(usize, usize),
    Other,
    Several,
}

/// What a body gives for each [`Field`].
#[derive(Default)]
pub(super) struct CapturedFields<'b>([Given<'b>; Field::ROWS.len()]);

impl<'b> CapturedFields<'b> {
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there is a value for each field")]
    pub(super) fn set(&mut self, field: Field, given: Given<'b>) {
        self.0[field as usize] = given;
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
        match self.get(field) {
            Given::Object(start, end) => Ok(*start..*end),
            _ => Err(self.fault(field, "must be an object")),
        }
    }

    #[inline]
    pub(super) fn string(&self, field: Field) -> Result<JsonString<'b>, Fault> {
        match self.get(field) {
            Given::String(string, _) => Ok(*string),
            _ => Err(self.fault(field, "must be a string")),
        }
    }

    /// Returns whether `byte` stands in a string of another field than `field`.
    pub(super) fn any_other_holds(&self, field: Field, byte: u8) -> bool {
        self.0.iter().enumerate().any(|(other, given)| {
            matches!(given, Given::String(string, _) if other != field as usize && string.raw.contains(&byte))
        })
    }

    /// Checks that the field is given once.
    #[inline]
    pub(super) fn once(&self, field: Field) -> Result<(), Fault> {
        match self.get(field) {
            Given::Nothing | Given::Several => Err(self.fault(field, REPEATED)),
            _ => Ok(()),
        }
    }

    /// Tells what is wrong with a field: its value if it is given once.
    #[cold]
    fn fault(&self, field: Field, flaw_of_value: &str) -> Fault {
        field.fault(match self.get(field) {
            Given::Nothing => "is missing",
            Given::Several => REPEATED,
            _ => flaw_of_value,
        })
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there is a value for each field")]
    pub(super) fn get(&self, field: Field) -> &Given<'b> {
        &self.0[field as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_own_row() {
        for &(field, (parent, key)) in Field::ROWS {
            assert_eq!(Field::find(parent, key.as_bytes()), Some(field));
        }
        assert_eq!(Field::EntityId.path(), ["payload", "content", "service_data", "entity_id"]);
    }

    #[test]
    fn other_keys_are_no_fields() {
        for parent in Field::ROWS.iter().map(|(field, _)| Some(*field)).chain([None]) {
            for key in ["", "node", "Topic", "entity_id/", "payload/content"] {
                assert_eq!(Field::find(parent, key.as_bytes()), None, "{key} in {parent:?}");
            }
        }
    }
}
