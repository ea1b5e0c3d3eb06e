//! The fields of an object that matter, picked out of it in one pass; all others are skipped.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Fault, Flaw, Pointer, Quoted, Reason};

/// The pointer to the payload.
pub(super) const PAYLOAD: &str = "/payload";

/// A field that was looked for, and what was found.
pub(super) struct Field<'b> {
    /// The pointer to the object.
    parent: &'static str,
    name: &'static str,
    found: Found<'b>,
}

enum Found<'b> {
    Nothing,
    Value(&'b RawValue),
    Several,
}

/// Looks for the fields `names` in `object`, which `parent` points to. Keys are compared decoded.
///
/// `None` where `object` is not JSON, or not an object. A value is skipped, not read, so that neither its nesting nor
/// the size of its numbers matters; its syntax does.
pub(super) fn pick<'b, const N: usize>(
    object: &'b str,
    parent: &'static str,
    names: [&'static str; N],
) -> Option<[Field<'b>; N]> {
    // serde_json would echo a big string in its error.
    if !object.trim_ascii_start().starts_with('{') {
        return None;
    }
    let mut fields = names.map(|name| Field { parent, name, found: Found::Nothing });
    let mut json = serde_json::Deserializer::from_str(object);
    json.deserialize_map(Fields(&mut fields)).ok()?;
    json.end().ok()?;
    Some(fields)
}

impl<'b> Field<'b> {
    /// The payload's field `name`, to be looked for.
    pub(super) fn wanted(name: &'static str) -> Self {
        Self { parent: PAYLOAD, name, found: Found::Nothing }
    }

    /// The key that was looked for.
    pub(super) fn key(&self) -> &'static str {
        self.name
    }

    /// Whether the object has no such field.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.found, Found::Nothing)
    }

    /// The fault of this field having this flaw.
    #[cold]
    pub(super) fn fault(&self, flaw: Flaw) -> Fault {
        let tokens = self.parent.split('/').skip(1).chain([self.name]);
        Fault::not_message(Pointer::to(tokens), Reason::Field(self.name, flaw))
    }

    /// The field as a string.
    pub(super) fn text(&self) -> Result<Quoted<'b>, Fault> {
        Quoted::new(self.value()?).ok_or_else(|| self.fault(Flaw::NotAString))
    }

    /// The field as a string that is not empty.
    pub(super) fn non_empty_text(&self) -> Result<Quoted<'b>, Fault> {
        let text = self.text()?;
        if text.is_empty() { Err(self.fault(Flaw::Empty)) } else { Ok(text) }
    }

    /// The field as the text of an object.
    pub(super) fn object(&self) -> Result<&'b str, Fault> {
        let value = self.value()?;
        if value.starts_with('{') { Ok(value) } else { Err(self.fault(Flaw::NotAnObject)) }
    }

    /// The fields `names` of this field, an object which `place` points to.
    pub(super) fn fields<const N: usize>(
        &self,
        place: &'static str,
        names: [&'static str; N],
    ) -> Result<[Field<'b>; N], Fault> {
        pick(self.value()?, place, names).ok_or_else(|| self.fault(Flaw::NotAnObject))
    }

    fn value(&self) -> Result<&'b str, Fault> {
        match self.found {
            Found::Value(raw) => Ok(raw.get()),
            Found::Nothing => Err(self.fault(Flaw::Missing)),
            Found::Several => Err(self.fault(Flaw::Repeated)),
        }
    }
}

/// Fills in fields that were found nowhere so far.
pub(super) struct Fields<'f, 'b>(pub(super) &'f mut [Field<'b>]);

impl<'b> Visitor<'b> for Fields<'_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(Key(self.0))? {
            match field {
                Some(field) if field.is_missing() => field.found = Found::Value(map.next_value()?),
                Some(field) => {
                    field.found = Found::Several;
                    map.next_value::<IgnoredAny>()?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a key as the field that it names, if it names one.
struct Key<'f, 'b>(&'f mut [Field<'b>]);

impl<'f, 'b> DeserializeSeed<'b> for Key<'f, 'b> {
    type Value = Option<&'f mut Field<'b>>;

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'f, 'b> Visitor<'b> for Key<'f, 'b> {
    type Value = Option<&'f mut Field<'b>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter_mut().find(|field| field.name == key))
    }
}
