//! Files that hold a secret: how they are read, and what other users can do with them. Root can do everything, and is not
//! mentioned.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// The permissions of everyone but the owner.
const OTHERS: u32 = 0o077;

/// The permissions by which others than its owner can add and remove the names in a directory, and the sticky bit, which
/// limits them to their own files.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Reads a regular file up to one byte more than it may have. Returns also what the system told of it before the read, so
/// that a change during the read is a later version.
///
/// # Errors
/// The errors of the system; [`io::ErrorKind::InvalidInput`] for a directory, a pipe or the like.
pub(crate) fn read(path: &Path, max_bytes: usize) -> io::Result<(Metadata, Vec<u8>)> {
    let regular = |metadata: Metadata| match metadata.is_file() {
        true => Ok(metadata),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    };
    // To open a device can have effects.
    regular(fs::metadata(path)?)?;
    // If a FIFO has taken the place of the file, opening it would block until a program writes to it.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let metadata = regular(file.metadata()?)?;
    let mut content = Vec::new();
    file.take(max_bytes as u64 + 1).read_to_end(&mut content)?;
    Ok((metadata, content))
}

/// Returns what other users can do with a file, in words. `secret` is what the file holds.
#[must_use]
pub fn exposures(path: &Path, secret: &str) -> Vec<String> {
    let foreign = |path: &Path| {
        let (owner, path) = (foreign_owner(path)?, path.display());
        Some(format!("{path}: belongs to another user (number {owner}), who may read or replace {secret}"))
    };
    let open = open_mode(path).map(|mode| {
        let path = path.display();
        format!("{path}: {secret} is open to others than its owner (mode {mode:04o}); `chmod 600` closes it")
    });
    let mut exposures: Vec<_> = open.into_iter().chain(foreign(path)).collect();
    for directory in directories_of(path) {
        exposures.extend(foreign(&directory));
        let mode = permission_bits(&directory).filter(|mode| mode & OTHERS_WRITE != 0 && mode & STICKY == 0);
        exposures.extend(mode.map(|mode| {
            let directory = directory.display();
            format!("{directory}: others than its owner may replace {secret} in it (mode {mode:04o}); `chmod go-w` closes it")
        }));
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
