//! What a body gives for the fields that are looked at.

use std::borrow::Cow;

use serde::Deserialize;

use super::fault::{Fault, Flaw, Reason};
use super::field::Field;

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

    /// Returns whether the body has the field more than once.
    #[inline]
    pub(super) fn is_repeated(&self, field: Field) -> bool {
        matches!(self.get(field), Given::Several)
    }

    /// Returns whether the field is a string that is not empty.
    #[inline]
    pub(super) fn is_name(&self, field: Field) -> bool {
        match self.get(field) {
            Given::Text(text) => !text.is_empty(),
            Given::Json(json) => !json.starts_with("\"\""),
            _ => false,
        }
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
    pub(super) fn value(&self, field: Field) -> Result<Given<'b>, Fault> {
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
