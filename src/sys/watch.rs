//! A watch on one file: it reports that the file may have been written, replaced, removed or created.
//!
//! Inotify watches inodes, and a file that replaces another by a rename is a different inode. So this watch is set on
//! directories: it resolves the path as the kernel does, and watches each name that the resolution looks up, also
//! behind symbolic links. Where a directory is missing, that is the last name.
//!
//! Invariant: after [`Watch::start`] and after each [`Watch::changed`], the watched names are those of a resolution
//! that began when all of them were already watched. So each change happens before the caller's next read of the file,
//! or is reported after it.

use std::ffi::OsString;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use rustix::fs::inotify::{self, CreateFlags, Event, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout_at};

use super::log::warning;
use super::registered;

/// How long no event may arrive before a change counts as complete. Most programs write a file that they truncated
/// within this time.
const QUIET: Duration = Duration::from_millis(50);

/// How long a burst of events may delay its report, as some program may write the file all the time.
const MAX_BURST: Duration = Duration::from_millis(250);

/// How often the file is reported as changed while it cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

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

/// A watch on one path. The file need not exist.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    /// `None` while the system gives no watches.
    names: Option<WatchedNames>,
    /// When the events that have arrived are reported.
    burst: Option<Burst>,
}

/// Kept between calls, so that a caller that drops the future of [`Watch::changed`] again and again does not put the
/// report off.
#[derive(Clone, Copy, Debug)]
struct Burst {
    quiet_at: Instant,
    end: Instant,
}

impl Burst {
    fn begin(quiet: Duration, at_most: Duration) -> Self {
        let now = Instant::now();
        Self { quiet_at: now + quiet, end: now + at_most }
    }
}

impl Watch {
    /// Begins to watch, on the runtime that this is called in.
    pub fn start(path: &Path) -> Self {
        // Where the working directory is unknown, no watch can be had.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        let mut watch = Self { path, names: None, burst: None };
        watch.watch_names(true);
        watch
    }

    /// Resolves when the content, the permissions or the existence of the file may have changed since the last call;
    /// every second while the system gives no watches. A burst of changes is reported once. Cancel-safe: the next call
    /// reports what a dropped future has seen.
    pub async fn changed(&mut self) {
        if self.burst.is_none() {
            event(self.names.as_ref()).await;
        }
        let burst = self.burst.get_or_insert_with(|| Burst::begin(QUIET, MAX_BURST));
        while Instant::now() < burst.end {
            let until = burst.quiet_at.min(burst.end);
            if timeout_at(until, event(self.names.as_ref())).await.is_err() {
                break;
            }
            burst.quiet_at = Instant::now() + QUIET;
        }
        // A watched directory may have been renamed, removed or replaced. The old watches end after the new ones are
        // set.
        let was_watched = self.names.is_some();
        self.watch_names(was_watched);
    }

    /// Watches the names that the path has now. If the system gives no watches, the log says so if `is_news`.
    fn watch_names(&mut self, is_news: bool) {
        match watch_names(&self.path) {
            Ok((names, burst)) => (self.names, self.burst) = (Some(names), burst),
            Err(error) => {
                (self.names, self.burst) = (None, Some(Burst::begin(POLL_INTERVAL, POLL_INTERVAL)));
                if is_news {
                    let (path, interval_s) = (self.path.display(), POLL_INTERVAL.as_secs());
                    warning(format_args!("{error}; {path} is looked at every {interval_s} s instead"));
                }
            }
        }
    }
}

/// Resolves when one of the names had an event; never without names. Cancel-safe.
async fn event(names: Option<&WatchedNames>) {
    match names {
        Some(names) => names.event().await,
        None => pending().await,
    }
}

fn because(what: impl fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Watches each name that the resolution of `path` looks up. Returns a burst to report if the names change all the
/// time.
fn watch_names(path: &Path) -> io::Result<(WatchedNames, Option<Burst>)> {
    let mut before = lookups(path);
    for _ in 1..MAX_RESOLUTIONS {
        let names = WatchedNames::watch(&before);
        let after = lookups(path);
        if after == before {
            return Ok((names?, None));
        }
        before = after;
    }
    Ok((WatchedNames::watch(&before)?, Some(Burst::begin(QUIET, MAX_BURST))))
}

/// The names of one resolution, watched until this is dropped.
#[derive(Debug)]
struct WatchedNames {
    events: AsyncFd<OwnedFd>,
    /// For each name, the watch on the directory that holds it.
    names: Vec<(i32, OsString)>,
}

impl WatchedNames {
    fn watch(lookups: &[Lookup]) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(|errno| because("cannot watch files", &errno.into()))?;
        let mut names = Vec::with_capacity(lookups.len());
        let nearest = lookups.last().map(|lookup| &lookup.dir);
        for Lookup { dir, name } in lookups {
            let is_nearest = nearest == Some(dir);
            let flags = if is_nearest { NAME_EVENTS | CONTENT_EVENTS } else { NAME_EVENTS };
            match inotify::add_watch(&events, dir.as_path(), flags).map_err(io::Error::from) {
                Ok(watch) => names.push((watch, name.clone())),
                // The process may not be allowed to read a directory far up, such as /home. It is seldom renamed.
                Err(error) if error.kind() == ErrorKind::PermissionDenied && !is_nearest => {}
                Err(error) => return Err(because(format_args!("cannot watch {}", dir.display()), &error)),
            }
        }
        Ok(Self { events: registered(events, Interest::READABLE)?, names })
    }

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
        let end = loop {
            match reader.next() {
                Ok(event) => concerned |= self.concerns(&event),
                Err(error) => break error,
            }
        };
        debug_assert_eq!(end, Errno::AGAIN, "an inotify descriptor that is not blocking has no other error");
        concerned
    }

    /// An event without a name is about a watched directory itself, or says that the kernel dropped events.
    fn concerns(&self, event: &Event<'_>) -> bool {
        event.file_name().is_none_or(|name| {
            self.names.iter().any(|(watch, watched)| *watch == event.wd() && watched.as_bytes() == name.to_bytes())
        })
    }
}

/// A name, and the directory that it is looked up in, whose path has no symbolic links.
#[derive(Debug, PartialEq, Eq)]
struct Lookup {
    dir: PathBuf,
    name: OsString,
}

/// Resolves an absolute path as the kernel does, and returns the lookups from the root to the first missing name.
fn lookups(path: &Path) -> Vec<Lookup> {
    let mut lookups = Vec::new();
    let mut dir = PathBuf::from("/");
    let mut links = 0;
    let mut rest = path.to_path_buf();
    loop {
        let mut components = rest.components();
        let Some(component) = components.next() else { return lookups };
        let mut behind = components.as_path().to_path_buf();
        match component {
            Component::RootDir => dir = PathBuf::from("/"),
            Component::ParentDir => drop(dir.pop()),
            Component::CurDir | Component::Prefix(_) => {}
            Component::Normal(name) => {
                let found = dir.join(name);
                lookups.push(Lookup { dir: dir.clone(), name: name.to_owned() });
                match fs::symlink_metadata(&found) {
                    Ok(metadata) if metadata.is_symlink() && links < MAX_LINKS => {
                        let Ok(target) = fs::read_link(&found) else { return lookups };
                        links += 1;
                        behind = target.join(behind);
                    }
                    Ok(metadata) if metadata.is_dir() => dir = found,
                    _ => return lookups,
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
