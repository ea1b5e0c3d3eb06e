//! A known topic's payload, checked field by field against its schema of the vocabulary.

use super::field::{Field, PAYLOAD};
use super::{Fault, Flaw, Pointer, Reason};
use crate::proto::message::topics::{Content, Identifier, Schema};

const CONTENT: &str = "/payload/content";
const SERVICE_DATA: &str = "/payload/content/service_data";

/// Checks that `payload` is what `schema` asks for.
pub(super) fn payload(payload: &Field, schema: &Schema) -> Result<(), Fault> {
    fields(&payload.fields(PAYLOAD, names(schema))?, schema)
}

/// The fields that `schema` knows: who, perhaps in other words, and the content.
pub(super) fn names(schema: &Schema) -> [&'static str; 3] {
    match schema.identifier {
        Identifier::One(name) => [name, name, "content"],
        Identifier::Either(one, other) => [one, other, "content"],
    }
}

/// Checks the fields that are named by [`names`].
pub(super) fn fields([who, other, content]: &[Field; 3], schema: &Schema) -> Result<(), Fault> {
    match schema.identifier {
        Identifier::One(_) => who.non_empty_text().map(drop)?,
        Identifier::Either(..) => either(who, other)?,
    }
    match schema.content {
        Content::Text => content.text().map(drop),
        Content::StartOrStop => switch(content),
        Content::ServiceCall => service_call(content),
    }
}

/// At least one of two names, and no bad one.
fn either(one: &Field, other: &Field) -> Result<(), Fault> {
    if one.is_missing() && other.is_missing() {
        return Err(Fault::not_message(Pointer::to(["payload"]), Reason::Neither(one.key(), other.key())));
    }
    for given in [one, other] {
        if !given.is_missing() {
            given.non_empty_text()?;
        }
    }
    Ok(())
}

fn switch(content: &Field) -> Result<(), Fault> {
    match content.text()?.decode().as_ref() {
        "start" | "stop" => Ok(()),
        _ => Err(content.fault(Flaw::NotASwitch)),
    }
}

fn service_call(content: &Field) -> Result<(), Fault> {
    let names = ["type", "domain", "service", "service_data"];
    let [kind, domain, service, data] = content.fields(CONTENT, names)?;
    kind.text()?;
    let domain = domain.text()?.decode();
    service.text()?;
    let [entity_id] = data.fields(SERVICE_DATA, ["entity_id"])?;
    entity(&entity_id, &domain)
}

/// `<domain>.<device_name>`, neither part empty. The first dot parts them: a device's name may hold more.
fn entity(entity_id: &Field, domain: &str) -> Result<(), Fault> {
    match entity_id.text()?.decode().split_once('.') {
        Some(("", _) | (_, "")) | None => Err(entity_id.fault(Flaw::NotAnEntity)),
        Some((own, _)) if own != domain => Err(entity_id.fault(Flaw::OtherDomain)),
        Some(_) => Ok(()),
    }
}
