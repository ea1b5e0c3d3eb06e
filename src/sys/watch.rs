//! A watch on files: it reports that one of them may have been written, replaced, removed or created.
//!
//! Inotify watches inodes, and a file that replaces another by a rename is a different inode. So this watch is set on
//! directories: it resolves each path as the kernel does, and watches each name that the resolution looks up, also
//! behind symbolic links. Where a directory is missing, that is the last name. A file that is there is watched too: it
//! may be written through another name of it, which a hard link or a mount gives it.
//!
//! Of mounts, of other computers, and of mapped memory, inotify tells nothing. So it also tells when it is time to look.
//!
//! Invariant: after [`Watch::renew`], the watched names are those of a resolution that began when all of them were
//! already watched. So each change happens before the caller's next read of the files, or is reported after it.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use rustix::fs::inotify::{self, CreateFlags, Event, Reader, WatchFlags};
use rustix::fs::statfs;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout_at};

use super::log::warning;
use super::timer::KernelTimer;
use super::{or_never, registered};

/// How long no event may arrive before a change counts as complete. Most programs write a file that they truncated
/// within this time.
const QUIET: Duration = Duration::from_millis(50);

/// How long a burst of events may delay its report, as some program may write the file all the time.
const MAX_BURST: Duration = Duration::from_millis(250);

/// The time from a renewal to the next look while the system gives no watches.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The file systems that other computers and programs change without an event: FUSE, NFS, both of SMB, 9p and Ceph, as
/// the `f_type` of statfs(2) has them.
const REMOTE_FILE_SYSTEMS: [u32; 6] = [0x6573_5546, 0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x00C3_6400];

/// The time from a renewal to the next look on such a file system.
const REMOTE_INTERVAL: Duration = Duration::from_secs(5);

/// The most resolutions of a path whose directories change meanwhile.
const MAX_RESOLUTIONS: usize = 8;

/// The kernel's own limit of symbolic links in one path (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Room for some dozens of events.
const EVENTS_BYTES: usize = 4 * 1024;

/// The events by which a name comes to mean another file, or its directory gets another path. `MASK_ADD` unites the
/// flags of a directory that occurs twice. With events for opening, the process would wake for each file that any
/// program opens in `/home`.
const NAME_EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::MASK_ADD);

/// The events by which the content of a file changes. Only the last name can be the name of a file.
const CONTENT_EVENTS: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE);

/// The events of a file itself. Its names have links of their own.
const FILE_EVENTS: WatchFlags = CONTENT_EVENTS.union(WatchFlags::ATTRIB).union(WatchFlags::DONT_FOLLOW);

/// A watch on some paths. The files need not exist.
#[derive(Debug)]
pub struct Watch {
    paths: Vec<PathBuf>,
    /// What the paths led to at the last renewal.
    places: Vec<Place>,
    /// `None` while the system gives no watches.
    watched: Option<WatchedPlaces>,
    /// When the events that have arrived are reported at the latest, also where the future of [`Watch::changed`] is
    /// dropped again and again.
    burst_end: Option<Instant>,
    look: KernelTimer,
    /// The most time from a renewal to the next look.
    interval: Duration,
}

impl Watch {
    /// On the runtime that this is called in. The first renewal begins to watch. Fails where the system gives no timer.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>, interval: Duration) -> io::Result<Self> {
        // Where the working directory is unknown, no watch can be had.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let paths = paths.into_iter().map(absolute).collect();
        let (look, places) = (KernelTimer::new()?, Vec::new());
        Ok(Self { paths, places, watched: None, burst_end: None, look, interval })
    }

    /// Resolves when a file, or its permissions, may have changed since the last renewal, or when it is time to look. A
    /// burst of changes is reported once, and again until the watch is renewed: who looks during it may see half of a
    /// change. Cancel-safe: the next call reports what a dropped future has seen.
    pub async fn changed(&mut self) {
        let event = || or_never(self.watched.as_ref().map(WatchedPlaces::event));
        if self.burst_end.is_none() {
            tokio::select! {
                () = event() => {}
                () = self.look.expired() => return,
            }
        }
        let end = *self.burst_end.get_or_insert_with(|| Instant::now() + MAX_BURST);
        while Instant::now() < end && timeout_at(end.min(Instant::now() + QUIET), event()).await.is_ok() {}
    }

    /// Watches what the paths lead to now: a directory may have been renamed, removed or replaced. The old watches end
    /// after the new ones are set. Calls `begin` before it looks at a path, which may block.
    pub fn renew(&mut self, begin: impl Fn(&Path)) {
        // At the first renewal, there are no places yet.
        let was_refused = self.watched.is_none() && !self.places.is_empty();
        let mut result = Ok(());
        // What has come may have got the inode of what has gone. Without an event, nothing has gone.
        let mut is_watched = self.burst_end.is_none() && self.watched.is_some();
        // If the names change all the time, that is reported.
        self.burst_end = Some(Instant::now() + MAX_BURST);
        for _ in 0..MAX_RESOLUTIONS {
            let now: Vec<_> = self.paths.iter().inspect(|path| begin(path)).flat_map(|path| places(path)).collect();
            if is_watched && now == self.places {
                self.burst_end = None;
                break;
            }
            let watched = WatchedPlaces::watch(&now);
            result = watched.map(|watched| self.watched = Some(watched));
            (self.places, is_watched) = (now, true);
        }
        if let Err(error) = result {
            (self.watched, self.burst_end) = (None, None);
            if !was_refused && let Some(path) = self.paths.first() {
                let (path, interval_s) = (path.display(), POLL_INTERVAL.as_secs());
                warning(format_args!("{error}; {path} is looked at every {interval_s} s instead"));
            }
        }
        self.look.set(if self.watched.is_none() {
            POLL_INTERVAL
        } else if self.places.iter().any(Place::is_of_remote_file) {
            self.interval.min(REMOTE_INTERVAL)
        } else {
            self.interval
        });
    }
}

