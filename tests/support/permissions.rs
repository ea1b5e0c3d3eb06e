//! The mode and the owner of files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

/// The user `nobody`, and its group, on most systems. It owns no file of these tests.
pub(crate) const NOBODY: u32 = 65_534;

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Gives the file to [`NOBODY`], which only root can.
pub(crate) fn give_away(path: &Path) {
    chown(path, Some(NOBODY), None).unwrap();
}
