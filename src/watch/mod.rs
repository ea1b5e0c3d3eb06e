//! A watch on the settings file, whatever replaces it: an editor, a link, a directory made anew.
//!
//! Inotify watches inodes, and a file that is renamed over is another inode; so what is watched are directories. The
//! path is walked as the kernel walks it, and every name that is looked up on the way, through links too, is watched
//! in the directory that holds it. Where a directory is missing the walk ends, at the name whose creation matters next.
//!
//! Invariant: after [`Watch::start`] and after each [`Watch::changed`] the watched directories are those of a walk that
//! began when they were all being watched. A change is thus either before what the caller reads next, or seen.

mod inotify;
mod lookups;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use tokio::time::{Instant, timeout_at};

use self::inotify::Inotify;
use self::lookups::lookups;

/// How long nothing may happen before a change counts as complete: a program that truncates a file and writes it does
/// both within this.
const QUIET: Duration = Duration::from_millis(50);

/// How long a change may take to become quiet: a file written to all the time is still read now and then.
const MAX_UNREST: Duration = Duration::from_millis(250);

/// How often the file counts as changed while it cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Walks begun anew because directories changed during a walk. Once is rare; the bound is for a directory that
/// something replaces all the time.
const MAX_WALKS: usize = 8;

/// A watch on one path, which need not exist.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    inotify: Inotify,
    /// A change that was seen and not yet told.
    unrest: Option<Unrest>,
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
    Inotify(io::Error),
    /// This directory, which holds the file or is to hold it, cannot be watched.
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
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
            Self::WorkingDirectory(error) | Self::Inotify(error) | Self::Directory { error, .. } => Some(error),
        }
    }
}

impl Watch {
    /// Begins to watch `path`, on the runtime that this is called in. What is read after this, and changes after it was
    /// read, is told by [`Watch::changed`].
    ///
    /// # Errors
    ///
    /// [`WatchError`], where the system cannot watch the directory nearest to the file.
    pub fn start(path: &Path) -> Result<Self, WatchError> {
        let path = std::path::absolute(path).map_err(WatchError::WorkingDirectory)?;
        let (inotify, unrest) = watch_lookups(&path)?;
        Ok(Self { path, inotify, unrest })
    }

    /// Resolves when the file may have changed since the last call: its content, its permissions, whether it exists.
    /// A burst of changes is told once. Cancel-safe: a change that a dropped future had seen is told by the next one.
    ///
    /// Where the system stops giving watches, the file counts as changed every second.
    pub async fn changed(&mut self) {
        if self.unrest.is_none() {
            self.inotify.stirred().await;
        }
        let unrest = self.unrest.get_or_insert_with(|| Unrest::begin(QUIET, MAX_UNREST));
        while Instant::now() < unrest.end {
            let until = unrest.quiet_at.min(unrest.end);
            if timeout_at(until, self.inotify.stirred()).await.is_err() {
                break;
            }
            unrest.quiet_at = Instant::now() + QUIET;
        }
        self.rewatch();
    }

    /// Watches anew from nothing: what is watched may be a directory that was renamed, removed or replaced since. The
    /// old watches end once the new ones are set.
    fn rewatch(&mut self) {
        match watch_lookups(&self.path) {
            Ok(watching) => (self.inotify, self.unrest) = watching,
            Err(_) => self.unrest = Some(Unrest::begin(POLL_INTERVAL, POLL_INTERVAL)),
        }
    }
}

/// Watches each name that resolving `path` looks up. Where those change all the time, that is a change to be told.
fn watch_lookups(path: &Path) -> Result<(Inotify, Option<Unrest>), WatchError> {
    let mut before = lookups(path);
    for _ in 1..MAX_WALKS {
        let inotify = Inotify::on(&before);
        let after = lookups(path);
        if after == before {
            return Ok((inotify?, None));
        }
        before = after;
    }
    Ok((Inotify::on(&before)?, Some(Unrest::begin(QUIET, MAX_UNREST))))
}
