//! Reads the settings at the start, at each look at their file and at SIGHUP.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::gateway::config::TokenSource;
use crate::gateway::events::SettingsChange;
use crate::http::admission::token_bytes;
use crate::mark::mark;
use crate::settings::{self, Access, EMPTY_FOR, FileVersion, SettingsReading};
use crate::sys::log::{StandingWarnings, warning};
use crate::sys::secret_file::exposures;
use crate::terms::token::Token;

pub(super) struct WatchedSettings {
    /// `None` for a token that was not read from a file.
    pub(super) path: Option<PathBuf>,
    /// How many bytes of a token clients can send.
    token_bytes: usize,
    /// `None` if there was no file.
    version: Option<FileVersion>,
    /// The last settings that could be understood; `None` if there were none so far.
    pub(super) in_force: Option<Access>,
    /// Why the file, when it was read last, changed nothing of this; `None` if it could be understood, or was not read.
    fault: Option<String>,
    /// Since when the file was seen to be empty alone, until that counts.
    empty_since: Option<Instant>,
    warnings: StandingWarnings,
}

impl WatchedSettings {
    /// They are not read yet. `head_bytes` is what a head may have.
    pub(super) fn new(source: TokenSource, head_bytes: usize) -> Self {
        let (path, in_force) = match source {
            TokenSource::Fixed(token) => (None, Some(Access::Open(token))),
            TokenSource::SettingsFile(path) => (Some(path), None),
        };
        let (token_bytes, version, fault, empty_since) = (token_bytes(head_bytes), None, None, None);
        Self { path, token_bytes, version, in_force, fault, empty_since, warnings: StandingWarnings::default() }
    }

    /// Returns the token for which the API is open, or the reason why it is switched off.
    pub(super) fn token(&self) -> Result<&Token, String> {
        match (&self.in_force, &self.path, &self.fault) {
            (Some(Access::Open(token)), ..) => Ok(token),
            (Some(Access::Disabled(reason)), Some(path), _) => Err(reason.describe(path)),
            (_, _, Some(fault)) => Err(fault.clone()),
            _ => Err("the settings were not read yet".into()),
        }
    }

    /// Reads the settings again. Settings that cannot be understood leave the last good ones in force. Returns what has
    /// become of the new ones, if the file is another version than before, or says something else, or if `forced`; never
    /// for the first ones. A file that was emptied may be empty only while it is saved: unless `forced`, it counts when it
    /// was seen to be empty alone for some time.
    pub(super) fn read_again(&mut self, forced: bool, now: Instant) -> Option<SettingsChange> {
        let path = self.path.as_deref()?;
        let SettingsReading { access, version, is_empty } = settings::read(path, false);
        let empty_since = self.empty_since.take().unwrap_or(now);
        if is_empty && !forced && version != self.version && now < empty_since + EMPTY_FOR {
            mark!("an editor empties a file, and then writes it");
            self.empty_since = Some(empty_since);
            return None;
        }
        let is_new_version = std::mem::replace(&mut self.version, version) != version;
        let is_first = self.in_force.is_none() && self.fault.is_none();
        let (change, is_new) = match access {
            Ok(access) => {
                let is_new = self.fault.take().is_some() || self.in_force.as_ref() != Some(&access);
                self.in_force = Some(access);
                self.warn(is_new);
                (if is_new { SettingsChange::Reloaded } else { SettingsChange::Unchanged }, is_new)
            }
            Err(reason) => {
                let is_new = self.fault.replace(reason.clone()).as_ref() != Some(&reason);
                (SettingsChange::Rejected { reason }, is_new)
            }
        };
        debug_assert!(self.fault.is_some() || self.in_force.is_some(), "a file that was read says something");
        let is_reported = is_new || is_new_version || forced;
        if is_reported
            && self.in_force.is_some()
            && let SettingsChange::Rejected { reason } = &change
        {
            warning(format_args!("{reason}; the last good settings stay in force"));
        }
        (is_reported && !is_first).then_some(change)
    }

    /// Returns after which time a file that is empty counts, if it does not yet.
    pub(super) fn counts_in(&self, now: Instant) -> Option<Duration> {
        self.empty_since.map(|since| (since + EMPTY_FOR).saturating_duration_since(now))
    }

    /// Logs what makes the token easy to read, to replace or to guess, and why clients cannot send it, unless that was
    /// logged for the settings in force. `are_new` tells that these are others than before.
    fn warn(&mut self, are_new: bool) {
        let mut warnings = Vec::new();
        if let (Some(path), Some(Access::Open(token))) = (&self.path, &self.in_force) {
            warnings.extend(exposures(path, "the token"));
            let flaws = token.flaws(self.token_bytes);
            warnings.extend(flaws.iter().map(|flaw| format!("{}: {flaw}", path.display())));
        }
        if are_new {
            self.warnings = StandingWarnings::default();
        }
        self.warnings.replace(warnings);
    }
}

#[cfg(test)]
mod tests;
