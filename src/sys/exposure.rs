//! What other users can do with a file that holds a secret. Root can do everything, and is not mentioned.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The permissions of everyone but the owner.
const OTHERS: u32 = 0o077;

/// The permissions by which others than its owner can add and remove the names in a directory, and the sticky bit, which
/// limits them to their own files.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// One thing that other users can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Others than its owner have permissions for the file.
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file or its directory belongs to another user, who may read or replace the file.
    Foreign {
        /// The file or the directory.
        path: PathBuf,
        /// The number of the user.
        owner: u32,
    },
    /// Others than its owner may replace the files in the directory.
    Replaceable {
        /// The directory.
        directory: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

impl Exposure {
    /// Says it to a person. `secret` is what the file holds.
    #[must_use]
    pub fn describe(&self, secret: &str) -> String {
        match self {
            Self::Open { path, mode } => format!(
                "{}: {secret} is open to others than its owner (mode {mode:04o}); `chmod 600` closes it",
                path.display()
            ),
            Self::Foreign { path, owner } => format!(
                "{}: belongs to another user (number {owner}), who may read or replace {secret}",
                path.display()
            ),
            Self::Replaceable { directory, mode } => format!(
                "{}: others than its owner may replace {secret} in it (mode {mode:04o}); `chmod go-w` closes it",
                directory.display()
            ),
        }
    }
}

/// Returns what other users can do with a file.
#[must_use]
pub fn exposures(path: &Path) -> Vec<Exposure> {
    let foreign = |path: &Path| foreign_owner(path).map(|owner| Exposure::Foreign { path: path.into(), owner });
    let open = open_mode(path).map(|mode| Exposure::Open { path: path.into(), mode });
    let mut exposures: Vec<_> = open.into_iter().chain(foreign(path)).collect();
    for directory in directories_of(path) {
        exposures.extend(foreign(&directory));
        let mode = permission_bits(&directory).filter(|mode| mode & OTHERS_WRITE != 0 && mode & STICKY == 0);
        exposures.extend(mode.map(|mode| Exposure::Replaceable { directory, mode }));
    }
    exposures
}

/// Returns the permission bits of a file for which others than its owner have permissions.
#[must_use]
pub fn open_mode(path: &Path) -> Option<u32> {
    permission_bits(path).filter(|mode| mode & OTHERS != 0)
}

/// Returns the directories in which a file can be replaced: the one of its name and, if that is a link, the one of the
/// file that it leads to.
fn directories_of(path: &Path) -> Vec<PathBuf> {
    let names = [std::path::absolute(path), path.canonicalize()];
    let mut directories: Vec<_> =
        names.into_iter().filter_map(|name| name.ok()?.parent()?.canonicalize().ok()).collect();
    directories.dedup();
    directories
}

fn permission_bits(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.mode() & 0o7777)
}

/// Returns the user that owns a file or a directory, if it is neither the user of this process nor root.
fn foreign_owner(path: &Path) -> Option<u32> {
    let owner = fs::metadata(path).ok()?.uid();
    (owner != 0 && owner != geteuid().as_raw()).then_some(owner)
}
