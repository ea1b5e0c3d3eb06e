//! Reads and writes the files of certificates and keys.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{error, fmt};

use crate::sys::draft::PRIVATE_MODE;
use crate::sys::secret_file;

/// How large a file of certificates or keys may be. A chain has about 4 KiB, and a store of all public authorities 250 KiB.
pub(super) const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Why a file of a certificate or a key cannot be used.
#[derive(Debug)]
pub struct CertificateError {
    /// The file or its directory.
    pub path: PathBuf,
    /// The fault. It has no text of the file, which may be a key.
    pub reason: String,
    /// Whether a new self-signed file may take its place. A file that cannot be read now may be undamaged, and people may
    /// trust it.
    pub(super) is_replaceable: bool,
}

impl CertificateError {
    /// Returns the error of a file with unusable content.
    pub(super) fn of_content(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into(), is_replaceable: true }
    }

    pub(super) fn unwritable(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| {
            let reason = format!("cannot be written: {error}; `--cert-dir` names another directory");
            Self { path: path.into(), reason, is_replaceable: false }
        }
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl error::Error for CertificateError {}

/// Reads a file, which must not be empty.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let (_, content) = secret_file::read(path, MAX_FILE_BYTES).map_err(|error| CertificateError {
        path: path.into(),
        reason: error.to_string(),
        is_replaceable: error.kind() == ErrorKind::NotFound,
    })?;
    match content.len() {
        0 => Err(CertificateError::of_content(path, "the file is empty")),
        length if length > MAX_FILE_BYTES => Err(CertificateError::of_content(path, "the file is larger than 1 MiB")),
        _ => Ok(content),
    }
}

/// Takes all permissions for a file from everyone but its owner.
pub(super) fn close_to_others(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(PRIVATE_MODE))
}

/// Creates a directory, and those above it, for their owner alone. Existing ones stay as they are.
pub(super) fn create_directory(path: &Path) -> Result<(), CertificateError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(CertificateError::unwritable(path))
}

/// Writes the names in a directory to the disk.
pub(super) fn sync_directory(path: &Path) -> Result<(), CertificateError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(CertificateError::unwritable(path))
}
