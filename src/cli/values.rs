//! What an option takes: how a word becomes a number, a time, an origin or a choice.

use std::ffi::{OsStr, OsString};
use std::net::Ipv6Addr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::{FromStr, Utf8Chunk};
use std::time::Duration;

use argh::FromArgValue;

use crate::sys::host::digits;

/// Returns a whole number from 1 to `MAX`, if its type has it.
pub(super) fn count<const MAX: u64, T: FromStr>(text: &str) -> Result<T, String> {
    let is_in_range = digits(text).is_some_and(|count| (1..=MAX).contains(&count));
    text.parse().ok().filter(|_| is_in_range).ok_or_else(|| format!("not a whole number from 1 to {MAX}"))
}

/// Returns a time in seconds, from a millisecond to a day. Fractions are allowed.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "not a number of seconds from 0.001 to 86400".into())
}

/// Returns a time as [`seconds`] does, or for 0 the longest one.
pub(super) fn seconds_or_never(text: &str) -> Result<Duration, String> {
    if text.parse() == Ok(0.0) {
        return Ok(Duration::MAX);
    }
    seconds(text).map_err(|_| "neither 0 nor a number of seconds from 0.001 to 86400".into())
}

/// Returns the word as the text that argh takes. A zero, which no word holds, stands before each byte that is not UTF-8.
pub(super) fn text_of(word: &OsStr) -> String {
    let chunk_text = |chunk: Utf8Chunk<'_>| {
        let invalid = chunk.invalid().iter().flat_map(|byte| ['\0', char::from(*byte)]);
        chunk.valid().chars().chain(invalid).collect::<String>()
    };
    word.as_bytes().utf8_chunks().map(chunk_text).collect()
}

/// Returns the path that [`text_of`] has made a text. An empty one is what a variable of a shell leaves that is not set.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    let mut parts = text.split('\0');
    let mut path = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let mut rest = part.chars();
        path.extend(rest.next().and_then(|byte| u8::try_from(byte).ok()));
        path.extend_from_slice(rest.as_str().as_bytes());
    }
    if path.is_empty() { Err("an empty path".into()) } else { Ok(OsString::from_vec(path).into()) }
}

/// Returns a value of `--allow-origin`, which has the form in which browsers send it (RFC 6454 §6.2).
pub(super) fn origin(text: &str) -> Result<String, String> {
    if text == "*" || text == "null" || text == "file://" || is_origin(text) {
        return Ok(text.into());
    }
    Err("not an origin as browsers send it: scheme://host or scheme://host:port in lower case, with nothing behind it and \
         without the usual port of the scheme; `null` or file:// is for pages from files, and * for every origin"
        .into())
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.'));
    let has_port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    // Browsers leave out the usual port of the scheme.
    let (host, is_port) = match has_port {
        Some((_, port)) if matches!((scheme, port), ("http", "80") | ("https", "443")) => return false,
        Some((host, port)) => (host, port.parse::<u16>().is_ok_and(|number| number.to_string() == port)),
        None => (authority, true),
    };
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|parsed| parsed.to_string() == address),
        None => {
            let is_allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_');
            !host.is_empty() && host.bytes().all(is_allowed)
        }
    };
    is_scheme && is_port && is_host
}

/// When `listen` prints in colours.
#[derive(Clone, Copy, Debug, FromArgValue, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Colour {
    /// On a terminal, unless the environment forbids it.
    Auto,
    Always,
    Never,
}
