//! The user settings file, `user_settings.py`: whether the REST entrance is open, and to which token.
//!
//! Two names count, `OPEN_REST_API` and `TOKEN`, each by its last assignment at the module's level. The file is parsed
//! as Python ([`parse`]), never executed, and watched for changes ([`crate::watch`]).
//!
//! Invariant: no type of this module can carry text of the file except the [`Token`], which hides itself. An error
//! names a place and a kind of fault, so it may be printed anywhere.

mod encoding;
mod fault;
mod nesting;
mod python;
#[cfg(test)]
mod python_tests;
mod semantics;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use fault::SettingsFault;
pub use python::{MAX_FILE_BYTES, parse};

use crate::proto::token::Token;

/// What a settings file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// `OPEN_REST_API` is `True`: requests that show this token are served.
    Open(Token),
    /// Nothing is to listen.
    Disabled(DisabledReason),
}

/// Why nothing is to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisabledReason {
    /// There is no settings file.
    SettingsAbsent,
    /// `OPEN_REST_API` is not assigned, or not the literal `True`.
    NotOpen,
    /// `OPEN_REST_API` is `True`, and `TOKEN` is not assigned, `None` or empty.
    TokenMissing,
}

impl fmt::Display for DisabledReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SettingsAbsent => "there is no settings file",
            Self::NotOpen => "OPEN_REST_API is not set to True in the settings file",
            Self::TokenMissing => "TOKEN is not set, or empty, in the settings file",
        })
    }
}

/// Why a settings file says nothing.
#[derive(Debug)]
pub enum SettingsError {
    /// The file is there and cannot be read.
    Unreadable {
        /// The settings file.
        path: PathBuf,
        /// What the system says.
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

/// Reads and parses the settings file. A file that is not there disables.
///
/// # Errors
///
/// [`SettingsError::Unreadable`] where the file exists and cannot be read, [`SettingsError::Invalid`] as of [`parse`].
pub fn read(path: &Path) -> Result<Access, SettingsError> {
    match load(path) {
        Ok(source) => parse(&source).map_err(|fault| SettingsError::Invalid { path: path.into(), fault }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Access::Disabled(DisabledReason::SettingsAbsent)),
        Err(error) => Err(SettingsError::Unreadable { path: path.into(), error }),
    }
}

/// The file's bytes, as many as tell whether it is too large.
fn load(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would block until someone writes to it.
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

/// `adapter/user_settings.py` in the user's configuration directory: `$XDG_CONFIG_HOME`, or `.config` at home.
///
/// # Errors
///
/// [`NoConfigDir`] where the environment tells neither.
pub fn default_path() -> Result<PathBuf, NoConfigDir> {
    let xdg_config_home = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    path_in(xdg_config_home, std::env::home_dir()).ok_or(NoConfigDir)
}

/// Relative directories do not count: the XDG Base Directory Specification has them ignored.
fn path_in(xdg_config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    xdg_config_home
        .filter(|dir| dir.is_absolute())
        .or_else(|| home.filter(|dir| dir.is_absolute()).map(|dir| dir.join(".config")))
        .map(|dir| dir.join("adapter/user_settings.py"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_source(source: &[u8]) -> (PathBuf, Result<Access, SettingsError>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("user_settings.py");
        fs::write(&path, source).unwrap();
        let result = read(&path);
        (path, result)
    }

    #[test]
    fn a_file_is_read() {
        let (_, access) = read_source(b"OPEN_REST_API = True\nTOKEN = 's3cret'\n");
        assert_eq!(access.unwrap(), Access::Open(Token::new("s3cret").unwrap()));
    }

    #[test]
    fn an_absent_file_disables() {
        let dir = tempfile::tempdir().unwrap();
        for absent in ["user_settings.py", "no/such/directory/user_settings.py"] {
            let access = read(&dir.path().join(absent)).unwrap();
            assert_eq!(access, Access::Disabled(DisabledReason::SettingsAbsent));
        }
    }

    #[test]
    fn a_dangling_link_is_an_absent_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("user_settings.py");
        std::os::unix::fs::symlink(dir.path().join("gone.py"), &path).unwrap();
        assert_eq!(read(&path).unwrap(), Access::Disabled(DisabledReason::SettingsAbsent));
    }

    #[test]
    fn a_directory_is_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(dir.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: not a regular file", dir.path().display()));
    }

    #[test]
    fn a_fault_names_file_line_and_column() {
        let (path, result) = read_source(b"OPEN_REST_API = True\n\nTOKEN = secret()\n");
        let expected = format!("{}:3:9: TOKEN is not a literal", path.display());
        assert_eq!(result.unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_huge_file_is_refused_without_reading_it_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("user_settings.py");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(read(&path).unwrap_err().to_string().ends_with(":1:1: the file is larger than 1 MiB"));
    }

    #[test]
    fn the_default_path_follows_the_xdg_specification() {
        let path = |xdg: Option<&str>, home: Option<&str>| path_in(xdg.map(PathBuf::from), home.map(PathBuf::from));
        let at = |dir: &str| Some(PathBuf::from(dir).join("adapter/user_settings.py"));
        assert_eq!(path(Some("/xdg"), Some("/home/u")), at("/xdg"));
        assert_eq!(path(None, Some("/home/u")), at("/home/u/.config"));
        assert_eq!(path(Some("relative"), Some("/home/u")), at("/home/u/.config"));
        assert_eq!(path(Some(""), Some("/home/u")), at("/home/u/.config"));
        assert_eq!(path(None, Some("")), None);
        assert_eq!(path(None, None), None);
    }
}
