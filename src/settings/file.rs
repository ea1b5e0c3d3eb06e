//! Finds the settings file and reads it.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::access::{Access, DisabledReason};
use super::python::{MAX_FILE_BYTES, access};
use crate::sys::advice::{Refused, advised};
use crate::sys::secret_file;

/// How long a file was seen to be empty when that counts. Editors empty a file, then write it.
pub(crate) const EMPTY_FOR: Duration = Duration::from_millis(250);

pub(crate) struct SettingsReading {
    /// The meaning of the file, or the reason, which names the file, why it cannot be read or parsed.
    pub(crate) access: Result<Access, String>,
    /// `None` if there is no file.
    pub(crate) version: Option<FileVersion>,
    /// Whether there is a file, and it has no bytes.
    pub(crate) is_empty: bool,
}

/// Tells a file from the one that was at the same path before: its device and number, its size, its mode, and when it
/// was changed last (ctime in stat(2)), also by its permissions or its name.
pub(crate) type FileVersion = (u64, u64, u64, u32, (i64, i64));

fn version(it: &Metadata) -> FileVersion {
    (it.dev(), it.ino(), it.size(), it.mode(), (it.ctime(), it.ctime_nsec()))
}

/// An `OPEN_REST_API` that is not assigned means `open_by_default`. It is set for a client: on another machine, the file
/// may be a copy that has the token alone.
pub(crate) fn read(path: &Path, open_by_default: bool) -> SettingsReading {
    let before = fs::metadata(path).ok().as_ref().map(version);
    // A file of one byte more than it may have is refused by `access`.
    match secret_file::read(path, MAX_FILE_BYTES) {
        Ok((metadata, source)) => SettingsReading {
            access: access(&source, open_by_default).map_err(|fault| format!("{}:{fault}", path.display())),
            version: Some(version(&metadata)),
            is_empty: source.is_empty(),
        },
        Err(error) => {
            let access = match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(Access::Disabled(DisabledReason::SettingsAbsent)),
                _ => Err(format!("{}: {}", path.display(), advised(error, Refused::Path(path)))),
            };
            SettingsReading { access, version: before, is_empty: false }
        }
    }
}

/// Returns `adapter/user_settings.py` in `$XDG_CONFIG_HOME`, or in `.config` in the home directory.
pub(crate) fn default_path() -> io::Result<PathBuf> {
    let xdg_config_home = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    path_in(xdg_config_home, std::env::home_dir()).ok_or_else(|| {
        io::Error::other("neither XDG_CONFIG_HOME nor HOME names a directory: where is the settings file?")
    })
}

// The XDG Base Directory Specification demands that relative directories are ignored.
pub(super) fn path_in(xdg_config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |dir: &PathBuf| dir.is_absolute();
    let config_home = xdg_config_home.filter(absolute).or_else(|| Some(home.filter(absolute)?.join(".config")));
    Some(config_home?.join("adapter/user_settings.py"))
}
