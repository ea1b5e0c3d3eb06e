//! Replaces a file as a whole, so that no reader sees a part of it, and no change of another program is lost.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, OFlags, RenameFlags, XattrFlags, fremovexattr, fsetxattr, getxattr, listxattr, renameat_with};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::process::{has_lease, take_lease};
use super::retry::{PAUSE, lock_directory, retry_until};
use super::secret_file::{self, ReadFile};
use crate::mark::mark;

/// The mode of a file that is for its owner alone.
pub(crate) const PRIVATE_MODE: u32 = 0o600;
/// The mode of such a directory.
pub(crate) const PRIVATE_DIRECTORY_MODE: u32 = 0o700;

const GROUP_PERMISSIONS: u32 = 0o070;

/// The extended attribute that is the access list (acl(5)).
const ACCESS_LIST: &str = "system.posix_acl_access";
/// Extended attributes that security modules and the superuser keep for each file, and may forbid to copy (xattr(7)).
const KEPT_BY_OTHERS: [&str; 2] = ["security.", "trusted."];
/// The largest value of an extended attribute, and the longest list of their names, in bytes (xattr(7)).
const MAX_ATTRIBUTE_BYTES: usize = 64 * 1024;

/// How long to wait for other programs to close a file that they have opened to write.
const LEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// The new content of a file, complete and on the disk, under a temporary name beside it. Removed on drop.
pub(crate) struct Draft {
    path: PathBuf,
    temporary: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the draft was published, the name is free, or that of the file that it has replaced.
        let _ = fs::remove_file(&self.temporary);
    }
}

impl Draft {
    /// Writes the draft, with `mode` less the umask.
    pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<Self> {
        let (draft, file) = Self::create(path, content, mode, None)?;
        file.sync_all()?;
        Ok(draft)
    }

    /// Before the file has content, it has `mode` less the umask, or the mode, the owner and the extended attributes of
    /// the file that it replaces. It need not be on the disk yet.
    fn create(path: &Path, content: &[u8], mode: u32, replaced: Option<&Metadata>) -> io::Result<(Self, File)> {
        // No other process uses this name at the same time, even without the lock of the directory.
        let temporary = path.with_added_extension(format!("{}.new", std::process::id()));
        // A process with the same number may have left it behind in a crash.
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        let draft = Self { path: path.into(), temporary };
        if let Some(replaced) = replaced {
            // The directory may give new files an access list.
            let _ = fremovexattr(&file, ACCESS_LIST);
            let kept = fchown(&file, Some(replaced.uid()), Some(replaced.gid()));
            // Who is not in the group of the file cannot keep that, which harms nobody if the group has no permissions.
            let is_needed = replaced.uid() != geteuid().as_raw() || replaced.mode() & GROUP_PERMISSIONS != 0;
            if let Some(error) = kept.err().filter(|_| is_needed) {
                return Err(io::Error::new(error.kind(), format!("the owner of the file cannot be kept: {error}")));
            }
            file.set_permissions(replaced.permissions())?;
            copy_attributes(path, &file)?;
        }
        file.write_all(content)?;
        Ok((draft, file))
    }

