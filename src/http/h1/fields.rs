//! What the field lines of a head mean together.

use core::net::Ipv6Addr;

use httparse::Header;

use super::request::{Expectation, Framing, Request, Version};
use super::{RequestFault, is_tchar, list_members, split_once};

const PORT_DIGITS: usize = 5;

/// What the content is, by its `Content-Type` (RFC 9110 §8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaType<'b> {
    /// There is no `Content-Type`.
    #[default]
    Missing,
    /// `application/json`, in UTF-8 (RFC 8259 §8.1).
    Json,
    /// Another one, as it was sent.
    Other(&'b [u8]),
    /// RFC 9110 §5.3: a singleton field that is given twice has no single meaning.
    Repeated,
}

/// What fields say that is needed no longer once the head is judged. The rest stands in the [`Request`], and the
/// gateway ignores all other fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names and types say it")]
pub struct Fields<'b> {
    pub media_type: MediaType<'b>,
    /// Whether the content has a `Content-Encoding` other than identity (RFC 9110 §8.4).
    pub encoded: bool,
    /// `Origin` as it was sent: the origin of the page that sends the request (Fetch §3.2).
    pub origin: Option<&'b [u8]>,
    /// The token of `Authorization: Bearer` (RFC 6750 §2.1); empty where the scheme is another one, or where there is
    /// more than one `Authorization`. Never to be logged.
    pub bearer: Option<&'b [u8]>,
}

impl<'b> Fields<'b> {
    /// Reads the fields of a request whose request line was read. Returns it with what they say.
    pub(super) fn read(lines: &[Header<'b>], request: Request, is_unix: bool) -> Result<(Request, Self), RequestFault> {
        let mut reading = FieldsReading { request, ..FieldsReading::default() };
        for line in lines {
            reading.line(line.name, line.value)?;
        }
        let is_http11 = request.version == Version::Http11;
        match reading.host {
            None if is_http11 => return Err(RequestFault::HostMissing),
            Some(b"") if is_unix => {}
            // RFC 9112 §3.2: an invalid Host is refused in a request of any version.
            Some(host) if !is_authority(host) => return Err(RequestFault::HostInvalid),
            _ => {}
        }
        let framing = reading.framing(is_http11)?;
        let persistent = !reading.close && (is_http11 || reading.keep_alive);
        let expectation = match reading.request.expectation {
            // RFC 9110 §10.1.1: the expectation is ignored in HTTP/1.0, which has no interim responses.
            Expectation::Continue if !is_http11 => Expectation::None,
            expectation => expectation,
        };
        Ok((Request { framing, persistent, expectation, ..reading.request }, reading.fields))
    }
}

#[derive(Default)]
struct FieldsReading<'b> {
    request: Request,
    fields: Fields<'b>,
    host: Option<&'b [u8]>,
    length: Option<u64>,
    codings: usize,
    /// The place of the first `chunked` among the codings, from 1.
    chunked_at: Option<usize>,
    close: bool,
    keep_alive: bool,
}

impl<'b> FieldsReading<'b> {
    fn line(&mut self, name: &str, value: &'b [u8]) -> Result<(), RequestFault> {
        // Most clients send the usual case, which is cheaper to compare.
        let is = |known: &str| name == known || name.eq_ignore_ascii_case(known);
        // By length first: most lines of no interest cost one comparison.
        match name.len() {
            4 if is("Host") => once(&mut self.host, value, RequestFault::HostRepeated)?,
            6 if is("Expect") => self.expect(value),
            6 if is("Origin") => self.fields.origin = Some(value),
            10 if is("Connection") => self.connection(value),
            12 if is("Content-Type") => {
                self.fields.media_type = match self.fields.media_type {
                    MediaType::Missing if is_json(value) => MediaType::Json,
                    MediaType::Missing => MediaType::Other(value),
                    _ => MediaType::Repeated,
                };
            }
            13 if is("Authorization") => {
                let second = self.fields.bearer.is_some();
                self.fields.bearer = Some(if second { b"" } else { bearer(value) });
            }
            14 if is("Content-Length") => {
                let length = number(value).ok_or(RequestFault::LengthInvalid)?;
                once(&mut self.length, length, RequestFault::LengthRepeated)?;
            }
            16 if is("Content-Encoding") => {
                self.fields.encoded |= !list_members(value).all(|coding| coding.eq_ignore_ascii_case(b"identity"))
            }
            17 if is("Transfer-Encoding") => self.transfer_encoding(value)?,
            38 if is("Access-Control-Request-Private-Network") => self.request.private_network = value == b"true",
            _ => {}
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in list_members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Reads `Expect: #expectation` (RFC 9110 §10.1.1).
    fn expect(&mut self, value: &[u8]) {
        for expectation in list_members(value) {
            let is_known = expectation.eq_ignore_ascii_case(b"100-continue");
            let can_be_met = is_known && self.request.expectation != Expectation::Unknown;
            self.request.expectation = if can_be_met { Expectation::Continue } else { Expectation::Unknown };
        }
    }

    /// Reads `Transfer-Encoding: 1#transfer-coding` (RFC 9112 §6.1, §7). The values of several lines form one list. An
    /// empty member is refused, although RFC 9110 §5.6.1.2 lets it pass: two recipients that differ on it see different
    /// bodies.
    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), RequestFault> {
        for coding in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            let name = split_once(coding, b';').map_or(coding, |(name, _)| name.trim_ascii());
            if name.is_empty() || !name.iter().copied().all(is_tchar) {
                return Err(RequestFault::CodingInvalid);
            }
            self.codings += 1;
            if name.eq_ignore_ascii_case(b"chunked") {
                self.chunked_at.get_or_insert(self.codings);
                // RFC 9112 §7.1: chunked has no parameters.
                if coding.len() != name.len() {
                    return Err(RequestFault::CodingInvalid);
                }
            }
        }
        Ok(())
    }

