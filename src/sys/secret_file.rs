//! Files that hold a secret: how they are read, and what other users than root can do with them.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use super::retry::{PAUSE, retry_until};

/// What editors of Windows put before a text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The permissions to add and remove names in a directory, and the bit that limits others to their own files.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// How long an error that may pass is no answer yet: another program gives a lease (fcntl(2)) back within milliseconds.
const PASSING_TIMEOUT: Duration = Duration::from_secs(1);

/// A file as it was read. The metadata are those from before, so that a change during the read is a later version.
pub(crate) type ReadFile = (Metadata, Vec<u8>);

/// Reads a regular file up to one byte more than it may have. Fails with [`io::ErrorKind::InvalidInput`] for a
/// directory, a pipe or the like. Tries again what a lease, a signal, a lack of descriptors or a file server prevents.
pub(crate) fn read(path: &Path, max_bytes: usize) -> io::Result<ReadFile> {
    let passing = [Errno::AGAIN, Errno::INTR, Errno::MFILE, Errno::NFILE, Errno::STALE, Errno::IO];
    let passes = |error: &io::Error| Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno));
    retry_until(PASSING_TIMEOUT, PAUSE, || read_once(path, max_bytes), passes)
}

fn read_once(path: &Path, max_bytes: usize) -> io::Result<ReadFile> {
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
        let (owner, path) = (fs::metadata(path).ok()?.uid(), path.display());
        let is_foreign = owner != 0 && owner != geteuid().as_raw();
        is_foreign
            .then(|| format!("{path}: belongs to another user (number {owner}), who may read or replace {secret}"))
    };
    let open = open_mode(path).map(|mode| {
        let path = path.display();
        format!("{path}: {secret} is open to others than its owner (mode {mode:04o}); `chmod 600` closes it")
    });
    let mut exposures: Vec<_> = open.into_iter().chain(foreign(path)).collect();
    // The file can be replaced in the directory of its name and, if this is a link, in that of its target.
    let names = [std::path::absolute(path), path.canonicalize()];
    let mut directories = Vec::from_iter(names.iter().flatten().filter_map(|name| name.parent()?.canonicalize().ok()));
    directories.dedup();
    for directory in directories {
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
    permission_bits(path).filter(|mode| mode & 0o077 != 0)
}

fn permission_bits(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.mode() & 0o7777)
}
