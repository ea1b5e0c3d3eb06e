//! A watch on the settings file, whatever replaces it: an editor, a link, a directory made anew.
//!
//! Inotify watches inodes, and a file that is renamed over is another inode; so what is watched are directories. The
//! path is walked as the kernel walks it, and every name that is looked up on the way, through links too, is watched
//! in the directory that holds it. Where a directory is missing the walk ends, at the name whose creation matters next.
//!
//! Invariant: after [`Watch::start`] and after each [`Watch::changed`] the watched directories are those of a walk that
//! began when they were all being watched. A change is thus either before what the caller reads next, or seen.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io};

use notify::event::{AccessKind, AccessMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long nothing may happen before a change counts as complete: a program that truncates a file and writes it does
/// both within this.
const QUIET: Duration = Duration::from_millis(50);

/// How long a change may take to become quiet: a file written to all the time is still read now and then.
const MAX_UNREST: Duration = Duration::from_millis(250);

/// How often the file counts as changed while it cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Links followed in one path, as the kernel has it (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Walks begun anew because directories changed during a walk. Once is rare; the bound is for a directory that
/// something replaces all the time.
const MAX_WALKS: usize = 8;

/// A watch on one path, which need not exist.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    /// Notified by the watcher's thread.
    stirred: Arc<Notify>,
    /// A change that was seen and not yet told.
    unrest: Option<Unrest>,
    /// Owned for its life: it watches until it is dropped.
    watcher: RecommendedWatcher,
}

/// A burst of changes. Kept across calls: a caller that drops the future again and again must not begin it anew.
#[derive(Clone, Copy, Debug)]
struct Unrest {
    quiet_at: Instant,
    end: Instant,
}

impl Unrest {
    fn begin(quiet_for: Duration, at_most: Duration) -> Self {
        let now = Instant::now();
        Self { quiet_at: now + quiet_for, end: now + at_most }
    }
}

/// Why a path cannot be watched.
#[derive(Debug)]
pub enum WatchError {
    /// A relative path, and the working directory is unknown.
    WorkingDirectory(io::Error),
    /// The system gives no more inotify instances or watches, or has no inotify.
    Inotify(notify::Error),
    /// This directory, which holds the file or is to hold it, cannot be watched.
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: notify::Error,
    },
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkingDirectory(error) => write!(f, "the working directory is unknown: {error}"),
            Self::Inotify(error) => write!(f, "cannot watch files: {error}"),
            Self::Directory { path, error } => {
                write!(f, "cannot watch {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for WatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::WorkingDirectory(error) => Some(error),
            Self::Inotify(error) | Self::Directory { error, .. } => Some(error),
        }
    }
}

impl Watch {
    /// Begins to watch `path`. What is read after this, and changes after it was read, is told by [`Watch::changed`].
    ///
    /// # Errors
    ///
    /// [`WatchError`], where the system cannot watch the directory nearest to the file.
    pub fn start(path: &Path) -> Result<Self, WatchError> {
        let path = std::path::absolute(path).map_err(WatchError::WorkingDirectory)?;
        let stirred = Arc::new(Notify::new());
        let watcher = watch_lookups(&path, &stirred)?;
        Ok(Self { path, stirred, unrest: None, watcher })
    }

    /// Resolves when the file may have changed since the last call: its content, its permissions, whether it exists.
    /// A burst of changes is told once. Cancel-safe: a change that a dropped future had seen is told by the next one.
    ///
    /// Where the system stops giving watches, the file counts as changed every second.
    pub async fn changed(&mut self) {
        if self.unrest.is_none() {
            self.stirred.notified().await;
        }
        let unrest = self.unrest.get_or_insert_with(|| Unrest::begin(QUIET, MAX_UNREST));
        while Instant::now() < unrest.end {
            let until = unrest.quiet_at.min(unrest.end);
            if timeout_at(until, self.stirred.notified()).await.is_err() {
                break;
            }
            unrest.quiet_at = Instant::now() + QUIET;
        }
        self.rewatch();
    }

