//! The request target (RFC 9112 §3.2), the host, and the query's parameters.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::malformed::Malformed;

/// Bytes of a request target: 8 KiB, what RFC 9112 §3 asks every recipient to support. Longer is 414.
pub const TARGET_BYTES: usize = 8 * 1024;

/// What a request asks for, whatever form it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'b> {
    /// The path as it was sent; `*` for the asterisk-form, empty for the authority-form, neither of which has one.
    pub path: &'b str,
    /// What stands behind the first `?`, still percent-encoded. Holds the token: never to be logged.
    pub query: &'b str,
}

impl<'b> Target<'b> {
    /// Reads one of the four forms.
    ///
    /// # Errors
    /// [`Malformed::Target`].
    pub(super) fn parse(method: &[u8], target: &'b str) -> Result<Self, Malformed> {
        // Browsers leave `|`, `^`, `{` and the like unencoded in a query, though RFC 3986 would have them encoded; no
        // byte of 0x21 to 0x7E can be mistaken for another here but `#`, which begins a fragment (RFC 9110 §7.1).
        // All of them are looked at, which the compiler makes a few at a time.
        if !target.bytes().fold(true, |valid, byte| valid & byte.is_ascii_graphic() & (byte != b'#')) {
            return Err(Malformed::Target);
        }
        if method == b"CONNECT" {
            return Self::authority(target);
        }
        if target.starts_with('/') {
            return Ok(Self::split(target));
        }
        match (method, target) {
            // RFC 9112 §3.2.4: asterisk-form is for OPTIONS alone.
            (b"OPTIONS", "*") => Ok(Self { path: "*", query: "" }),
            _ => Self::absolute(target),
        }
    }

    /// RFC 9112 §3.2.3: authority-form is for CONNECT alone, and CONNECT has no other. A port that is empty or no port
    /// at all is to be refused (RFC 9110 §9.3.6).
    fn authority(target: &str) -> Result<Self, Malformed> {
        let port = target.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if is_authority(target) && port.is_some() { Ok(Self { path: "", query: "" }) } else { Err(Malformed::Target) }
    }

    /// RFC 9112 §3.2.2: absolute-form is accepted in every request; its authority stands in for `Host`.
    fn absolute(target: &'b str) -> Result<Self, Malformed> {
        let (scheme, rest) = target.split_once("://").ok_or(Malformed::Target)?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(Malformed::Target);
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path_and_query) = rest.split_at_checked(end).ok_or(Malformed::Target)?;
        if !is_authority(authority) {
            return Err(Malformed::Target);
        }
        let target = Self::split(path_and_query);
        Ok(Self { path: if target.path.is_empty() { "/" } else { target.path }, ..target })
    }

    fn split(target: &'b str) -> Self {
        let mark = memchr::memchr(b'?', target.as_bytes());
        let (path, query) = mark.and_then(|mark| target.split_at_checked(mark)).unwrap_or((target, ""));
        Self { path, query: query.get(1..).unwrap_or_default() }
    }

    /// The values of the query's parameter `name`, percent-decoded, in order. `+` is no space here: it is a digit of
    /// base64, and tokens are pasted as they are.
    pub fn parameters(&self, name: &str) -> impl Iterator<Item = Cow<'b, [u8]>> {
        self.query.as_bytes().split(|&byte| byte == b'&').filter_map(move |pair| {
            let mut halves = pair.splitn(2, |&byte| byte == b'=');
            let (key, value) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
            percent_decode(key).eq(name.bytes()).then(|| percent_decode(value).into())
        })
    }
}

/// `uri-host [ ":" port ]` (RFC 9110 §7.2). An empty host is refused as RFC 9110 §4.2.1 has it for http and https;
/// userinfo is none of it (RFC 9110 §4.2.4).
pub(super) fn is_authority(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(literal) => match literal.split_once(']') {
            Some((address, rest)) if is_ip_literal(address) => {
                ("ip-literal", rest.strip_prefix(':').or(rest.is_empty().then_some("")))
            }
            _ => return false,
        },
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, Some("")),
        },
    };
    is_reg_name(host) && port.is_some_and(|port| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The inside of `IP-literal` (RFC 3986 §3.2.2): an IPv6 address, or the `v1.…` of an address family to come.
fn is_ip_literal(address: &str) -> bool {
    address.parse::<core::net::Ipv6Addr>().is_ok()
        || address.strip_prefix(['v', 'V']).and_then(|rest| rest.split_once('.')).is_some_and(|(version, rest)| {
            !version.is_empty()
                && !rest.is_empty()
                && version.bytes().all(|byte| byte.is_ascii_hexdigit())
                && rest.bytes().all(|byte| byte == b':' || is_unreserved_or_sub_delim(byte))
        })
}

/// `reg-name` (RFC 3986 §3.2.2), which IPv4 addresses match too; not empty.
fn is_reg_name(host: &str) -> bool {
    let mut bytes = host.bytes();
    while let Some(byte) = bytes.next() {
        let ok = match byte {
            b'%' => {
                bytes.next().is_some_and(|b| b.is_ascii_hexdigit())
                    && bytes.next().is_some_and(|b| b.is_ascii_hexdigit())
            }
            _ => is_unreserved_or_sub_delim(byte),
        };
        if !ok {
            return false;
        }
    }
    !host.is_empty()
}

/// RFC 3986 §2.2 and §2.3.
fn is_unreserved_or_sub_delim(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, target: &'static str) -> Option<(&'static str, &'static str)> {
        Target::parse(method.as_bytes(), target).ok().map(|target| (target.path, target.query))
    }

    #[test]
    fn the_four_forms() {
        assert_eq!(parse("POST", "/api/message?token=a"), Some(("/api/message", "token=a")));
        assert_eq!(parse("POST", "http://h/api/message?token=a"), Some(("/api/message", "token=a")));
        assert_eq!(parse("POST", "HTTPS://[::1]:1/api/message"), Some(("/api/message", "")));
        assert_eq!(parse("POST", "http://h"), Some(("/", "")));
        assert_eq!(parse("POST", "http://h?q"), Some(("/", "q")));
        assert_eq!(parse("OPTIONS", "*"), Some(("*", "")));
        assert_eq!(parse("CONNECT", "h:1"), Some(("", "")));
        assert_eq!(parse("CONNECT", "[::1]:65535"), Some(("", "")));
    }

    #[test]
    fn no_form_at_all() {
        for (method, target) in [
            ("POST", "*"),
            ("POST", ""),
            ("POST", "api/message"),
            ("POST", "h:1"),
            ("CONNECT", "h"),
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
    fn hosts() {
        for host in ["localhost", "localhost:12358", "127.0.0.1:80", "[::1]", "[::1]:12358", "a%41.b", "h:", "[v1.a:b]"]
        {
            assert!(is_authority(host), "{host}");
        }
        for host in [
            "", ":80", "a b", "a/b", "u@h", "[::1", "[::1]x", "[zz]", "[]", "h:8x", "h:123456", "a%4", "a:b:c", "h?",
            "a\\b",
        ] {
            assert!(!is_authority(host), "{host}");
        }
    }

    #[test]
    fn parameters_are_percent_decoded() {
        let target = Target { path: "", query: "x=1&token=a%20b+c&tok%65n=&token&=token" };
        let values: Vec<_> = target.parameters("token").collect();
        assert_eq!(values, [&b"a b+c"[..], b"", b""]);
    }
}
