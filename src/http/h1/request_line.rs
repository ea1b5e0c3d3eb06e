//! The request line (RFC 9112 §3): method, target and version.

use super::fault::RequestFault;
use super::target::Target;
use super::{is_tchar, split_once};

/// The methods that the gateway distinguishes. They are case-sensitive (RFC 9110 §9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Delivers a message.
    Post,
    /// Asks what is allowed; a CORS preflight uses it.
    Options,
    /// Not allowed, and answered without content (RFC 9110 §9.3.2).
    Head,
    /// Not allowed. What follows it may be meant for the tunnel that it asks for (RFC 9110 §9.3.6).
    Connect,
    /// Any other method: not allowed, whether it is registered or not.
    Other,
}

impl Method {
    fn parse(method: &[u8]) -> Result<Self, RequestFault> {
        match method {
            b"POST" => Ok(Self::Post),
            b"OPTIONS" => Ok(Self::Options),
            b"HEAD" => Ok(Self::Head),
            b"CONNECT" => Ok(Self::Connect),
            _ if !method.is_empty() && method.iter().copied().all(is_tchar) => Ok(Self::Other),
            _ => Err(RequestFault::RequestLine),
        }
    }
}

/// The minor version of HTTP/1. A minor version above 1 is treated as 1 (RFC 9110 §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// A well-formed request line.
pub(super) struct RequestLine<'b> {
    pub(super) method: Method,
    pub(super) target_bytes: usize,
    /// `None` for a major version other than 1: HTTP/1 does not define its targets and fields (RFC 9110 §2.5). An
    /// example is `PRI * HTTP/2.0`, which begins a connection of HTTP/2 (RFC 9113 §3.4).
    pub(super) http1: Option<(Target<'b>, Version)>,
}

impl<'b> RequestLine<'b> {
    /// Reads the request line at the start of `input`, which ends with CRLF, and returns it with what follows.
    #[inline]
    pub(super) fn read(input: &'b [u8]) -> Result<(Self, &'b [u8]), RequestFault> {
        match Self::usual(input) {
            Some(read) => Ok(read),
            None => Self::any(input),
        }
    }

    /// Reads what nearly all clients send: `POST`, an origin-form and `HTTP/1.1`. The target ends before the first byte
    /// that no target holds, so that the end of the line need not be searched for.
    #[inline(always)] // The line is not copied then.
    fn usual(input: &'b [u8]) -> Option<(Self, &'b [u8])> {
        let input = input.strip_prefix(b"POST ")?;
        let (target, rest) = input.split_at_checked(Target::leading_bytes(input))?;
        let rest = rest.strip_prefix(b" HTTP/1.1\r\n")?;
        let http1 = Some((Target::origin_form(target)?, Version::Http11));
        Some((Self { method: Method::Post, target_bytes: target.len(), http1 }, rest))
    }

    /// Reads any request line.
    fn any(input: &'b [u8]) -> Result<(Self, &'b [u8]), RequestFault> {
        let (line, rest) = split_once(input, b'\n').ok_or(RequestFault::RequestLine)?;
        let line = line.strip_suffix(b"\r").ok_or(RequestFault::ControlByte)?;
        Ok((Self::parse(line)?, rest))
    }

    /// Parses `method SP request-target SP HTTP-version` (RFC 9112 §3), where each space is a single one.
    fn parse(line: &'b [u8]) -> Result<Self, RequestFault> {
        // RFC 9112 §2.3: `HTTP/` in capitals, one digit, a dot, one digit.
        let Some((line, &[b' ', b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', minor @ b'0'..=b'9'])) =
            line.split_last_chunk()
        else {
            return Err(RequestFault::RequestLine);
        };
        let (method, target) = split_once(line, b' ').ok_or(RequestFault::RequestLine)?;
        let method = Method::parse(method)?;
        let parsed = match (method, target) {
            // RFC 9112 §3.2.3: CONNECT uses the authority-form, which no other method does.
            (Method::Connect, _) => Target::authority(target),
            // RFC 9112 §3.2.4: only OPTIONS uses the asterisk-form.
            (Method::Options, b"*") => Ok(Target::ASTERISK),
            _ => Target::parse(target),
        };
        if let Err(fault) = parsed {
            // After another space, or a byte outside of ASCII, it is open where the target ends.
            if target.iter().any(|&byte| byte == b' ' || !byte.is_ascii()) {
                return Err(RequestFault::RequestLine);
            }
            if major == b'1' || target.is_empty() {
                return Err(fault);
            }
        }
        let version = if minor == b'0' { Version::Http10 } else { Version::Http11 };
        let http1 = parsed.ok().filter(|_| major == b'1').map(|target| (target, version));
        Ok(Self { method, target_bytes: target.len(), http1 })
    }
}

#[cfg(test)]
mod tests {
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
}
