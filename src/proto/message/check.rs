//! The payload of a known topic, checked against the topic's schema.

use super::fault::{Fault, Flaw, Reason};
use super::fields::{CapturedFields, Field};
use super::topics::{Content, Identifier, Schema};

/// Checks that the payload is what `schema` asks for.
pub(super) fn payload(fields: &CapturedFields, schema: &Schema) -> Result<(), Fault> {
    match schema.identifier {
        Identifier::One(name) => {
            let missing = || Field::Payload.fault_for(Reason::Field(name, Flaw::Missing));
            non_empty(fields, identifier(name).ok_or_else(missing)?)?;
        }
        Identifier::Either(one, other) => either(fields, one, other)?,
    }
    match schema.content {
        Content::Text => fields.is_empty_string(Field::Content).map(drop),
        Content::StartOrStop => start_or_stop(fields),
        Content::ServiceCall => service_call(fields),
    }
}

/// Checks that at least one of two identifiers is given, and that none is bad.
fn either(fields: &CapturedFields, one: &'static str, other: &'static str) -> Result<(), Fault> {
    let given = [one, other].map(|name| identifier(name).filter(|&field| !fields.is_missing(field)));
    if given == [None, None] {
        return Err(Field::Payload.fault_for(Reason::Neither(one, other)));
    }
    given.into_iter().flatten().try_for_each(|field| non_empty(fields, field))
}

/// Returns the field that a schema names as an identifier.
pub(super) fn identifier(name: &'static str) -> Option<Field> {
    let field = Field::find(Some(Field::Payload), name);
    debug_assert!(field.is_some(), "a schema names `{name}`, which the reader does not capture");
    field
}

fn non_empty(fields: &CapturedFields, field: Field) -> Result<(), Fault> {
    if fields.is_empty_string(field)? { Err(field.fault(Flaw::Empty)) } else { Ok(()) }
}

fn start_or_stop(fields: &CapturedFields) -> Result<(), Fault> {
    match fields.text(Field::Content)?.as_ref() {
        "start" | "stop" => Ok(()),
        _ => Err(Field::Content.fault(Flaw::NotStartOrStop)),
    }
}

fn service_call(fields: &CapturedFields) -> Result<(), Fault> {
    fields.object(Field::Content)?;
    fields.is_empty_string(Field::Type)?;
    let domain = fields.text(Field::Domain)?;
    fields.is_empty_string(Field::Service)?;
    fields.object(Field::ServiceData)?;
    entity(&fields.text(Field::EntityId)?, &domain).map_err(|flaw| Field::EntityId.fault(flaw))
}

/// Checks that `entity_id` is `<domain>.<device_name>` with neither part empty. The first dot separates them: the name
/// of a device may hold more.
fn entity(entity_id: &str, domain: &str) -> Result<(), Flaw> {
    // The dot is among the first bytes, where a plain search takes fewer instructions than one with vectors.
    let dot = entity_id.bytes().position(|byte| byte == b'.');
    match dot.and_then(|dot| entity_id.split_at_checked(dot)) {
        Some(("", _) | (_, ".")) | None => Err(Flaw::NotAnEntity),
        Some((own, _)) if own != domain => Err(Flaw::OtherDomain),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::message::topics::SCHEMAS;

    #[test]
    fn every_identifier_of_a_schema_is_captured() {
        for schema in &SCHEMAS {
            for name in schema.identifier.names() {
                assert!(Field::find(Some(Field::Payload), name).is_some(), "{name} of {}", schema.topic);
            }
        }
    }
}
