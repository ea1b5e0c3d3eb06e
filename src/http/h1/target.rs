//! The request target (RFC 9112 §3.2), the host, and the query's parameters.

use core::net::Ipv6Addr;
use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::fault::RequestFault;
use super::{all_bytes, leading, split_once};

/// Bytes of a request target: 8 KiB, what RFC 9112 §3 asks every recipient to support. A longer one is refused with 414.
pub const TARGET_BYTES: usize = 8 * 1024;

/// Digits of a port, zeros before it included.
const PORT_DIGITS: usize = 5;

/// What a request asks for, in whichever form it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'b> {
    /// The path as it was sent; `*` for the asterisk-form, empty for the authority-form, neither of which has one.
    pub path: &'b [u8],
    /// What stands behind the first `?`, still percent-encoded. It holds the token: never to be logged.
    pub query: &'b [u8],
}

impl<'b> Target<'b> {
    /// The asterisk-form (RFC 9112 §3.2.4).
    pub(super) const ASTERISK: Self = Self { path: b"*", query: b"" };

    /// Reads an origin-form or an absolute-form.
    ///
    /// # Errors
    /// [`RequestFault::Target`].
    pub(super) fn parse(target: &'b [u8]) -> Result<Self, RequestFault> {
        if !all_bytes(target, is_target_byte) {
            return Err(RequestFault::Target);
        }
        Self::origin_form(target).map_or_else(|| Self::absolute(target), Ok)
    }

    /// Returns for how many bytes at the start of `input` a target may reach.
    pub(super) fn leading_bytes(input: &[u8]) -> usize {
        leading(input, is_target_byte)
    }

    /// Reads an origin-form (RFC 9112 §3.2.1), whose bytes are those of a target.
    pub(super) fn origin_form(target: &'b [u8]) -> Option<Self> {
        target.starts_with(b"/").then(|| Self::split(target))
    }

    /// Reads an authority-form (RFC 9112 §3.2.3). The port may not be missing or empty (RFC 9110 §9.3.6).
    #[cold]
    pub(super) fn authority(target: &'b [u8]) -> Result<Self, RequestFault> {
        let colon = memchr::memrchr(b':', target).ok_or(RequestFault::Target)?;
        let port = target.get(colon + 1..).and_then(|port| std::str::from_utf8(port).ok());
        let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
        if has_port && is_authority(target) { Ok(Self { path: b"", query: b"" }) } else { Err(RequestFault::Target) }
    }

    /// Reads an absolute-form, which every request may use; its authority replaces `Host` (RFC 9112 §3.2.2).
    #[cold]
    fn absolute(target: &'b [u8]) -> Result<Self, RequestFault> {
        let (scheme, rest) = split_once(target, b':').ok_or(RequestFault::Target)?;
        if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
            return Err(RequestFault::Target);
        }
        let rest = rest.strip_prefix(b"//").ok_or(RequestFault::Target)?;
        let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        let (authority, path_and_query) = rest.split_at_checked(end).ok_or(RequestFault::Target)?;
        if !is_authority(authority) {
            return Err(RequestFault::Target);
        }
        let target = Self::split(path_and_query);
        // RFC 9110 §4.2.3: an empty path is the same as "/".
        Ok(Self { path: if target.path.is_empty() { b"/" } else { target.path }, ..target })
    }

    fn split(target: &'b [u8]) -> Self {
        // A path is short, so that a plain search costs less than to set up a vectorised one.
        let path_bytes = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let (path, query) = target.split_at(path_bytes);
        Self { path, query: query.strip_prefix(b"?").unwrap_or_default() }
    }

    /// Gives each value of the query's parameter `name`, percent-decoded, to `take`. `+` is not decoded to a space: it
    /// is a digit of base64, and users paste tokens as they are.
    pub fn parameters(&self, name: &str, mut take: impl FnMut(&[u8])) {
        // Most queries are this parameter alone, and hold nothing encoded.
        if let Some(value) = self.query.strip_prefix(name.as_bytes()).and_then(|query| query.strip_prefix(b"="))
            && all_bytes(value, |byte| (byte != b'&') & (byte != b'%'))
        {
            return take(value);
        }
        for pair in self.query.split(|&byte| byte == b'&') {
            let (key, value) = split_once(pair, b'=').unwrap_or((pair, b""));
            if percent_decode(key).eq(name.bytes()) {
                take(&Cow::from(percent_decode(value)));
            }
        }
    }
}

