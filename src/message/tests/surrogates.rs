use super::{accept, not_json, refuse};

const LONE: &str = "a `\\u` escape is a lone surrogate";

fn ignored(string: &str) -> String {
    format!(r#"{{"topic":"x","payload":{{}},"ignored":"{string}"}}"#)
}

fn in_payload(string: &str) -> String {
    format!(r#"{{"topic":"x","payload":{{"a":[0,"{string}"]}}}}"#)
}

#[test]
fn lone_ones_are_refused_anywhere() {
    for lone in [
        r"\ud800",
        r"\uDBFF",
        r"\udc00",
        r"\uDFFF",
        r"\ude00\ud83d",
        r"\ud83d\ud83d\ude00",
        r"\ud83d\ude00\ude00",
        r"\ud83d \ude00",
        r"\ud83d\n\ude00",
        r"\ud83d\\ude00",
        r"\\\ud83d",
        r"\ud83d\u0041",
        r"x\uDaBc",
    ] {
        refuse(&ignored(lone), "/ignored", LONE);
        refuse(&in_payload(lone), "/payload/a/1", LONE);
        refuse(&format!(r#"{{"topic":"{lone}","payload":{{}}}}"#), "/topic", LONE);
    }
}

#[test]
fn in_a_key_the_place_is_the_object() {
    refuse(r#"{"topic":"x","payload":{"a":{"b":0,"\ud800":1}}}"#, "/payload/a", LONE);
    refuse(r#"{"\udc00":1}"#, "", LONE);
    refuse(r#"{"topic":"x","payload":{},"i":[0,{"\udc00":{}}]}"#, "/i/1", LONE);
}

#[test]
fn pairs_and_escaped_backslashes_are_fine() {
    for fine in [r"\ud83d\ude00", r"\uD83D\uDE00", r"\uDBFF\udfff", r"\\ud800", r"\\\\uDC00", r"\ud7ff\ue000"] {
        accept(&ignored(fine));
        accept(&in_payload(fine));
        accept(&format!(r#"{{"topic":"{fine}","payload":{{"{fine}":0}}}}"#));
    }
}

#[test]
fn the_first_fault_counts_and_syntax_before_it() {
    refuse(r#"["\ud800", "\udc00"]"#, "/0", LONE);
    not_json(r#"{"a":"\ud800",}"#, "a comma behind the last value at line 1, column 15");
    not_json(r#""\ud83d\ude0""#, "invalid escape at line 1, column 13");
    not_json(r#""\ud83d\u""#, "invalid escape at line 1, column 10");
}
