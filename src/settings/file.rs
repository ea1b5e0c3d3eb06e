//! Finds the settings file and reads it.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::access::{Access, DisabledReason};
use super::python::{MAX_FILE_BYTES, parse};

/// What was found when the settings file was read.
#[derive(Debug)]
pub struct SettingsReading {
    /// What the file says, or the reason why it cannot be read or [`parse`] refuses it, which names the file. A file that
    /// does not exist disables the entrance.
    pub access: Result<Access, String>,
    /// Which version of the file was read; `None` where there is no file.
    pub version: Option<FileVersion>,
    /// Whether there is a file, and it has no bytes.
    pub is_empty: bool,
}

/// Tells a file from the one that was at the same path before. It changes with the content, the permissions and the
/// name of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    size_bytes: u64,
    mode: u32,
    changed: (i64, i64),
}

impl From<&Metadata> for FileVersion {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.size(),
            mode: metadata.mode() & 0o7777,
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Reads and parses the settings file.
#[must_use]
pub fn read(path: &Path) -> SettingsReading {
    let mut version = fs::metadata(path).ok().map(|metadata| FileVersion::from(&metadata));
    let source = read_bounded(path, &mut version);
    let is_empty = source.as_ref().is_ok_and(Vec::is_empty);
    let access = match source {
        Ok(source) => parse(&source).map_err(|fault| format!("{}:{fault}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Access::Disabled(DisabledReason::SettingsAbsent)),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    SettingsReading { access, version, is_empty }
}

/// Reads the file up to one byte more than it may have, which is enough for [`parse`] to refuse it. Sets the version of
/// the opened file before it reads: a change during the read is a later version.
fn read_bounded(path: &Path, version: &mut Option<FileVersion>) -> io::Result<Vec<u8>> {
    let not_a_file = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    // To open a device can have effects.
    if !fs::metadata(path)?.is_file() {
        return Err(not_a_file());
    }
    // If a FIFO has taken the place of the file, opening it would block until a program writes to it.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    *version = Some(FileVersion::from(&metadata));
    if !metadata.is_file() {
        return Err(not_a_file());
    }
    let mut source = Vec::new();
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut source)?;
    Ok(source)
}

/// Returns `adapter/user_settings.py` in the user's configuration directory, which is `$XDG_CONFIG_HOME` or `.config` in
/// the home directory.
///
/// # Errors
///
/// An error where the environment names neither.
pub fn default_path() -> io::Result<PathBuf> {
    let xdg_config_home = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    path_in(xdg_config_home, std::env::home_dir()).ok_or_else(|| {
        io::Error::other("neither XDG_CONFIG_HOME nor HOME names a directory: where is the settings file?")
    })
}

/// Ignores relative directories, as the XDG Base Directory Specification demands.
pub(super) fn path_in(xdg_config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg_config_home
        .filter(|dir| dir.is_absolute())
        .or_else(|| home.filter(|dir| dir.is_absolute()).map(|dir| dir.join(".config")))
        .map(|dir| dir.join("adapter/user_settings.py"))
}