    /// Watches anew from nothing: what is watched may be a directory that was renamed, removed or replaced since. The
    /// old watcher ends once the new one watches.
    fn rewatch(&mut self) {
        match watch_lookups(&self.path, &self.stirred) {
            Ok(watcher) => (self.watcher, self.unrest) = (watcher, None),
            Err(_) => self.unrest = Some(Unrest::begin(POLL_INTERVAL, POLL_INTERVAL)),
        }
    }
}

/// A watcher on each name that resolving `path` looks up.
fn watch_lookups(path: &Path, stirred: &Arc<Notify>) -> Result<RecommendedWatcher, WatchError> {
    let mut lookups = lookups(path);
    for _ in 1..MAX_WALKS {
        let watcher = watcher_on(&lookups, stirred);
        let after = self::lookups(path);
        if after == lookups {
            return watcher;
        }
        lookups = after;
    }
    // The next call of changed walks again.
    stirred.notify_one();
    watcher_on(&lookups, stirred)
}

fn watcher_on(lookups: &[Lookup], stirred: &Arc<Notify>) -> Result<RecommendedWatcher, WatchError> {
    let names: Vec<PathBuf> = lookups.iter().map(Lookup::path).collect();
    let stirred = Arc::clone(stirred);
    let on_event = move |event: notify::Result<Event>| {
        if event.map_or(true, |event| concerns(&event, &names)) {
            stirred.notify_one();
        }
    };
    let mut watcher = RecommendedWatcher::new(on_event, notify::Config::default()).map_err(WatchError::Inotify)?;
    let nearest = lookups.last().map(|lookup| &lookup.dir);
    for Lookup { dir, .. } in lookups {
        match watcher.watch(dir, RecursiveMode::NonRecursive) {
            Ok(()) => {}
            // A directory far up, such as /home, may be closed to us; it is seldom renamed.
            Err(error) if is_denied(&error) && nearest != Some(dir) => {}
            Err(error) => {
                return Err(WatchError::Directory { path: dir.clone(), error });
            }
        }
    }
    Ok(watcher)
}

fn is_denied(error: &notify::Error) -> bool {
    matches!(&error.kind, ErrorKind::Io(error) if error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether an event is about one of the names and more than a look at it: reading the file must not stir.
fn concerns(event: &Event, names: &[PathBuf]) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {}
        EventKind::Access(_) => return false,
        _ => {}
    }
    event.need_rescan() || event.paths.iter().any(|path| names.contains(path))
}

/// One step of the resolution of a path: a name, looked up in a directory whose own path is free of links.
#[derive(Debug, PartialEq, Eq)]
struct Lookup {
    dir: PathBuf,
    name: OsString,
}

impl Lookup {
    fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }
}

/// The lookups of an absolute path, from the root on, up to the first name that is missing.
fn lookups(path: &Path) -> Vec<Lookup> {
    let mut lookups = Vec::new();
    let mut dir = PathBuf::from("/");
    let mut links = 0;
    let mut ahead: VecDeque<Step> = steps(path).collect();
    while let Some(step) = ahead.pop_front() {
        let name = match step {
            Step::Root => {
                dir = PathBuf::from("/");
                continue;
            }
            Step::Parent => {
                dir.pop();
                continue;
            }
            Step::Name(name) => name,
        };
        let lookup = Lookup { dir: dir.clone(), name };
        let found = lookup.path();
        lookups.push(lookup);
        match fs::symlink_metadata(&found) {
            Ok(metadata) if metadata.is_symlink() && links < MAX_LINKS => {
                let Ok(target) = fs::read_link(&found) else {
                    break;
                };
                links += 1;
                ahead = steps(&target).chain(ahead).collect();
            }
            Ok(metadata) if metadata.is_dir() => dir = found,
            _ => break,
        }
    }
    lookups
}

/// A component of a path, owned: a link's target does not outlive its reading.
enum Step {
    Root,
    Parent,
    Name(OsString),
}

fn steps(path: &Path) -> impl Iterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Parent),
        Component::Normal(name) => Some(Step::Name(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    })
}