/// Returns whether `byte` may stand in a target.
///
/// Browsers leave `|`, `^`, `{` and the like unencoded in a query, though RFC 3986 would have them encoded. No byte of
/// 0x21 to 0x7E can be mistaken for another here but `#`, which begins a fragment (RFC 9110 §7.1).
fn is_target_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() & (byte != b'#')
}

/// Returns whether `authority` is `uri-host [ ":" port ]` (RFC 9110 §7.2). An empty host is refused, as RFC 9110 §4.2.1
/// demands for http and https; so is userinfo (RFC 9110 §4.2.4).
pub(super) fn is_authority(authority: &[u8]) -> bool {
    let rest = match authority.strip_prefix(b"[") {
        Some(literal) => split_once(literal, b']').filter(|(address, _)| is_ip_literal(address)).map(|(_, rest)| rest),
        None => Some(behind_reg_name(authority)).filter(|rest| rest.len() < authority.len()),
    };
    match rest {
        Some([b':', port @ ..]) => port.len() <= PORT_DIGITS && port.iter().all(u8::is_ascii_digit),
        Some([]) => true,
        _ => false,
    }
}

/// Returns whether `address` is the inside of an `IP-literal` (RFC 3986 §3.2.2): an IPv6 address, or the `v1.…` of a
/// future address family.
#[cold]
fn is_ip_literal(address: &[u8]) -> bool {
    let Some(future) = address.strip_prefix(b"v").or_else(|| address.strip_prefix(b"V")) else {
        return std::str::from_utf8(address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok());
    };
    split_once(future, b'.').is_some_and(|(version, rest)| {
        !version.is_empty()
            && !rest.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && rest.iter().all(|&byte| byte == b':' || is_unreserved_or_sub_delim(byte))
    })
}

/// Returns what follows the `reg-name` (RFC 3986 §3.2.2) at the start of `authority`; IPv4 addresses are one too.
fn behind_reg_name(mut authority: &[u8]) -> &[u8] {
    loop {
        let end = authority.iter().position(|&byte| !is_unreserved_or_sub_delim(byte)).unwrap_or(authority.len());
        match authority.split_at(end).1 {
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => authority = rest,
            rest => return rest,
        }
    }
}

/// Returns whether `byte` is `unreserved` or one of `sub-delims` (RFC 3986 §2.2, §2.3).
fn is_unreserved_or_sub_delim(byte: u8) -> bool {
    #[expect(clippy::indexing_slicing, reason = "an index beyond the table would not compile")]
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut rest: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=";
        while let [byte, others @ ..] = rest {
            table[*byte as usize] = true;
            rest = others;
        }
        table
    };
    TABLE.get(usize::from(byte)) == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for host in ["localhost", "localhost:12358", "127.0.0.1:80", "[::1]", "[::1]:12358", "a%41.b", "h:", "[v1.a:b]"]
        {
            assert!(is_authority(host.as_bytes()), "{host}");
        }
        for host in [
            "", ":80", "a b", "a/b", "u@h", "[::1", "[::1]x", "[zz]", "[]", "h:8x", "h:123456", "a%4", "a:b:c", "h?",
            "a\\b", "a%zz", "a%4z", "a%z4", "[v.a]", "[v1.]", "[v1]", "[vz.a]", "[v1.a/]",
        ] {
            assert!(!is_authority(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn parameters_are_percent_decoded() {
        for (query, expected) in [
            ("x=1&token=a%20b+c&tok%65n=&token&=token", &["a b+c", "", ""][..]),
            ("token=a+b", &["a+b"]),
            ("token=%61", &["a"]),
            ("token=a&x=1", &["a"]),
            ("token=%61&token=b", &["a", "b"]),
            ("token=&&", &[""]),
            ("tokens=a", &[]),
        ] {
            let mut values = Vec::new();
            let take = |value: &[u8]| values.push(String::from_utf8(value.to_vec()).unwrap());
            Target { path: b"", query: query.as_bytes() }.parameters("token", take);
            assert_eq!(values, expected, "{query}");
        }
    }
}
