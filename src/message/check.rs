//! The payload of a known topic, checked against the topic's schema.

use super::fault::{Fault, Flaw, Reason};
use super::field::Field;
use super::fields::CapturedFields;
use super::topics::{CALL_SERVICE, Content, Schema};

/// Checks that the payload is what `schema` asks for.
pub(super) fn payload(fields: &CapturedFields, schema: &Schema) -> Result<(), Fault> {
    if let Some(field) = schema.identifiers.iter().find(|&&field| fields.is_repeated(field)) {
        return Err(field.fault(Flaw::Repeated));
    }
    identifier(fields, schema).ok_or_else(|| no_identifier(fields, schema))?;
    match schema.content {
        Content::Any => fields.value(Field::Content).map(drop),
        Content::OneOf(words) => one_of(fields, words),
        Content::HomeAutomation => home_automation(fields),
    }
}

/// Returns the field that names the sender or the target. The others of the schema are not looked at.
pub(super) fn identifier(fields: &CapturedFields, schema: &Schema) -> Option<Field> {
    schema.identifiers.iter().copied().find(|&field| fields.is_name(field))
}

/// Returns why no field of the payload names the sender or the target: what is wrong with the first one that is given.
#[cold]
fn no_identifier(fields: &CapturedFields, schema: &Schema) -> Fault {
    match schema.identifiers {
        [one] => bad_name(fields, *one),
        several => match several.iter().find(|&&field| !fields.is_missing(field)) {
            Some(&given) => bad_name(fields, given),
            None => Field::Payload.fault_for(Reason::NoIdentifier(schema.identifiers)),
        },
    }
}

fn bad_name(fields: &CapturedFields, field: Field) -> Fault {
    fields.is_empty_string(field).err().unwrap_or_else(|| field.fault(Flaw::Empty))
}

fn one_of(fields: &CapturedFields, words: &'static [&'static str]) -> Result<(), Fault> {
    let content = fields.text(Field::Content)?;
    if words.contains(&content.as_ref()) { Ok(()) } else { Err(Field::Content.fault(Flaw::NotOneOf(words))) }
}

fn home_automation(fields: &CapturedFields) -> Result<(), Fault> {
    fields.object(Field::Content)?;
    if fields.text(Field::Type)? != CALL_SERVICE {
        return Ok(());
    }
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