fn because(what: impl fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// The places of one resolution, watched until this is dropped.
#[derive(Debug)]
struct WatchedPlaces {
    events: AsyncFd<OwnedFd>,
    /// For each name, the watch on the directory that holds it.
    names: Vec<(i32, OsString)>,
}

impl WatchedPlaces {
    fn watch(places: &[Place]) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(|errno| because("cannot watch files", &errno.into()))?;
        let mut names = Vec::with_capacity(places.len());
        for Place { path, name, events: wanted, .. } in places {
            // The process may not be allowed to read the file, which its directory tells of too, or a directory far up,
            // such as /home. It is seldom renamed.
            let is_needed = name.is_some() && wanted.contains(CONTENT_EVENTS);
            match inotify::add_watch(&events, path.as_path(), *wanted).map_err(io::Error::from) {
                Ok(watch) => names.extend(name.clone().map(|name| (watch, name))),
                Err(error) if error.kind() == ErrorKind::PermissionDenied && !is_needed => {}
                Err(error) => return Err(because(format_args!("cannot watch {}", path.display()), &error)),
            }
        }
        Ok(Self { events: registered(events, Interest::READABLE)?, names })
    }

    /// Resolves when one of the places had an event. Cancel-safe.
    async fn event(&self) {
        let read = |events: &OwnedFd| if self.drain(events) { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) };
        // An error means that the runtime ends, and with it the task that waits here.
        let _ = self.events.async_io(Interest::READABLE, read).await;
    }

    /// Reads all events. Returns whether any of them concerns a watched name.
    fn drain(&self, events: &OwnedFd) -> bool {
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut reader = Reader::new(events, &mut buffer);
        let mut concerned = false;
        while let Ok(event) = reader.next() {
            concerned |= self.concerns(&event);
        }
        concerned
    }

    /// An event without a name is about a watched file or directory itself, or says that the kernel dropped events.
    fn concerns(&self, event: &Event<'_>) -> bool {
        event.file_name().is_none_or(|name| {
            self.names.iter().any(|(watch, watched)| *watch == event.wd() && watched.as_bytes() == name.to_bytes())
        })
    }
}

/// A directory with the name that is looked up in it, or a file. The path has no symbolic links.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    /// Device and inode, which a mount changes.
    identity: Option<(u64, u64)>,
    name: Option<OsString>,
    events: WatchFlags,
}

/// Resolves an absolute path as the kernel does, and returns the places from the root to the file, or to the first
/// missing name.
fn places(path: &Path) -> Vec<Place> {
    let mut places = Vec::new();
    let file = resolve(path, &mut places);
    // The directory may occur more than once.
    if let Some(Place { path: nearest, .. }) = places.last() {
        let nearest = nearest.clone();
        let of_nearest = places.iter_mut().filter(|place| place.path == nearest);
        of_nearest.for_each(|place| place.events |= CONTENT_EVENTS);
    }
    places.extend(file.map(|path| Place::new(path, None, FILE_EVENTS)));
    places
}

impl Place {
    fn new(path: PathBuf, name: Option<OsString>, events: WatchFlags) -> Self {
        let identity = fs::symlink_metadata(&path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        Self { path, identity, name, events }
    }

    /// Returns whether this is a file, or the directory of one, on a remote file system. The root may be on one (FUSE)
    /// in a container, where nobody else changes what leads to the file.
    fn is_of_remote_file(&self) -> bool {
        let is_remote = || statfs(&self.path).is_ok_and(|it| REMOTE_FILE_SYSTEMS.contains(&(it.f_type as u32)));
        self.events.contains(CONTENT_EVENTS) && is_remote()
    }
}

/// Returns the file, if there is one.
fn resolve(path: &Path, places: &mut Vec<Place>) -> Option<PathBuf> {
    let mut dir = PathBuf::from("/");
    let mut links = 0;
    let mut rest = path.to_path_buf();
    loop {
        let mut components = rest.components();
        let component = components.next()?;
        let mut behind = components.as_path().to_path_buf();
        match component {
            Component::RootDir => dir = PathBuf::from("/"),
            Component::ParentDir => drop(dir.pop()),
            Component::CurDir | Component::Prefix(_) => {}
            Component::Normal(name) => {
                let found = dir.join(name);
                places.push(Place::new(dir.clone(), Some(name.to_owned()), NAME_EVENTS));
                let metadata = fs::symlink_metadata(&found).ok()?;
                if metadata.is_symlink() && links < MAX_LINKS {
                    links += 1;
                    behind = fs::read_link(&found).ok()?.join(behind);
                } else if metadata.is_dir() {
                    dir = found;
                } else {
                    return metadata.is_file().then_some(found);
                }
            }
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_cannot_be_watched_and_keeps_its_kind() {
        let error = because("cannot watch /closed", &ErrorKind::PermissionDenied.into());
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::PermissionDenied, "cannot watch /closed: permission denied")
        );
    }
}
