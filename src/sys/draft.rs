//! Replaces a file as a whole, so that no reader sees one that is written in part.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The mode of a file that is for its owner alone.
pub(crate) const PRIVATE_MODE: u32 = 0o600;

const GROUP_PERMISSIONS: u32 = 0o070;

/// The new content of a file, complete and on the disk, under a temporary name beside it. Removed on drop.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    temporary: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the draft was published, the name is free.
        let _ = fs::remove_file(&self.temporary);
    }
}

impl Draft {
    /// Writes the draft. Before its file has content, it has `mode` less the umask, or the mode and the owner of the
    /// file that it replaces.
    pub(crate) fn write(path: &Path, content: &[u8], mode: u32, replaced: Option<&Metadata>) -> io::Result<Self> {
        // No other process uses this name at the same time, even without the lock of the directory.
        let temporary = path.with_added_extension(format!("{}.new", std::process::id()));
        // A process with the same number may have left it behind in a crash.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        let draft = Self { path: path.into(), temporary };
        if let Some(replaced) = replaced {
            let kept = fchown(&file, Some(replaced.uid()), Some(replaced.gid()));
            // Who is not in the group of the file cannot keep that, which harms nobody if the group has no permissions.
            let is_needed = replaced.uid() != geteuid().as_raw() || replaced.mode() & GROUP_PERMISSIONS != 0;
            if let Some(error) = kept.err().filter(|_| is_needed) {
                return Err(io::Error::new(error.kind(), format!("the owner of the file cannot be kept: {error}")));
            }
            file.set_permissions(replaced.permissions())?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        Ok(draft)
    }

    pub(crate) fn publish(self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)
    }
}