    pub(crate) fn publish(self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)
    }

    /// Publishes the draft if the file is still as it was `read`. What another program puts there meanwhile stays.
    fn publish_over(self, read: Option<&ReadFile>) -> io::Result<()> {
        // Whoever opens the file to write waits until this is closed, and the lease tells of it. Some files have none.
        let old = read.and_then(|_| open_unfollowed(OpenOptions::new().read(true), &self.path).ok());
        let is_open = |error: &io::Error| error.kind() == ErrorKind::WouldBlock;
        let leased = old.as_ref().filter(|it| retry_until(LEASE_TIMEOUT, PAUSE, || take_lease(it), is_open).is_ok());
        if !is_as_read(&self.path, read) {
            return Err(changed());
        }
        let flags = if read.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        let rename = || renameat_with(CWD, &self.temporary, CWD, &self.path, flags);
        // Who has got the lock that this process could not have takes the draft for an abandoned one.
        let Ok(mut placed) = fs::metadata(&self.temporary).map(|draft| draft.ino()) else { return Err(changed()) };
        match rename() {
            // It is another file than the one that was read, or there is none any more.
            Err(Errno::EXIST | Errno::NOENT) => return Err(changed()),
            // The file system knows no such flags (rename(2)), as NFS and older ones in user space.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return self.publish(),
            renamed => renamed?,
        }
        if read.is_none() || is_as_read(&self.temporary, read) && leased.is_none_or(has_lease) {
            return Ok(());
        }
        mark!("another program has put its file there between the look and the exchange");
        // What came out goes back, and so does what comes out then, until that is what was put there before it.
        loop {
            let taken = fs::metadata(&self.temporary)?.ino();
            rename()?;
            if fs::metadata(&self.temporary)?.ino() == placed {
                return Err(changed());
            }
            placed = taken;
        }
    }
}

/// Replaces a file that is still as it was `read`; `None` stands for no file. One that has other names, or that is
/// mounted, is written in place. Fails with [`ErrorKind::WouldBlock`] if another program has changed it meanwhile. To
/// be faster than such a program, a retry puts the new file on the disk after the old one is replaced.
pub(crate) fn replace(path: &Path, content: &[u8], read: Option<&ReadFile>, is_retry: bool) -> io::Result<()> {
    let metadata = read.map(|(metadata, _)| metadata);
    if metadata.is_none_or(|metadata| metadata.nlink() == 1) {
        let (draft, file) = Draft::create(path, content, PRIVATE_MODE, metadata)?;
        if !is_retry {
            file.sync_all()?;
        }
        match draft.publish_over(read) {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
            Ok(()) if is_retry => return file.sync_all(),
            published => return published,
        }
    }
    mark!("the file has other names, or is mounted, and would lose that by an exchange");
    let file = open_unfollowed(OpenOptions::new().write(true), path)?;
    let opened = file.metadata()?;
    let Some((_, before)) = read.filter(|(it, _)| is_same_file(&opened, it) && is_as_read(path, read)) else {
        return Err(changed());
    };
    let write = |content: &[u8]| {
        file.write_all_at(content, 0)?;
        file.set_len(content.len() as u64)?;
        file.sync_all()
    };
    // Where the disk is full, the old content still has its place.
    write(content).inspect_err(|_| drop(write(before)))
}

/// Opens a file, where who may write to the directory may put a link or a FIFO meanwhile.
fn open_unfollowed(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()).open(path)
}

/// The error that [`replace`] gives for a file that another program has changed.
pub(crate) fn changed() -> io::Error {
    io::Error::new(ErrorKind::WouldBlock, "another program changes the file again and again")
}

fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn is_as_read(path: &Path, read: Option<&ReadFile>) -> bool {
    let Some((metadata, content)) = read else { return fs::symlink_metadata(path).is_err() };
    let is_same = || fs::metadata(path).is_ok_and(|found| is_same_file(&found, metadata));
    // The look comes last, too, so that another program that replaces the file meanwhile is nearly always noticed.
    is_same() && secret_file::read(path, content.len()).is_ok_and(|(_, found)| found == *content) && is_same()
}

/// Gives a draft the access list and the other extended attributes of the file that it is to replace.
fn copy_attributes(path: &Path, draft: &File) -> io::Result<()> {
    let [mut names, mut value] = [(); 2].map(|()| Vec::with_capacity(MAX_ATTRIBUTE_BYTES));
    match listxattr(path, spare_capacity(&mut names)) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        listed => listed?,
    };
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        value.clear();
        let copied = getxattr(path, name, spare_capacity(&mut value))
            .and_then(|_| fsetxattr(draft, name, &value, XattrFlags::empty()));
        let is_needed = !KEPT_BY_OTHERS.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
        if let Some(error) = copied.err().filter(|_| is_needed) {
            let name = String::from_utf8_lossy(name);
            let reason = format!("the attribute {name} of the file cannot be kept: {error}");
            return Err(io::Error::new(error.kind(), reason));
        }
    }
    Ok(())
}

