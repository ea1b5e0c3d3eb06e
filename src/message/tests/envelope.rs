use super::{Check, accept, parse, refuse};

#[test]
fn topic_is_decoded_and_payload_is_as_it_stood() {
    let body = " {\"payload\" :\t{ \"a\": 1.50e+3, \"b\" : \"\\u0041\" } ,\r\n\"topic\": \"x\\/\\u0079\\n\"\n} ";
    let fault = parse(body.as_bytes(), Check::Known).unwrap_err();
    assert_eq!(fault.reason(), "`topic` must not contain control characters");
    let body = body.replace("\\n\"", "\"");
    let message = parse(body.as_bytes(), Check::Known).unwrap();
    assert_eq!(message.topic, "x/y");
    assert_eq!(message.payload, br#"{ "a": 1.50e+3, "b" : "\u0041" }"#);
}

#[test]
fn topic_and_payload_are_borrowed_from_the_body() {
    let body = br#"{"topic":"x","payload":{}}"#;
    let message = parse(body, Check::Known).unwrap();
    assert!(body.as_ptr_range().contains(&message.topic.as_ptr()));
    assert!(body.as_ptr_range().contains(&message.payload.as_ptr()));
}

#[test]
fn messages_are_equal_if_their_payloads_are_the_same_bytes() {
    let message = |payload: &str| format!(r#"{{"topic":"x","payload":{payload}}}"#);
    let [one, again, other] = ["{}", "{}", "{ }"].map(message);
    let [one, again, other] = [&one, &again, &other].map(|body| parse(body.as_bytes(), Check::Known));
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[test]
fn other_fields_are_ignored_also_twice() {
    accept(r#"{"id":1,"topic":"x","id":[{}],"payload":{},"":null,"Topic":1,"x":1e999}"#);
}

#[test]
fn numbers_of_any_size_pass_untouched() {
    for number in ["1e999", "-1E-999", &"9".repeat(400), "-0", "0.1e+7", "1E5"] {
        let body = format!(r#"{{"n":{number},"topic":"x","payload":{{"n":{number}}}}}"#);
        let message = parse(body.as_bytes(), Check::Known).unwrap();
        assert_eq!(message.payload, format!(r#"{{"n":{number}}}"#).as_bytes());
    }
}

#[test]
fn document_that_is_no_object() {
    for other in ["[]", "1", "1e999", "null", "\"topic\"", " [{}] ", r#"["topic","x"]"#] {
        refuse(other, "", "the body must be an object");
    }
}

#[test]
fn topic_missing() {
    refuse("{}", "/topic", "`topic` is missing");
    refuse(r#"{"payload":{}}"#, "/topic", "`topic` is missing");
    refuse(r#"{"payload":{"topic":"x"}}"#, "/topic", "`topic` is missing");
}

#[test]
fn topic_given_twice() {
    for other in [r#""topic":"x""#, r#""to\u0070ic":"x""#, r#""topic":1"#] {
        let body = format!(r#"{{"topic":"x","payload":{{}},{other}}}"#);
        refuse(&body, "/topic", "`topic` is given more than once");
    }
}

#[test]
fn topic_of_another_type() {
    for other in ["1", "null", "true", "[]", r#"{"topic":"x"}"#] {
        let body = format!(r#"{{"topic":{other},"payload":{{}}}}"#);
        refuse(&body, "/topic", "`topic` must be a string");
    }
}

#[test]
fn topic_empty() {
    refuse(r#"{"topic":"","payload":{}}"#, "/topic", "`topic` must not be empty");
}

#[test]
fn topic_with_control_characters() {
    let escaped = ["\\u0000", "\\n", "\\u001f", "\\u007F", "\\u0080", "\\u009f"];
    let bare = ["\u{7f}", "\u{80}", "\u{9f}"];
    for control in escaped.into_iter().chain(bare) {
        let body = format!(r#"{{"topic":"x{control}","payload":{{}}}}"#);
        refuse(&body, "/topic", "`topic` must not contain control characters");
    }
    for fine in [" ", "\\u00a0", "\u{a0}", "é", "\\\"", "\u{2028}", "\u{1f600}"] {
        accept(&format!(r#"{{"topic":"x{fine}","payload":{{}}}}"#));
    }
}

#[test]
fn payload_missing() {
    refuse(r#"{"topic":"x"}"#, "/payload", "`payload` is missing");
}

#[test]
fn payload_given_twice() {
    for other in [r#""payload":{}"#, r#""p\u0061yload":1"#] {
        let body = format!(r#"{{"topic":"x","payload":{{}},{other}}}"#);
        refuse(&body, "/payload", "`payload` is given more than once");
    }
}

#[test]
fn payload_of_another_type() {
    for other in ["1", "null", "true", "[{}]", r#""{}""#] {
        let body = format!(r#"{{"topic":"x","payload":{other}}}"#);
        refuse(&body, "/payload", "`payload` must be an object");
    }
}
