//! Follows the settings: it reads them at the start, when their file changes and at SIGHUP, and tells what they want.

use std::path::{Path, PathBuf};

use crate::gateway::config::TokenSource;
use crate::gateway::events::SettingsChange;
use crate::log::log;
use crate::proto::token::Token;
use crate::settings::{self, Access, FileVersion, SettingsReading};
use crate::watch::Watch;

/// The settings in force.
#[expect(clippy::large_enum_variant, reason = "the program makes one value, once")]
pub(super) enum WatchedSettings {
    /// The API is open for a token that was not read from a file.
    Fixed(Token),
    /// A file decides.
    File(WatchedFile),
}

/// The settings file, with a watch on it.
pub(super) struct WatchedFile {
    path: PathBuf,
    /// `None` if the system cannot watch the file.
    watch: Option<Watch>,
    /// The version that was read last; `None` if there was no file.
    version: Option<FileVersion>,
    /// The last settings that could be understood; `None` if there were none so far.
    in_force: Option<Access>,
    /// The reason why the settings were rejected when they were read last.
    rejected: Option<String>,
}

impl WatchedSettings {
    /// Reads the settings for the first time.
    pub(super) fn start(source: &TokenSource) -> Self {
        match source {
            TokenSource::Fixed(token) => Self::Fixed(token.clone()),
            TokenSource::SettingsFile(path) => Self::File(WatchedFile::start(path)),
        }
    }

    /// Returns the token for which the API is open, or the reason why it is switched off.
    pub(super) fn token(&self) -> Result<&Token, String> {
        match self {
            Self::Fixed(token) => Ok(token),
            Self::File(file) => file.token(),
        }
    }

    /// Waits until the file may have changed. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        match self {
            Self::File(WatchedFile { watch: Some(watch), .. }) => watch.changed().await,
            _ => std::future::pending().await,
        }
    }

    /// Reads the settings again. Returns what has become of them, if the file is another version than before, or says
    /// something else. If `forced`, good settings count as reloaded, whatever the file said before.
    pub(super) fn read_again(&mut self, forced: bool) -> Option<SettingsChange> {
        match self {
            Self::Fixed(_) => None,
            Self::File(file) => file.read_again(forced),
        }
    }

    /// Logs the lines that switch the API on, if the file lacks one of them. The token in them is a fresh one, which is
    /// in no file and no event, and not in force.
    pub(super) fn log_missing_lines(&self) {
        if let Self::File(WatchedFile { path, in_force: Some(Access::Disabled(_)), .. }) = self
            && let Ok(lines) = settings::proposed_lines()
        {
            log(format_args!("to switch the API on, write these two lines into {}:\n{lines}", path.display()));
        }
    }
}

impl WatchedFile {
    fn start(path: &Path) -> Self {
        // The watch starts before the file is read, so that no later change is missed.
        let watch = Watch::start(path);
        let watch = watch.map_err(|error| log(format_args!("{error}; send SIGHUP to read the settings again"))).ok();
        let mut file = Self { path: path.into(), watch, version: None, in_force: None, rejected: None };
        file.read();
        file
    }

    fn token(&self) -> Result<&Token, String> {
        match &self.in_force {
            Some(Access::Open(token)) => Ok(token),
            Some(Access::Disabled(reason)) => Err(reason.describe(&self.path)),
            None => Err(self.rejected.clone().unwrap_or_default()),
        }
    }

    /// Reads the file. Settings that cannot be understood leave the last good ones in force. Returns what has become of
    /// the new ones, and whether that or the version of the file is new.
    fn read(&mut self) -> (SettingsChange, bool) {
        let SettingsReading { access, version } = settings::read(&self.path);
        let is_new_version = std::mem::replace(&mut self.version, version) != version;
        let was_rejected = self.rejected.take();
        match access {
            Ok(access) => {
                if is_new_version && matches!(access, Access::Open(_)) {
                    self.warn_if_exposed();
                }
                let says_the_same = was_rejected.is_none() && self.in_force.as_ref() == Some(&access);
                self.in_force = Some(access);
                let change = if says_the_same { SettingsChange::Unchanged } else { SettingsChange::Reloaded };
                (change, is_new_version || !says_the_same)
            }
            Err(error) => {
                let reason = error.to_string();
                let is_new = is_new_version || was_rejected.as_ref() != Some(&reason);
                self.rejected = Some(reason.clone());
                (SettingsChange::Rejected { reason }, is_new)
            }
        }
    }

    fn read_again(&mut self, forced: bool) -> Option<SettingsChange> {
        let (change, is_new) = self.read();
        let change = match change {
            SettingsChange::Unchanged if forced => SettingsChange::Reloaded,
            _ if !is_new && !forced => return None,
            change => change,
        };
        if let (SettingsChange::Rejected { reason }, Some(_)) = (&change, &self.in_force) {
            log(format_args!("{reason}; the last good settings stay in force"));
        }
        Some(change)
    }

    fn warn_if_exposed(&self) {
        if let Some(mode) = self.version.and_then(FileVersion::exposed_mode) {
            let path = self.path.display();
            log(format_args!(
                "{path}: others than its owner can read the token (mode {mode:04o}); `chmod 600` closes the file"
            ));
        }
    }
}
