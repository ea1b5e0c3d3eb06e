//! The payload of a known topic, checked against the topic's schema.

use super::fault::Fault;
use super::fields::{CapturedFields, Field, Given, REPEATED};
use super::topics::{CALL_SERVICE, Content, Schema};

/// Checks that the payload is what `schema` asks for.
pub(super) fn payload(fields: &CapturedFields, schema: &Schema) -> Result<(), Fault> {
    if let Some(field) = schema.identifiers.iter().find(|&&field| matches!(fields.get(field), Given::Several)) {
        return Err(field.fault(REPEATED));
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
            None => Field::Payload.fault_for(format!("{} is required", alternatives(schema.identifiers()))),
        },
    }
}

fn bad_name(fields: &CapturedFields, field: Field) -> Fault {
    fields.text(field).err().unwrap_or_else(|| field.fault("must not be empty"))
}

fn one_of(fields: &CapturedFields, words: &'static [&'static str]) -> Result<(), Fault> {
    let content = fields.text(Field::Content)?;
    if words.contains(&content.as_ref()) {
        Ok(())
    } else {
        Err(Field::Content.fault(format_args!("must be {}", alternatives(words.iter().copied()))))
    }
}

/// Returns names of which one is enough, for people: `` `a`, `b` or `c` ``.
#[cold]
fn alternatives(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn home_automation(fields: &CapturedFields) -> Result<(), Fault> {
    fields.object(Field::Content)?;
    if fields.text(Field::Type)? != CALL_SERVICE {
        return Ok(());
    }
    let domain = fields.text(Field::Domain)?;
    fields.text(Field::Service)?;
    fields.object(Field::ServiceData)?;
    entity(&fields.text(Field::EntityId)?, &domain).map_err(|flaw| Field::EntityId.fault(flaw))
}

/// Checks that `entity_id` is `<domain>.<device_name>` with neither part empty. The first dot separates them: the name
/// of a device may hold more.
fn entity(entity_id: &str, domain: &str) -> Result<(), &'static str> {
    // The dot is among the first bytes, where a plain search takes fewer instructions than one with vectors.
    let dot = entity_id.bytes().position(|byte| byte == b'.');
    match dot.and_then(|dot| entity_id.split_at_checked(dot)) {
        Some(("", _) | (_, ".")) | None => Err("must be `<domain>.<device_name>`"),
        Some((own, _)) if own != domain => Err("must be of the same domain as `domain`"),
        Some(_) => Ok(()),
    }
}
