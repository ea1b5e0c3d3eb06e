//! A watch on files: it reports that one of them may have been written, replaced, removed or created.
//!
//! Inotify watches inodes, and a file that replaces another by a rename is a different inode. So this watch resolves
//! each path as the kernel does. It watches each folder and link on the way, which tells when its name means another
//! one, and the file, which may be written through another of its names. The names in a folder are watched only where
//! one is missing: in a busy folder, such as `/tmp`, the process would wake for each file of others.
//!
//! Of mounts, other computers and mapped memory, inotify tells nothing. So the watch also tells when to look.
//!
//! Invariant: after [`Watch::renew`], what is watched is that of a resolution that began when all of it was watched.
//! So each change happens before the caller's next read of the files, or is reported after it.

use std::ffi::{CStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::fs::{Access, access, statfs};

use super::log::warning;

/// How long no event may arrive before a change counts as complete. Most programs write what they truncated by then.
const QUIET: Duration = Duration::from_millis(50);

/// How long a burst of events may delay its report, as some program may write the file all the time.
const MAX_BURST: Duration = Duration::from_millis(250);

/// The file systems that other computers and programs change without an event: FUSE, NFS, both of SMB, 9p and Ceph, as
/// the `f_type` of statfs(2) has them.
const REMOTE_FILE_SYSTEMS: [u32; 6] = [0x6573_5546, 0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x00C3_6400];

/// The most time from a renewal to the next look on such a file system, and while the system gives no watches.
const UNWATCHED_INTERVAL: Duration = Duration::from_secs(5);

/// The most resolutions of a path whose directories change meanwhile.
const MAX_RESOLUTIONS: usize = 8;

/// The kernel's own limit of symbolic links in one path (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// The events by which a path comes to mean another file. `MASK_ADD` unites the flags of a folder that occurs twice.
const MOVE_EVENTS: WatchFlags =
    WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF).union(WatchFlags::DONT_FOLLOW).union(WatchFlags::MASK_ADD);

/// The events of a link. `ATTRIB` tells also that another file has taken its name. A folder has those of what is in it.
const LINK_EVENTS: WatchFlags = MOVE_EVENTS.union(WatchFlags::ATTRIB);

/// The events of a file.
const FILE_EVENTS: WatchFlags = LINK_EVENTS.union(WatchFlags::MODIFY).union(WatchFlags::CLOSE_WRITE);

/// The events by which a missing name comes into a folder, or one that may not be watched changes there.
const NAME_EVENTS: WatchFlags = FILE_EVENTS.union(WatchFlags::CREATE).union(WatchFlags::DELETE).union(WatchFlags::MOVE);

/// A watch on some paths. The files need not exist.
pub struct Watch {
    paths: Vec<PathBuf>,
    /// What the paths led to at the last renewal.
    places: Vec<Place>,
    /// `None` while the system gives no watches.
    watched: Option<WatchedPlaces>,
    /// Whether something has changed since the last renewal, or all the time during it.
    has_changed: bool,
    /// The most time from a renewal to the next look.
    interval: Duration,
}

impl Watch {
    /// The first renewal begins to watch.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>, interval: Duration) -> Self {
        // Where the working directory is unknown, no watch can be had.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let paths = paths.into_iter().map(absolute).collect();
        Self { paths, places: Vec::new(), watched: None, has_changed: false, interval }
    }

    /// Waits until a file, or its permissions, may have changed since the last renewal, until `bell` is readable, or
    /// for `time` at most. A burst of changes is reported once: who looks during it may see half of a change.
    pub fn wait(&mut self, bell: BorrowedFd<'_>, time: Duration) {
        let mut end = Instant::now() + if self.has_changed { time.min(MAX_BURST) } else { time };
        loop {
            let quiet = end.min(Instant::now() + QUIET);
            let events = self.watched.as_ref().map_or(bell, |watched| watched.events.as_fd());
            let [has_rung, has_events] = readable([bell, events], if self.has_changed { quiet } else { end });
            if has_rung || !has_events || Instant::now() >= end {
                return;
            }
            let is_concerned = self.watched.as_ref().is_some_and(WatchedPlaces::drain);
            if is_concerned && !self.has_changed {
                (self.has_changed, end) = (true, end.min(Instant::now() + MAX_BURST));
            } else if !self.has_changed && readable([bell], quiet) == [true] {
                return;
            }
        }
    }

    /// Watches what the paths lead to now: a directory may have been replaced. The old watches end after the new ones
    /// are set. Calls `begin` before it looks at a path, which may block. Returns the time to the next look.
    pub fn renew(&mut self, begin: impl Fn(&Path)) -> Duration {
        // At the first renewal, there are no places yet.
        let was_refused = self.watched.is_none() && !self.places.is_empty();
        let mut result = Ok(());
        // What has come may have got the inode of what has gone. Without an event, nothing has gone.
        let mut is_watched = !self.has_changed && self.watched.is_some();
        // If the names change all the time, that is reported.
        self.has_changed = true;
        for _ in 0..MAX_RESOLUTIONS {
            let now: Vec<_> = self.paths.iter().inspect(|path| begin(path)).flat_map(|path| places(path)).collect();
            if is_watched && now == self.places {
                self.has_changed = false;
                break;
            }
            result = WatchedPlaces::watch(&now).map(|watched| self.watched = Some(watched));
            (self.places, is_watched) = (now, true);
        }
        if let Err(error) = result {
            (self.watched, self.has_changed) = (None, false);
            if !was_refused && let Some(path) = self.paths.first() {
                let (path, interval_s) = (path.display(), UNWATCHED_INTERVAL.as_secs());
                warning(format_args!("{error}; {path} is looked at every {interval_s} s instead"));
            }
        }
        let is_unwatched = self.watched.is_none() || self.places.iter().any(Place::is_of_remote_file);
        if is_unwatched { self.interval.min(UNWATCHED_INTERVAL) } else { self.interval }
    }
}

