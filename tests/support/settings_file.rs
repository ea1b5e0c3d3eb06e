//! The user settings file, and the ways in which editors change files.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The beginning of every token of these tests. One search through the output of a process finds any token in it.
pub(crate) const TOKEN_MARK: &str = "s3cr3t-";

/// `user_settings.py` in a directory of its own.
pub(crate) struct SettingsFile {
    directory: TempDir,
    path: PathBuf,
}

pub(crate) fn token(name: &str) -> String {
    format!("{TOKEN_MARK}{name}")
}

pub(crate) fn enabled(token: &str) -> String {
    format!("OPEN_REST_API = True\nTOKEN = \"{token}\"\n")
}

/// Returns the token that `enable` has written into this file.
pub(crate) fn written_token(path: &Path) -> String {
    let settings = std::fs::read_to_string(path).unwrap();
    let (_, token) = settings.split_once("TOKEN = \"").unwrap();
    token.split_once('"').unwrap().0.to_owned()
}

/// Returns the settings of a new installation, in which the gateway is disabled.
pub(crate) fn disabled() -> &'static str {
    "OPEN_REST_API = False\nTOKEN = \"s3cr3t-unused\"\n"
}

/// Writes settings that enable the gateway with the [`token`] of this name.
pub(crate) fn enabled_settings(name: &str) -> SettingsFile {
    let settings = SettingsFile::absent();
    settings.write(&enabled(&token(name)));
    settings
}

impl SettingsFile {
    /// Makes the directory of the file, and no file.
    pub(crate) fn absent() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // The path below a user's configuration directory.
        let home = directory.path().join("adapter");
        std::fs::create_dir(&home).unwrap();
        Self { path: home.join("user_settings.py"), directory }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the value for `XDG_CONFIG_HOME`.
    pub(crate) fn config_home(&self) -> &Path {
        self.directory.path()
    }

    /// Replaces the file by a rename, so that no reader sees a part of it.
    pub(crate) fn write(&self, text: &str) {
        super::pair::replace(&self.path, text);
    }

    /// Truncates the file and writes it, as editors do that keep the inode.
    pub(crate) fn write_in_place(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }

    pub(crate) fn remove(&self) {
        std::fs::remove_file(&self.path).unwrap();
    }
}