    fn framing(&self, is_http11: bool) -> Result<Framing, RequestFault> {
        if self.codings == 0 {
            return Ok(Framing::Length(self.length.unwrap_or(0)));
        }
        if self.length.is_some() {
            return Err(RequestFault::LengthAndCoding);
        }
        if !is_http11 {
            return Err(RequestFault::CodingInHttp10);
        }
        match self.chunked_at {
            Some(place) if place != self.codings => Err(RequestFault::CodingInvalid),
            Some(1) => Ok(Framing::Chunked),
            _ => Err(RequestFault::TransferCoding),
        }
    }
}

/// Sets a field that may be given only once (RFC 9110 §5.3).
fn once<T>(field: &mut Option<T>, value: T, repeated: RequestFault) -> Result<(), RequestFault> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(repeated),
    }
}

/// Reads `1*DIGIT` (RFC 9110 §8.6). A number beyond 64 bits is refused, since no body is that long.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    let number = value.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    number.filter(|_| !value.is_empty())
}

/// Returns the token of `Bearer 1*SP token` (RFC 9110 §11.4); nothing for another scheme.
fn bearer(credentials: &[u8]) -> &[u8] {
    let (scheme, mut token) = split_once(credentials, b' ').unwrap_or((credentials, b""));
    while let Some(rest) = token.strip_prefix(b" ") {
        token = rest;
    }
    if scheme.eq_ignore_ascii_case(b"Bearer") { token } else { b"" }
}

/// Returns whether `value` is `application/json` with any parameters but a charset other than UTF-8 (RFC 9110 §8.3.1).
fn is_json(value: &[u8]) -> bool {
    // What nearly all clients send.
    if value == b"application/json" {
        return true;
    }
    let (essence, parameters) = split_once(value, b';').unwrap_or((value, b""));
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json") && is_in_utf8(parameters)
}

/// Returns whether the parameters (RFC 9110 §5.6.6) name no charset but UTF-8. They may name another one where a quoted
/// string does not end.
fn is_in_utf8(parameters: &[u8]) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let ends = |&byte: &u8| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_quoted,
            b'"' => is_quoted = !is_quoted,
            _ => return byte == b';' && !is_quoted,
        }
        false
    };
    let utf8 = parameters.split(ends).map(<[u8]>::trim_ascii).all(|parameter| {
        let (name, value) = split_once(parameter, b'=').unwrap_or((parameter, b""));
        !name.eq_ignore_ascii_case(b"charset") || is_utf8(value)
    });
    utf8 && !is_quoted
}

/// Returns whether a value is `utf-8`, or `utf8` as Spring and ASP.NET spell it, as a token or as a quoted string, in
/// which a `\` stands before any byte (RFC 9110 §5.6.4).
fn is_utf8(value: &[u8]) -> bool {
    let is_name = |name: &[u8]| name.eq_ignore_ascii_case(b"utf-8") || name.eq_ignore_ascii_case(b"utf8");
    let [b'"', quoted @ .., b'"'] = value else { return is_name(value) };
    let mut is_escape = false;
    let content = quoted.iter().copied().filter(|&byte| {
        is_escape = byte == b'\\' && !is_escape;
        !is_escape
    });
    is_name(&content.collect::<Vec<_>>())
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

/// Returns whether `address` is the inside of an `IP-literal` (RFC 3986 §3.2.2): IPv6, or the `v1.…` of the future.
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

/// Returns what follows the `reg-name` (RFC 3986 §3.2.2), which may be an IPv4 address.
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

    /// Fields are told apart by their length first.
    #[test]
    fn a_field_whose_name_is_as_long_as_a_known_one_is_ignored() {
        let host = Header { name: "Host", value: b"localhost" };
        fn read<'b>(lines: &[Header<'b>]) -> Result<(Request, Fields<'b>), RequestFault> {
            Fields::read(lines, Request::default(), false)
        }
        let fields = read(&[host]).unwrap();
        for (known, value) in [
            ("Host", "twice"),
            ("Expect", "unknown"),
            ("Origin", "null"),
            ("Connection", "close"),
            ("Content-Type", "application/json"),
            ("Authorization", "Bearer t0ken"),
            ("Content-Length", "7"),
            ("Content-Encoding", "gzip"),
            ("Transfer-Encoding", "chunked"),
            ("Access-Control-Request-Private-Network", "true"),
        ] {
            let value = value.as_bytes();
            let other = format!("X{}", &known[1..]);
            assert_ne!(read(&[host, Header { name: known, value }]), Ok(fields), "{known}");
            assert_eq!(read(&[host, Header { name: &other, value }]), Ok(fields), "{other}");
        }
    }
}
