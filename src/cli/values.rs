//! What an option takes: how a word becomes a number, a time or a choice.

use std::net::Ipv6Addr;
use std::str::FromStr;
use std::time::Duration;

use crate::message::nearest::nearest;
use crate::message::{Check, Encoding, Vocabulary};
use crate::server::pool::Io;

/// A whole number from 1 to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<const MAX: u64>(u64);

impl<const MAX: u64> Count<MAX> {
    pub(super) const fn new(count: u64) -> Self {
        assert!(1 <= count && count <= MAX);
        Self(count)
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// Returns the number as a size in memory.
    #[must_use]
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MAX: u64> FromStr for Count<MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // `u64::from_str` would accept `+5`.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(count @ 1..) if digits && count <= MAX => Ok(Self(count)),
            _ => Err(format!("not a whole number from 1 to {MAX}")),
        }
    }
}

/// A time in seconds, from a millisecond to a day. Fractions are allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(Duration);

impl Seconds {
    pub(super) const fn new(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns the time.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = text.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
        seconds
            .map(|seconds| Self(Duration::from_secs_f64(seconds)))
            .ok_or("not a number of seconds from 0.001 to 86400")
    }
}

/// A time in seconds as in [`Seconds`], or 0 for never.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecondsOrNever(Option<Duration>);

impl SecondsOrNever {
    pub(super) const fn new(time: Duration) -> Self {
        Self(Some(time))
    }

    /// Returns the time; `None` for never.
    #[must_use]
    pub fn get(self) -> Option<Duration> {
        self.0
    }
}

impl FromStr for SecondsOrNever {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.parse() == Ok(0.0) {
            return Ok(Self(None));
        }
        let seconds = Seconds::from_str(text).map_err(|_| "neither 0 nor a number of seconds from 0.001 to 86400")?;
        Ok(Self(Some(seconds.get())))
    }
}

/// A value of `--allow-origin`, in the form in which browsers send it (RFC 6454 §6.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigin(String);

impl AllowedOrigin {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AllowedOrigin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_origin = text == "*" || text == "null" || is_origin(text);
        is_origin.then(|| Self(text.into())).ok_or(
            "not an origin as browsers send it: scheme://host or scheme://host:port in lower case, with nothing behind \
             it and without the usual port of the scheme; `null` is for pages from files, and * for every origin",
        )
    }
}

/// Returns whether this is a scheme, a host and, unless it is the usual one, a port.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.'));
    let has_port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let (host, is_port) = match has_port {
        Some((host, port)) => (host, is_unusual_port(scheme, port)),
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

/// Returns whether this is a port that browsers write: they leave out the usual one of the scheme.
fn is_unusual_port(scheme: &str, port: &str) -> bool {
    let is_usual = matches!((scheme, port), ("http", "80") | ("https", "443"));
    !is_usual && port.parse::<u16>().is_ok_and(|number| number.to_string() == port)
}

/// When `listen` prints in colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal, unless the environment forbids it.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Returns the value of the choice with this name.
fn choose<T: Copy>(name: &str, choices: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = choices.iter().find(|(known, _)| *known == name) {
        return Ok(*value);
    }
    let names = choices.iter().map(|(known, _)| *known);
    let meant = nearest(name, names.clone()).unwrap_or_default();
    Err(format!("it is none of {} (did you mean {meant}?)", names.collect::<Vec<_>>().join(", ")))
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("known", Self::Known), ("strict", Self::Strict), ("envelope", Self::Envelope)])
    }
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("json", Self::Json), ("msgpack", Self::Msgpack)])
    }
}

impl FromStr for Vocabulary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("as-sent", Self::AsSent), ("older", Self::Older), ("newer", Self::Newer)])
    }
}

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("auto", Self::Auto), ("uring", Self::Uring), ("epoll", Self::Epoll)])
    }
}

impl FromStr for Colour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        choose(text, &[("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)])
    }
}
