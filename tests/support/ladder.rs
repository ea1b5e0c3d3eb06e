//! The order of the contract's table of statuses: a request with several faults is answered for the first of them.

/// The faults that a request can have together, in the order in which they are checked, with the status and the last
/// part of the problem's type that answer them.
pub(crate) const LADDER: [(Fault, u16, Option<&str>); 16] = [
    (Fault::FieldLine, 400, Some("malformed-request")),
    (Fault::FieldLines, 431, Some("head-too-large")),
    (Fault::LongTarget, 414, Some("target-too-long")),
    (Fault::Version, 505, Some("http-version")),
    (Fault::TransferCoding, 501, Some("transfer-coding")),
    (Fault::Path, 404, Some("not-found")),
    (Fault::Method, 405, Some("method-not-allowed")),
    (Fault::Token, 401, Some("token")),
    (Fault::ContentType, 415, Some("media-type")),
    (Fault::ContentEncoding, 415, Some("content-encoding")),
    (Fault::Expectation, 417, Some("expectation")),
    (Fault::LargeBody, 413, Some("body-too-large")),
    (Fault::NoHub, 503, Some("bus-not-connected")),
    (Fault::NotJson, 400, Some("not-json")),
    (Fault::NoMessage, 422, Some("not-a-message")),
    (Fault::None, 200, None),
];

/// The limit of a body that the requests need.
pub(crate) const MAX_BODY_BYTES: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) enum Fault {
    FieldLine,
    FieldLines,
    LongTarget,
    Version,
    TransferCoding,
    Path,
    Method,
    Token,
    ContentType,
    ContentEncoding,
    Expectation,
    LargeBody,
    /// The gateway has it, and not the request.
    NoHub,
    NotJson,
    NoMessage,
    None,
}

/// Returns a request with this fault and all those after it. `query` is the right one.
pub(crate) fn request_with_faults_from(first: Fault, query: &str) -> Vec<u8> {
    let has = |fault| first <= fault;
    let pick = |fault, wrong: &'static str, right: &'static str| if has(fault) { wrong } else { right };
    let message = pick(Fault::NoMessage, "{\"topic\":1}", "{\"topic\":\"t\",\"payload\":{}}");
    let body_bytes = if has(Fault::LargeBody) { 2 * MAX_BODY_BYTES as usize } else { 0 };
    let body = format!("{:<body_bytes$}", pick(Fault::NotJson, "{\"topic\":1,", message));
    let path = pick(Fault::Path, "/elsewhere", "/api/message");
    let query = if has(Fault::Token) { "token=wrong" } else { query };
    let padding = "&x".repeat(if has(Fault::LongTarget) { 4_100 } else { 0 });
    let lines = [
        format!("{} {path}?{query}{padding} ", pick(Fault::Method, "PUT", "POST")),
        pick(Fault::Version, "HTTP/2.0\r\n", "HTTP/1.1\r\n").into(),
        "Host: localhost\r\n".into(),
        pick(Fault::ContentType, "Content-Type: text/plain\r\n", "Content-Type: application/json\r\n").into(),
        pick(Fault::ContentEncoding, "Content-Encoding: gzip\r\n", "").into(),
        pick(Fault::Expectation, "Expect: x\r\n", "").into(),
        // Both together are malformed.
        if has(Fault::TransferCoding) {
            "Transfer-Encoding: gzip\r\n".into()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        },
        "X: y\r\n".repeat(if has(Fault::FieldLines) { 101 } else { 0 }),
        pick(Fault::FieldLine, "X : y\r\n", "").into(),
        "\r\n".into(),
        body,
    ];
    lines.concat().into_bytes()
}
