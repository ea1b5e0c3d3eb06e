//! Plain http that arrives at the https port: recognised by its first byte, and told so in words that a person reads.

/// The answer, after which the connection is to be closed. No TLS is spoken by then.
pub const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 66\r\n\
    Connection: close\r\n\
    \r\n\
    This port speaks https: use https:// in the address, not http://.\n";

/// Whether the first bytes of a connection are those of an HTTP request: its method begins with a letter (RFC 9110 §9),
/// a TLS record with a content type below 32 (RFC 8446 §5.1).
#[must_use]
pub fn looks_like_http(first: &[u8]) -> bool {
    first.first().is_some_and(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_http() {
        for request in ["GET / HTTP/1.1\r\n", "POST /api/message HTTP/1.1\r\n", "p", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
        {
            assert!(looks_like_http(request.as_bytes()), "{request}");
        }
    }

    #[test]
    fn tls_and_anything_else_is_not() {
        for first in [&[][..], &[0x16, 3, 1], &[0x15, 3, 3], &[0x80, 0x2e], b"\0", b"\r\n", b" GET"] {
            assert!(!looks_like_http(first), "{first:?}");
        }
    }

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.lines().any(|line| line == format!("Content-Length: {}", body.len())), "{}", body.len());
        assert!(head.lines().any(|line| line == "Connection: close"));
        assert!(body.contains("https://"));
    }
}
