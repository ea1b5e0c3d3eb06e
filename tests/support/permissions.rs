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

/// Returns whether a file can be given to another user, which root can do where its namespace has others; if not, that is
/// said.
pub(crate) fn can_give_away() -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    let can = chown(file.path(), Some(NOBODY), Some(NOBODY - 1)).is_ok();
    if !can {
        super::skip("no file can be given to another user here: this needs root, and other users in its namespace");
    }
    can
}

/// Gives the file to [`NOBODY`], where [`can_give_away`] says that this is possible.
pub(crate) fn give_away(path: &Path) {
    chown(path, Some(NOBODY), None).unwrap();
}
