//! Finds the settings file and reads it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::fault::SettingsFault;
use super::python::{Access, DisabledReason, MAX_FILE_BYTES, parse};

/// Why a settings file cannot be used.
#[derive(Debug)]
pub enum SettingsError {
    /// The file exists and cannot be read.
    Unreadable {
        /// The settings file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Python would refuse the file, or a setting is not a literal of its type.
    Invalid {
        /// The settings file.
        path: PathBuf,
        /// The place in the file, and what is wrong there.
        fault: SettingsFault,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Invalid { path, fault } => write!(f, "{}:{fault}", path.display()),
        }
    }
}

impl std::error::Error for SettingsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::Invalid { fault, .. } => Some(fault),
        }
    }
}

/// Reads and parses the settings file. A file that does not exist disables the entrance.
///
/// # Errors
///
/// [`SettingsError::Unreadable`] where the file exists and cannot be read, [`SettingsError::Invalid`] where [`parse`]
/// refuses it.
pub fn read(path: &Path) -> Result<Access, SettingsError> {
    match read_bounded(path) {
        Ok(source) => parse(&source).map_err(|fault| SettingsError::Invalid { path: path.into(), fault }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Access::Disabled(DisabledReason::SettingsAbsent)),
        Err(error) => Err(SettingsError::Unreadable { path: path.into(), error }),
    }
}

/// Reads the file up to one byte more than it may have, which is enough for [`parse`] to refuse it.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would block until a program writes to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut source = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut source)?;
    Ok(source)
}

/// There is no directory to look for the settings in: neither `XDG_CONFIG_HOME` nor the home directory is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoConfigDir;

impl fmt::Display for NoConfigDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("neither XDG_CONFIG_HOME nor HOME names a directory: where is the settings file?")
    }
}

impl std::error::Error for NoConfigDir {}

/// Returns `adapter/user_settings.py` in the user's configuration directory, which is `$XDG_CONFIG_HOME` or `.config` in
/// the home directory.
///
/// # Errors
///
/// [`NoConfigDir`] where the environment names neither.
pub fn default_path() -> Result<PathBuf, NoConfigDir> {
    let xdg_config_home = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    path_in(xdg_config_home, std::env::home_dir()).ok_or(NoConfigDir)
}

/// Ignores relative directories, as the XDG Base Directory Specification demands.
pub(super) fn path_in(xdg_config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg_config_home
        .filter(|dir| dir.is_absolute())
        .or_else(|| home.filter(|dir| dir.is_absolute()).map(|dir| dir.join(".config")))
        .map(|dir| dir.join("adapter/user_settings.py"))
}