/// Waits until one of these descriptors is readable, or until a time. Returns which are.
fn readable<const N: usize>(descriptors: [BorrowedFd<'_>; N], until: Instant) -> [bool; N] {
    let mut descriptors = descriptors.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
    let left = until.saturating_duration_since(Instant::now());
    // A signal may end the wait early, as a descriptor that is readable does, and the caller looks at the time.
    let _ = poll(&mut descriptors, Timespec::try_from(left).ok().as_ref());
    descriptors.map(|it| !it.revents().is_empty())
}

/// The places of one resolution, watched until this is dropped.
struct WatchedPlaces {
    events: OwnedFd,
    /// For each name that counts, the watch on the folder that holds it.
    names: Vec<(i32, OsString)>,
}

impl WatchedPlaces {
    /// Fails with what cannot be watched, and why.
    fn watch(places: &[Place]) -> Result<Self, String> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(|error| format!("cannot watch files: {}", io::Error::from(error)))?;
        let mut names = Vec::new();
        for Place { path, name, events: wanted, .. } in places {
            match inotify::add_watch(&events, path.as_path(), *wanted).map_err(io::Error::from) {
                Ok(watch) => names.extend(name.clone().map(|name| (watch, name))),
                // The process may not be allowed to read a folder far up, such as `/home`, which is seldom renamed, or
                // the file, whose folder is watched then.
                Err(error) if error.kind() == ErrorKind::PermissionDenied && name.is_none() => {}
                Err(error) => return Err(format!("cannot watch {}: {error}", path.display())),
            }
        }
        Ok(Self { events, names })
    }

    /// Reads all events. Returns whether any of them concerns what is watched. One without a name is about a file or
    /// folder itself, or says that the kernel dropped events.
    fn drain(&self) -> bool {
        // Some dozens of events have room in it.
        let mut buffer = [MaybeUninit::uninit(); 4 * 1024];
        let mut reader = Reader::new(&self.events, &mut buffer);
        let mut is_concerned = false;
        while let Ok(event) = reader.next() {
            let is_of = |(watch, name): &(i32, OsString)| {
                *watch == event.wd() && Some(name.as_bytes()) == event.file_name().map(CStr::to_bytes)
            };
            is_concerned |= event.file_name().is_none() || self.names.iter().any(is_of);
        }
        is_concerned
    }
}

/// A folder, a link or a file that a path leads through, or a folder with a name that counts in it. The path has no
/// symbolic links before its last name.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    /// Device and inode, which a mount changes.
    identity: Option<(u64, u64)>,
    name: Option<OsString>,
    events: WatchFlags,
}

impl Place {
    fn new(path: PathBuf, name: Option<OsString>, events: WatchFlags) -> Self {
        let identity = fs::symlink_metadata(&path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        Self { path, identity, name, events }
    }

    /// Returns whether this is a file, or the folder of one, on a remote file system. The root may be on one (FUSE)
    /// in a container, where nobody else changes what leads to the file.
    fn is_of_remote_file(&self) -> bool {
        self.events.contains(WatchFlags::MODIFY)
            && statfs(&self.path).is_ok_and(|it| REMOTE_FILE_SYSTEMS.contains(&(it.f_type as u32)))
    }
}

/// Resolves an absolute path as the kernel does. Returns the places from the root to the file, or to what is missing.
fn places(path: &Path) -> Vec<Place> {
    let mut places = Vec::new();
    let mut dir = PathBuf::from("/");
    let mut links = 0;
    let mut rest = path.to_path_buf();
    loop {
        let mut components = rest.components();
        let Some(component) = components.next() else { return places };
        let mut behind = components.as_path().to_path_buf();
        match component {
            Component::RootDir => dir = PathBuf::from("/"),
            Component::ParentDir => drop(dir.pop()),
            Component::CurDir | Component::Prefix(_) => {}
            Component::Normal(name) => {
                let found = dir.join(name);
                match fs::symlink_metadata(&found) {
                    Ok(metadata) if metadata.is_dir() => {
                        places.push(Place::new(found.clone(), None, MOVE_EVENTS));
                        dir = found;
                    }
                    Ok(metadata) if metadata.is_symlink() && links < MAX_LINKS => {
                        links += 1;
                        places.push(Place::new(found.clone(), None, LINK_EVENTS));
                        let Ok(target) = fs::read_link(&found) else { return places };
                        behind = target.join(behind);
                    }
                    found_or_missing => {
                        let may_be_watched = found_or_missing.is_ok() && access(&found, Access::READ_OK).is_ok();
                        places.push(match may_be_watched {
                            true => Place::new(found, None, FILE_EVENTS),
                            false => Place::new(dir, Some(name.to_owned()), NAME_EVENTS),
                        });
                        return places;
                    }
                }
            }
        }
        rest = behind;
    }
}
