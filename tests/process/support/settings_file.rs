//! The user settings file, changed the way editors change files.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Every token of these tests begins like this, so that one look at a process's output tells
/// whether any of them leaked.
pub(crate) const TOKEN_MARK: &str = "s3cr3t-";

/// `user_settings.py` in a directory of its own.
pub(crate) struct SettingsFile {
    directory: TempDir,
    path: PathBuf,
}

/// A token that the leak check knows.
pub(crate) fn token(name: &str) -> String {
    format!("{TOKEN_MARK}{name}")
}

/// Settings that open the gateway for `token`.
pub(crate) fn enabled(token: &str) -> String {
    format!("OPEN_REST_API = True\nTOKEN = \"{token}\"\n")
}

/// Settings as they are before anybody touches them: closed.
pub(crate) fn disabled() -> &'static str {
    "OPEN_REST_API = False\nTOKEN = \"s3cr3t-unused\"\n"
}

impl SettingsFile {
    /// Where the file would be; it does not exist until it is written.
    pub(crate) fn absent() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Below the directory as the user's configuration directory has it.
        let home = directory.path().join("adapter");
        std::fs::create_dir(&home).unwrap();
        Self { path: home.join("user_settings.py"), directory }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that plays `XDG_CONFIG_HOME`.
    pub(crate) fn config_home(&self) -> &Path {
        self.directory.path()
    }

    /// Replaces the file by a rename, so that no reader ever sees half of it.
    pub(crate) fn write(&self, text: &str) {
        let draft = self.path.with_extension("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(&draft, &self.path).unwrap();
    }

    /// Truncates and writes, as the editors do that keep the inode.
    pub(crate) fn write_in_place(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }

    pub(crate) fn remove(&self) {
        std::fs::remove_file(&self.path).unwrap();
    }
}
