//! The core without I/O: the bytes of a connection go in; answers, published messages and the end come out.

mod endings;
mod files;
mod interim;
mod limits;
pub(crate) mod random;
mod token;

pub(crate) const MESSAGE: &[u8] = br#"{"topic":"adapter/nodes/data","payload":{"node_id":"n","content":"c"}}"#;
/// The target of the endpoint, with the token.
pub(crate) const TARGET: &str = "/api/message?token=t0ken";
/// A request that has no body and is refused, with a long answer.
pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Returns a request with `lines` in its head, each with its CRLF, and `rest` behind the head.
pub(crate) fn request(method: &str, target: &str, lines: &[u8], rest: &[u8]) -> Vec<u8> {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    [head.as_bytes(), lines, b"\r\n", rest].concat()
}

pub(crate) fn length(bytes: usize) -> Vec<u8> {
    format!("Content-Length: {bytes}\r\n").into_bytes()
}

pub(crate) fn post(body: &[u8]) -> Vec<u8> {
    post_to(TARGET, body)
}

pub(crate) fn post_to(target: &str, body: &[u8]) -> Vec<u8> {
    request("POST", target, &length(body.len()), body)
}

/// Returns a request with a chunked body, which is given as it is on the wire.
pub(crate) fn chunked(wire: &[u8]) -> Vec<u8> {
    request("POST", TARGET, b"Transfer-Encoding: chunked\r\n", wire)
}

pub(crate) fn chunk(content: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", content.len()).as_bytes(), content, b"\r\n"].concat()
}

pub(crate) fn in_chunks(content: &[u8], chunk_bytes: usize) -> Vec<u8> {
    [content.chunks(chunk_bytes).flat_map(chunk).collect(), LAST_CHUNK.to_vec()].concat()
}

pub(crate) fn message_of(bytes: usize) -> Vec<u8> {
    let padding = bytes.checked_sub(MESSAGE.len()).expect("a message is longer than that");
    [&MESSAGE[..MESSAGE.len() - 3], &vec![b'c'; padding], b"\"}}"].concat()
}
