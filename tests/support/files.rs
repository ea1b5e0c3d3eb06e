//! The user settings file and the ways in which editors change it, paths for tests, and modes and owners of files.

use super::*;

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
    let settings = fs::read_to_string(path).unwrap();
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
        fs::create_dir(&home).unwrap();
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
        replace(&self.path, text);
    }

    /// Truncates the file and writes it, as editors do that keep the inode.
    pub(crate) fn write_in_place(&self, text: &str) {
        fs::write(&self.path, text).unwrap();
    }

    pub(crate) fn remove(&self) {
        fs::remove_file(&self.path).unwrap();
    }
}

/// Returns a path of this name in a directory of its own, which its owner removes.
pub(crate) fn temporary_path(name: &str) -> (TempDir, PathBuf) {
    let (directory, [path]) = temporary_paths([name]);
    (directory, path)
}

pub(crate) fn temporary_paths<const N: usize>(names: [&str; N]) -> (TempDir, [PathBuf; N]) {
    let directory = tempfile::tempdir().unwrap();
    let paths = names.map(|name| directory.path().join(name));
    (directory, paths)
}

/// Returns the path of each entry of a directory.
pub(crate) fn entries(directory: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path())
}

/// The user `nobody`, and its group, on most systems. It owns no file of these tests.
pub(crate) const NOBODY: u32 = 65_534;

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Returns whether a file can be given to another user, as by root of a namespace with others. If not, that is said.
pub(crate) fn can_give_away() -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    let can = chown(file.path(), Some(NOBODY), Some(NOBODY - 1)).is_ok();
    if !can {
        skip("no file can be given to another user here: this needs root, and other users in its namespace");
    }
    can
}

pub(crate) fn give_away(path: &Path) {
    chown(path, Some(NOBODY), None).unwrap();
}
