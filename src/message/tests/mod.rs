//! Bodies that are accepted and bodies that are refused. Most tests call [`parse`] alone.

mod abridged;
mod envelope;
mod json;
mod known;
mod limits;
mod properties;
mod reader;
mod surrogates;
mod syntax;
#[allow(dead_code, reason = "shared with the tests of the program, which use the rest of it")]
#[path = "../../../tests/support/topics.rs"]
mod table;
mod vocabularies;

use super::{Check, Fault, Message, Rules};

/// Reads a message that is to be published as it was sent.
fn parse(body: &[u8], check: Check) -> Result<Message<'_>, Fault> {
    super::parse(body, Rules { check, ..Rules::default() })
}

/// Asserts that `body` is a message under both checks.
#[track_caller]
fn accept(body: &str) {
    for check in [Check::Known, Check::Envelope] {
        if let Err(fault) = parse(body.as_bytes(), check) {
            panic!("{fault:?} at {:?}: {body}", fault.pointer());
        }
    }
}

/// Asserts that `body` is JSON but no message, with the text `detail` for the place `pointer`.
#[track_caller]
fn refuse(body: &str, pointer: &str, detail: &str) {
    let fault = parse(body.as_bytes(), Check::Known).expect_err(body);
    assert_eq!((fault.pointer(), fault.reason().as_ref()), (Some(pointer), detail), "{body}");
}

/// Asserts that `body` is not JSON, with the text `detail`.
#[track_caller]
fn not_json(body: impl AsRef<[u8]>, detail: &str) {
    let body = body.as_ref();
    for check in [Check::Known, Check::Envelope] {
        let fault = parse(body, check).expect_err(detail);
        assert!(matches!(fault, Fault::NotJson { .. }), "{fault:?}");
        assert_eq!(fault.reason(), detail, "{}", body.escape_ascii());
    }
}
