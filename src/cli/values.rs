//! What an option takes: how a word becomes a number, a time or a choice.

use std::str::FromStr;
use std::time::Duration;

use crate::proto::message::{Check, Encoding, Vocabulary};
use crate::proto::nearest::nearest;
use crate::server::workers::Io;

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
