//! The MessagePack of each kind of JSON value.

use super::super::super::{Check, Encoding};
use super::{encode, encode_value, parse, to_json};

#[test]
fn literals() {
    assert_eq!(encode_value("null"), [0xc0]);
    assert_eq!(encode_value("false"), [0xc2]);
    assert_eq!(encode_value("true"), [0xc3]);
}

#[test]
fn integers_take_their_smallest_form() {
    let table: [(&str, &[u8]); 26] = [
        ("0", &[0]),
        ("-0", &[0]),
        ("127", &[0x7f]),
        ("128", &[0xcc, 0x80]),
        ("255", &[0xcc, 0xff]),
        ("256", &[0xcd, 1, 0]),
        ("65535", &[0xcd, 0xff, 0xff]),
        ("65536", &[0xce, 0, 1, 0, 0]),
        ("4294967295", &[0xce, 0xff, 0xff, 0xff, 0xff]),
        ("4294967296", &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0]),
        ("9007199254740993", &[0xcf, 0, 0x20, 0, 0, 0, 0, 0, 1]),
        ("9223372036854775807", &[0xcf, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("9223372036854775808", &[0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        ("18446744073709551615", &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("-1", &[0xff]),
        ("-32", &[0xe0]),
        ("-33", &[0xd0, 0xdf]),
        ("-127", &[0xd0, 0x81]),
        ("-128", &[0xd0, 0x80]),
        ("-129", &[0xd1, 0xff, 0x7f]),
        ("-32768", &[0xd1, 0x80, 0]),
        ("-32769", &[0xd2, 0xff, 0xff, 0x7f, 0xff]),
        ("-2147483648", &[0xd2, 0x80, 0, 0, 0]),
        ("-2147483649", &[0xd3, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]),
        ("-9223372036854775807", &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 1]),
        ("-9223372036854775808", &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (json, frame) in table {
        assert_eq!(encode_value(json), frame, "{json}");
    }
}

#[test]
fn a_fraction_or_an_exponent_makes_a_float() {
    let table = [
        ("1.0", 1.0),
        ("1e2", 100.0),
        ("1E+2", 100.0),
        ("-0.0", -0.0),
        ("-0e0", -0.0),
        ("0.1", 0.1),
        ("1e23", 1e23),
        ("1e-999", 0.0),
        ("5e-324", f64::from_bits(1)),
        ("1.7976931348623157e308", f64::MAX),
        ("18446744073709551616.0", 18_446_744_073_709_551_616.0),
    ];
    for (json, float) in table {
        assert_eq!(encode_value(json), [&[0xcb][..], &f64::to_be_bytes(float)].concat(), "{json}");
    }
}

/// Numbers close to the middle between two floats, which a less careful parser rounds to the wrong float.
#[test]
fn floats_are_rounded_to_the_nearest() {
    let table: [(&str, u64); 4] = [
        ("2.2250738585072011e-308", 0x000f_ffff_ffff_ffff),
        ("9007199254740993.0", 0x4340_0000_0000_0000),
        ("9007199254740993.00000000000000000000000000000000000001", 0x4340_0000_0000_0001),
        ("0.500000000000000166533453693773481063544750213623046875", 0x3fe0_0000_0000_0002),
    ];
    for (json, bits) in table {
        assert_eq!(encode_value(json), [&[0xcb][..], &bits.to_be_bytes()].concat(), "{json}");
    }
}

#[test]
fn strings_are_decoded() {
    assert_eq!(encode_value(r#""""#), b"\xa0");
    assert_eq!(encode_value(r#""a""#), b"\xa1a");
    assert_eq!(encode_value(r#""é""#), b"\xa2\xc3\xa9");
    assert_eq!(encode_value(r#""\u00e9""#), b"\xa2\xc3\xa9");
    assert_eq!(encode_value(r#""\ud83d\ude00""#), b"\xa4\xf0\x9f\x98\x80");
    assert_eq!(encode_value(r#""\\\"\/\b\f\n\r\t\u0000""#), b"\xa9\\\"/\x08\x0c\n\r\t\0");
    assert_eq!(encode_value(r#""{[,:]} 1e999""#), b"\xac{[,:]} 1e999");
    assert_eq!(encode_value(r#""\\""#), b"\xa1\\");
}

#[test]
fn containers_nest() {
    assert_eq!(encode("{}"), [0x80]);
    assert_eq!(encode(" { } "), [0x80]);
    assert_eq!(encode_value("[]"), [0x90]);
    assert_eq!(encode_value("[[],{},[0]]"), [0x93, 0x90, 0x80, 0x91, 0]);
    assert_eq!(encode("{\"a\" :\r\n[ 1,\t2 ] , \"b\":{\"c\":null}}"), b"\x82\xa1a\x92\x01\x02\xa1b\x81\xa1c\xc0");
}

#[test]
fn members_keep_their_order_and_their_number() {
    assert_eq!(encode(r#"{"b":1,"a":2,"b":3}"#), b"\x83\xa1b\x01\xa1a\x02\xa1b\x03");
}

#[test]
fn json_is_the_very_slice() {
    let body = br#"{"topic":"t","payload":{ "a" : 1e999 , "b":18446744073709551616}}"#;
    let message = parse(body, Check::Envelope).unwrap();
    let payload = message.encode(Encoding::Json).unwrap();
    assert_eq!(payload.as_ptr_range(), message.payload.as_ptr_range());
}

#[test]
fn what_was_posted_is_shown_without_its_spacing() {
    let frame = encode("{ \"a\" : [ 1.50, -0, 1E2, \"\\u00e9\" ] }");
    assert_eq!(to_json(&frame).unwrap(), r#"{"a":[1.5,0,100.0,"é"]}"#);
}
