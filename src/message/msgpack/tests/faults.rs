//! Numbers that are refused, and where.

use super::super::super::{Check, Encoding};
use super::{encode, encoded, parse};

const INTEGER: &str = "an integer does not fit in 64 bits";
const FLOAT: &str = "a number does not fit in a 64-bit float";

#[track_caller]
fn refuse(payload: &str, pointer: &str, detail: &str) {
    let fault = encoded(payload).expect_err(payload);
    assert_eq!((fault.pointer(), fault.reason().as_ref()), (Some(pointer), detail), "{payload}");
}

#[test]
fn integers_beyond_64_bits() {
    for integer in ["18446744073709551616", "-9223372036854775809", "100000000000000000000", &"9".repeat(100_000)] {
        refuse(&format!(r#"{{"n":{integer}}}"#), "/payload/n", INTEGER);
    }
}

#[test]
fn floats_beyond_the_largest() {
    for float in ["1e309", "-1e309", "1.7976931348623159e308", "1e999", "1E+99999999999999999999"] {
        refuse(&format!(r#"{{"n":{float}}}"#), "/payload/n", FLOAT);
    }
    refuse(&format!(r#"{{"n":{}.0}}"#, "9".repeat(400)), "/payload/n", FLOAT);
}

#[test]
fn pointers_lead_to_the_number() {
    refuse(r#"{"n":1e999,"m":[]}"#, "/payload/n", FLOAT);
    refuse(r#" { "a" : 0 , "n" : 1e999 } "#, "/payload/n", FLOAT);
    refuse(r#"{"a":[1,"[",{"b":[],"c":{}},[0,1e999]]}"#, "/payload/a/3/1", FLOAT);
    refuse(r#"{"a":{"b":{}},"c":[[],[[1e999]]]}"#, "/payload/c/1/0/0", FLOAT);
    refuse(r#"{"a~/":[{"\u006e\n":1e999}]}"#, "/payload/a~0~1/0/n\n", FLOAT);
    refuse(r#"{"":{"":1e999}}"#, "/payload//", FLOAT);
    refuse(r#"{"a":1,"a":1e999}"#, "/payload/a", FLOAT);
}

#[test]
fn the_first_fault_counts() {
    refuse(r#"{"a":1e999,"b":18446744073709551616}"#, "/payload/a", FLOAT);
    refuse(r#"{"b":18446744073709551616,"a":1e999}"#, "/payload/b", INTEGER);
}

#[test]
fn the_deepest_number_is_found() {
    let body = format!(r#"{{"a":{}1e999{}}}"#, "[".repeat(126), "]".repeat(126));
    refuse(&body, &format!("/payload/a{}", "/0".repeat(123)), FLOAT);
    encode(&body.replace("1e999", "1"));
}

#[test]
fn other_fields_than_the_payload_may_hold_any_number() {
    let body = br#"{"other":18446744073709551616,"topic":"t","payload":{},"more":1e999}"#;
    let message = parse(body, Check::Known).unwrap();
    assert_eq!(*message.encode(Encoding::Msgpack).unwrap(), [0x80]);
}

#[test]
fn digits_in_strings_are_no_numbers() {
    encode(r#"{"18446744073709551616":"1e999","\"1e999":"\\\"1e999"}"#);
}
