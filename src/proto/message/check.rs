//! The payload of a known topic, checked against the topic's schema.

use super::fault::{Fault, Flaw, Reason};
use super::fields::{CapturedFields, Field};
use super::topics::{Content, Identifier, Schema};

/// Checks that the payload is what `schema` asks for.
pub(super) fn payload(fields: &CapturedFields, schema: &Schema) -> Result<(), Fault> {
    match schema.identifier {
        Identifier::One(field) => non_empty(fields, field)?,
        Identifier::Either(one, other) => either(fields, one, other)?,
    }
    match schema.content {
        Content::Text => fields.is_empty_string(Field::Content).map(drop),
        Content::StartOrStop => start_or_stop(fields),
        Content::ServiceCall => service_call(fields),
    }
}

/// Checks that at least one of two identifiers is given, and that none is bad.
fn either(fields: &CapturedFields, one: Field, other: Field) -> Result<(), Fault> {
    match (fields.is_missing(one), fields.is_missing(other)) {
        (true, true) => Err(Field::Payload.fault_for(Reason::Neither(one.key(), other.key()))),
        (true, false) => non_empty(fields, other),
        (false, true) => non_empty(fields, one),
        (false, false) => non_empty(fields, one).and_then(|()| non_empty(fields, other)),
    }
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
