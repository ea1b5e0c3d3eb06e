use super::*;

/// Returns the path and the query.
fn parse(method: &str, target: &str) -> Option<(String, String)> {
    let line = format!("{method} {target} HTTP/1.1");
    let (target, _) = RequestLine::parse(line.as_bytes()).ok()?.http1?;
    Some((String::from_utf8(target.path.into()).unwrap(), String::from_utf8(target.query.into()).unwrap()))
}

#[test]
fn the_four_forms() {
    for (method, target, path, query) in [
        ("POST", "/api/message?token=a", "/api/message", "token=a"),
        ("POST", "http://h/api/message?token=a", "/api/message", "token=a"),
        ("POST", "HTTPS://[::1]:1/api/message", "/api/message", ""),
        ("POST", "http://h", "/", ""),
        ("POST", "http://h?q", "/", "q"),
        ("OPTIONS", "*", "*", ""),
        ("CONNECT", "h:1", "", ""),
        ("CONNECT", "[::1]:65535", "", ""),
    ] {
        assert_eq!(parse(method, target), Some((path.into(), query.into())), "{method} {target}");
    }
}

#[test]
fn no_form_at_all() {
    for (method, target) in [
        ("POST", "*"),
        ("POST", ""),
        ("POST", "api/message"),
        ("POST", "h:1"),
        ("CONNECT", "h"),
        ("CONNECT", "1"),
        ("CONNECT", "h:"),
        ("CONNECT", "h:65536"),
        ("CONNECT", "[::1]"),
        ("CONNECT", "/"),
        ("CONNECT", "*"),
        ("CONNECT", "http://h:1/"),
        ("POST", "ftp://h/"),
        ("POST", "http://"),
        ("POST", "http:///x"),
        ("POST", "http://u@h/"),
        ("POST", "http://h:x/"),
        ("POST", "/a#b"),
        ("POST", "/a b"),
        ("POST", "/\u{e9}"),
        ("POST", "/\u{7f}"),
    ] {
        assert_eq!(parse(method, target), None, "{method} {target}");
    }
}

#[test]
fn parameters_are_percent_decoded() {
    for (query, expected) in [
        ("x=1&token=a%20b+c&tok%65n=&token&=token", &["a b+c", "a b c", "", ""][..]),
        ("token=a+b", &["a+b", "a b"]),
        ("token=+%2B+", &["+++", " + "]),
        ("token=%61", &["a"]),
        ("token=a&x=1", &["a"]),
        ("token=%61&token=b", &["a", "b"]),
        ("token=&&", &[""]),
        ("tokens=a", &[]),
    ] {
        let mut values = Vec::new();
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        let take = |value: &[u8], form: Option<&[u8]>| values.extend([Some(text(value)), form.map(text)]);
        Target { path: b"", query: query.as_bytes() }.parameters("token", take);
        assert_eq!(values.into_iter().flatten().collect::<Vec<_>>(), expected, "{query}");
    }
}
