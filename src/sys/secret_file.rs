//! Files that hold a secret: how they are read, and what other users can do with them. Root can do everything, and is
//! not mentioned.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

use super::retry::retry_passing;

/// What editors of Windows put before a text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

const OTHERS: u32 = 0o077;

/// The permissions to add and remove names in a directory, and the bit that limits others to their own files.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Reads a regular file up to one byte more than it may have. The metadata are those from before the read, so that a
/// change during the read is a later version. Fails with [`io::ErrorKind::InvalidInput`] for a directory, a pipe or the
/// like, and tries again for a second what may pass.
pub(crate) fn read(path: &Path, max_bytes: usize) -> io::Result<(Metadata, Vec<u8>)> {
    retry_passing(|| read_once(path, max_bytes))
}

fn read_once(path: &Path, max_bytes: usize) -> io::Result<(Metadata, Vec<u8>)> {
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

/// Tells in words what other users can do with a file that holds `secret`.
pub(crate) fn exposures(path: &Path, secret: &str) -> Vec<String> {
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

/// Returns the permission bits of a file that is open to others than its owner.
pub(crate) fn open_mode(path: &Path) -> Option<u32> {
    permission_bits(path).filter(|mode| mode & OTHERS != 0)
}

/// Returns the directories in which a file can be replaced: that of its name and, if this is a link, that of its
/// target.
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

/// Returns the owner, if it is neither the user of this process nor root.
fn foreign_owner(path: &Path) -> Option<u32> {
    let owner = fs::metadata(path).ok()?.uid();
    (owner != 0 && owner != geteuid().as_raw()).then_some(owner)
}
