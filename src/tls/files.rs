//! Files of certificates and keys: read within bounds, and written so that nobody ever sees half of one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::certificate::MAX_FILE_BYTES;
use super::fault::{CertificateError, CertificateFault};

/// Everyone but the owner.
const OTHERS: u32 = 0o077;

/// The content of a file, not empty.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let content = read_bounded(path).map_err(|fault| CertificateError { path: path.into(), fault })?;
    let fault = match content.len() {
        0 => CertificateFault::Empty,
        length if length > MAX_FILE_BYTES => CertificateFault::TooLarge,
        _ => return Ok(content),
    };
    Err(CertificateError { path: path.into(), fault })
}

/// As many bytes as tell whether the file is too large.
fn read_bounded(path: &Path) -> Result<Vec<u8>, CertificateFault> {
    let bytes = || {
        // Opening a FIFO would block until someone writes to it.
        if !fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let mut content = Vec::new();
        File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut content)?;
        Ok(Some(content))
    };
    bytes().map_err(CertificateFault::Unreadable)?.ok_or(CertificateFault::NotAFile)
}

/// The permission bits of a file that others than its owner may do anything with.
pub(super) fn exposed(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Closes a file to everyone but its owner.
pub(super) fn close_to_others(path: &Path) -> Result<(), CertificateError> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(unwritable(path))
}

/// Makes a directory, and those above it, for its owner alone. One that is there stays as it is.
pub(super) fn create_directory(path: &Path) -> Result<(), CertificateError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unwritable(path))
}

/// Keeps other gateways from the directory until the value is dropped. A file system without locks gives none.
pub(super) fn lock(directory: &Path) -> Option<File> {
    let opened = File::open(directory).ok()?;
    opened.lock().ok()?;
    Some(opened)
}

/// Puts a file in its place whole, on the disk too, with `mode` from its first byte on.
pub(super) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), CertificateError> {
    let temporary = temporary_beside(path);
    let written = write_new(&temporary, content, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What is left of it is of no use, and may not even exist.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(unwritable(path))
}

/// Puts the names in a directory on the disk.
pub(super) fn sync_directory(path: &Path) -> Result<(), CertificateError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(unwritable(path))
}

/// A name that no other process uses at the same time, whether the directory could be locked or not.
fn temporary_beside(path: &Path) -> PathBuf {
    path.with_added_extension(format!("{}.new", std::process::id()))
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    // One that a crash left behind, of a process with this number.
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