/// Removes the drafts of a file that killed processes have left behind.
pub(crate) fn remove_abandoned(path: &Path) {
    let (Some(directory), Some(file)) = (path.parent(), path.file_name()) else { return };
    let is_draft = |name: &OsStr| {
        let behind = name.as_encoded_bytes().strip_prefix(file.as_encoded_bytes());
        let process = behind.and_then(|behind| behind.strip_prefix(b".")?.strip_suffix(b".new"));
        let is_killed = |process| !Path::new("/proc").join(OsStr::from_bytes(process)).exists();
        process.is_some_and(|process| process.iter().all(u8::is_ascii_digit) && is_killed(process))
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut drafts = entries.filter(|entry| is_draft(&entry.file_name())).peekable();
    // Who writes a draft holds the lock, unless nobody could have it.
    if drafts.peek().is_some()
        && let Ok(_locked) = lock_directory(directory)
    {
        drafts.for_each(|draft| drop(fs::remove_file(draft.path())));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Barrier;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::mark::must_hit;
    use crate::sys::process::ignore_signals_of_files;

    /// Whoever may write to the directory exchanges the file for a link again and again.
    #[test]
    fn what_is_written_in_place_is_the_file_that_was_read() {
        ignore_signals_of_files();
        let directory = tempfile::tempdir().unwrap();
        let [path, other, link, foreign] = ["path", "other", "link", "foreign"].map(|name| directory.path().join(name));
        fs::write(&path, "0").unwrap();
        fs::hard_link(&path, &other).unwrap();
        fs::write(&foreign, "foreign").unwrap();
        symlink(&foreign, &link).unwrap();
        thread::scope(|threads| {
            let edits = threads.spawn(|| {
                let (begun, mut written) = (Instant::now(), 0);
                for edit in 1.. {
                    let read = secret_file::read(&other, 10).unwrap();
                    written += u32::from(replace(&path, edit.to_string().as_bytes(), Some(&read), true).is_ok());
                    // Where few processors are free, each edit of many may meet the link.
                    if edit >= 5_000 && (written > 0 || begun.elapsed() >= Duration::from_secs(60)) {
                        break;
                    }
                }
            });
            while !edits.is_finished() {
                renameat_with(CWD, &path, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "foreign");
        assert_ne!(fs::read_to_string(&other).unwrap(), "0", "none was written");
    }

    #[test]
    fn nothing_of_a_longer_content_is_left_in_place() {
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = ["path", "other"].map(|name| directory.path().join(name));
        fs::write(&path, "longer").unwrap();
        fs::hard_link(&path, &other).unwrap();
        must_hit("the file has other names, or is mounted, and would lose that by an exchange", || {
            let read = secret_file::read(&path, 10).unwrap();
            replace(&path, b"short", Some(&read), false).unwrap();
        });
        assert_eq!(fs::read_to_string(&other).unwrap(), "short");
    }

    /// Another program puts its file there once, at any moment of the edit.
    #[test]
    fn what_another_program_puts_there_is_not_lost() {
        // A process that another test starts may hold a lease for a moment longer.
        ignore_signals_of_files();
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = ["path", "other"].map(|name| directory.path().join(name));
        let meets_another_program = |round: u64| {
            fs::write(&path, "old").unwrap();
            fs::write(&other, "new").unwrap();
            let read = secret_file::read(&path, 10).unwrap();
            let barrier = Barrier::new(2);
            let replaced = thread::scope(|threads| {
                threads.spawn(|| {
                    barrier.wait();
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_micros(round % 200) {}
                    fs::rename(&other, &path).unwrap();
                });
                barrier.wait();
                replace(&path, b"edited", Some(&read), true)
            });
            let found = fs::read_to_string(&path).unwrap();
            assert_eq!(found, "new", "{replaced:?} in round {round}");
        };
        must_hit("another program has put its file there between the look and the exchange", || {
            (0..1_000).for_each(meets_another_program);
        });
    }
}
