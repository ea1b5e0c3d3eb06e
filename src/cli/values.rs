//! What an option takes: how a word becomes a number, a time or a choice.

use std::net::Ipv6Addr;
use std::num::NonZero;
use std::str::FromStr;
use std::time::Duration;

use crate::message::{Check, Encoding, Vocabulary};
use crate::sys::Io;

/// Returns a number that is written in digits alone. `from_str` would also accept `+5`.
pub(crate) fn digits<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns a whole number from 1 to `MAX`.
pub(super) fn count<const MAX: u64>(text: &str) -> Result<u64, String> {
    digits(text).filter(|count| (1..=MAX).contains(count)).ok_or_else(|| format!("not a whole number from 1 to {MAX}"))
}

/// Returns a [`count`] of what is held in memory.
pub(super) fn size<const MAX: u64>(text: &str) -> Result<usize, String> {
    Ok(usize::try_from(count::<MAX>(text)?).unwrap_or(usize::MAX))
}

/// Returns a number of what is needed once at least.
pub(super) fn some<const MAX: u64>(text: &str) -> Result<NonZero<usize>, String> {
    Ok(NonZero::new(size::<MAX>(text)?).unwrap_or(NonZero::<usize>::MIN))
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Colour {
    /// On a terminal, unless the environment forbids it.
    Auto,
    Always,
    Never,
}

fn choose<T: Copy>(name: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(known, _)| *known).collect();
        format!("it is none of {}", names.join(", "))
    })
}

pub(super) fn check(text: &str) -> Result<Check, String> {
    choose(text, &[("known", Check::Known), ("strict", Check::Strict), ("envelope", Check::Envelope)])
}

pub(super) fn encoding(text: &str) -> Result<Encoding, String> {
    choose(text, &[("json", Encoding::Json), ("msgpack", Encoding::Msgpack)])
}

pub(super) fn vocabulary(text: &str) -> Result<Vocabulary, String> {
    choose(text, &[("as-sent", Vocabulary::AsSent), ("older", Vocabulary::Older), ("newer", Vocabulary::Newer)])
}

pub(super) fn io(text: &str) -> Result<Io, String> {
    choose(text, &[("auto", Io::Auto), ("uring", Io::Uring), ("epoll", Io::Epoll)])
}

pub(super) fn colour(text: &str) -> Result<Colour, String> {
    choose(text, &[("auto", Colour::Auto), ("always", Colour::Always), ("never", Colour::Never)])
}
