//! Frames of any publisher, shown as JSON.

use super::to_json;

#[track_caller]
fn show(frame: &[u8], json: &str) {
    assert_eq!(to_json(frame).as_deref(), Some(json), "{frame:02x?}");
}

#[track_caller]
fn refuse(frame: &[u8]) {
    assert_eq!(to_json(frame), None, "{frame:02x?}");
}

#[test]
fn every_form_of_an_integer() {
    let sized = [0xff; 8];
    let form = |marker: u8, bytes: usize| [&[marker], &sized[..bytes]].concat();
    for (frame, json) in [
        (form(0x00, 0), "0"),
        (form(0x7f, 0), "127"),
        (form(0xe0, 0), "-32"),
        (form(0xff, 0), "-1"),
        (form(0xcc, 1), "255"),
        (form(0xcd, 2), "65535"),
        (form(0xce, 4), "4294967295"),
        (form(0xcf, 8), "18446744073709551615"),
        (form(0xd0, 1), "-1"),
        (form(0xd1, 2), "-1"),
        (form(0xd2, 4), "-1"),
        (form(0xd3, 8), "-1"),
    ] {
        show(&frame, json);
    }
    show(b"\xd3\x80\0\0\0\0\0\0\0", "-9223372036854775808");
}

#[test]
fn floats() {
    show(&[&[0xcb][..], &0.1_f64.to_be_bytes()].concat(), "0.1");
    show(&[&[0xcb][..], &1.0_f64.to_be_bytes()].concat(), "1.0");
    show(&[&[0xcb][..], &(-0.0_f64).to_be_bytes()].concat(), "-0.0");
    show(&[&[0xca][..], &1.5_f32.to_be_bytes()].concat(), "1.5");
    for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        show(&[&[0xcb][..], &float.to_be_bytes()].concat(), "null");
        show(&[&[0xca][..], &(float as f32).to_be_bytes()].concat(), "null");
    }
}

#[test]
fn lengths_in_longer_forms_than_needed() {
    show(b"\xdd\0\0\0\x01\xdf\0\0\0\x01\xdb\0\0\0\x01k\xda\0\x01v", r#"[{"k":"v"}]"#);
    show(b"\xdc\0\0", "[]");
    show(b"\xde\0\0", "{}");
    show(b"\xd9\0", r#""""#);
}

#[test]
fn strings_are_escaped() {
    show(b"\xa9a\"\\\n\0\x7f\xc3\xa9/", "\"a\\\"\\\\\\n\\u0000\x7fé/\"");
}

#[test]
fn binary_data_is_base64() {
    show(b"\xc4\0", r#""""#);
    show(b"\xc4\x04\0\xff\x10\x80", r#""AP8QgA==""#);
    show(b"\xc5\0\x01a", r#""YQ==""#);
    show(b"\xc6\0\0\0\x01a", r#""YQ==""#);
}

#[test]
fn extensions_show_their_type() {
    show(b"\xd4\x05a", r#"{"ext":5,"data":"YQ=="}"#);
    show(b"\xd6\xff\0\0\0\x01", r#"{"ext":-1,"data":"AAAAAQ=="}"#);
    show(b"\xd8\x80aaaaaaaaaaaaaaaa", r#"{"ext":-128,"data":"YWFhYWFhYWFhYWFhYWFhYQ=="}"#);
    show(b"\xc7\0\x01", r#"{"ext":1,"data":""}"#);
    show(b"\x92\xc9\0\0\0\x01\x02a\xc0", r#"[{"ext":2,"data":"YQ=="},null]"#);
}

#[test]
fn keys_become_strings() {
    let frame = b"\x87\x01\xc0\xff\xc0\xc3\xc0\xc0\xc0\xca\x3f\x80\0\0\xc0\xc4\x01a\xc0\xa1k\xc0";
    show(frame, r#"{"1":null,"-1":null,"true":null,"null":null,"1.0":null,"YQ==":null,"k":null}"#);
    show(b"\x82\xa1k\x01\xa1k\x02", r#"{"k":1,"k":2}"#);
    for (key, shown) in [
        (&b"\x92\x01\xa1k"[..], r#"[1,\"k\"]"#),
        (b"\x81\xa1k\x02", r#"{\"k\":2}"#),
        (b"\xd4\0\0", r#"{\"ext\":0,\"data\":\"AA==\"}"#),
    ] {
        show(&[b"\x81", key, b"\xc0"].concat(), &format!(r#"{{"{shown}":null}}"#));
    }
    // Each further level of keys would double the escapes.
    refuse(b"\x81\x91\x81\x90\xc0\xc0");
    show(b"\x82\x90\xc0\x91\xc0\x81\x90\xc0", r#"{"[]":null,"[null]":{"[]":null}}"#);
}

#[test]
fn every_cut_of_a_frame_is_noticed() {
    let frame = [
        &b"\xdc\0\x0e\xcc\x01\xcd\0\x01\xce\0\0\0\x01\xcf\0\0\0\0\0\0\0\x01\xd0\x01\xd3\0\0\0\0\0\0\0\x01"[..],
        b"\xca\0\0\0\0\xcb\0\0\0\0\0\0\0\0\xd9\x02ab\xc4\x02ab\xd6\x01abcd\xc7\x02\x01ab\x81\xa1k\xc3\xc0",
    ]
    .concat();
    to_json(&frame).unwrap();
    for end in 0..frame.len() {
        refuse(&frame[..end]);
    }
}

#[test]
fn lengths_beyond_the_frame_cost_nothing() {
    for marker in [0xc6, 0xc9, 0xdb, 0xdd, 0xdf] {
        for bytes in 1..=5 {
            refuse(&[marker, 0xff, 0xff, 0xff, 0xff][..bytes]);
        }
    }
}

#[test]
fn what_is_no_messagepack() {
    refuse(b"");
    refuse(b"\xc1");
    refuse(b"\x81\xc1\xc0");
    refuse(b"\xa1\xff");
    refuse(b"\xc0\xc0");
    refuse(br#"{"json":0}"#);
}

#[test]
fn depth_at_the_limit_and_past_it() {
    let nested = |levels: usize| [vec![0x91; levels], vec![0xc0]].concat();
    show(&nested(512), &format!("{}null{}", "[".repeat(512), "]".repeat(512)));
    refuse(&nested(513));
    refuse(&nested(1_000_000));
    refuse(&b"\x81\xa0".repeat(513));
}
