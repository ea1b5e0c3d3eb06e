//! Reads and writes the files of certificates and keys. A reader never sees a file that is written in part.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::fault::{CertificateError, CertificateFault};

/// How large a file of certificates or keys may be. A chain has about 4 KiB, and a store of all public authorities 250 KiB.
pub(super) const MAX_FILE_BYTES: usize = 1024 * 1024;

/// The permissions of everyone but the owner.
const OTHERS: u32 = 0o077;

/// Reads a file, which must not be empty.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let content = read_bounded(path).map_err(|fault| CertificateError { path: path.into(), fault })?;
    let fault = match content.len() {
        0 => CertificateFault::Empty,
        length if length > MAX_FILE_BYTES => CertificateFault::TooLarge,
        _ => return Ok(content),
    };
    Err(CertificateError { path: path.into(), fault })
}

/// Reads a file up to one byte more than it may have.
fn read_bounded(path: &Path) -> Result<Vec<u8>, CertificateFault> {
    let bytes = || {
        // Opening a FIFO would block until a program writes to it.
        if !fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let mut content = Vec::new();
        File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut content)?;
        Ok(Some(content))
    };
    bytes().map_err(CertificateFault::Unreadable)?.ok_or(CertificateFault::NotAFile)
}

/// Returns the permission bits of a file that others than its owner may read, write or execute.
pub(super) fn exposed(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Takes all permissions for a file from everyone but its owner.
pub(super) fn close_to_others(path: &Path) -> Result<(), CertificateError> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(unwritable(path))
}

/// Creates a directory, and those above it, for their owner alone. Existing ones stay as they are.
pub(super) fn create_directory(path: &Path) -> Result<(), CertificateError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unwritable(path))
}

/// Locks the directory against other gateways until the value is dropped. Some file systems have no locks.
pub(super) fn lock(directory: &Path) -> Option<File> {
    let opened = File::open(directory).ok()?;
    opened.lock().ok()?;
    Some(opened)
}

/// Replaces a file as a whole, also on the disk. The new file has `mode` before it has content.
pub(super) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), CertificateError> {
    let temporary = temporary_beside(path);
    let written = write_new(&temporary, content, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The rest of the temporary file has no use. It may not exist, so an error means nothing.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(unwritable(path))
}

/// Writes the names in a directory to the disk.
pub(super) fn sync_directory(path: &Path) -> Result<(), CertificateError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(unwritable(path))
}

/// Returns a name that no other process uses at the same time, even if the directory could not be locked.
fn temporary_beside(path: &Path) -> PathBuf {
    path.with_added_extension(format!("{}.new", std::process::id()))
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    // A process with the same number may have left the file behind in a crash.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn unwritable(path: &Path) -> impl Fn(io::Error) -> CertificateError {
    move |error| CertificateError { path: path.into(), fault: CertificateFault::Unwritable(error) }
}
