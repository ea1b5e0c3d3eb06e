//! Inotify on names, and on nothing but what changes them: whoever is told of each file that is opened in `/home` does
//! not sleep.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::inotify::{self, CreateFlags, Event, Reader, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::WatchError;
use super::lookups::Lookup;

/// What makes a name mean another thing, or its directory another path. Of a directory that comes up twice both wishes
/// count.
const NAMING: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::MASK_ADD);

/// What changes the content of a file, which only the last name can be that of.
const WRITING: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE);

/// Bytes of what is read at once: some dozens of events.
const EVENTS_BYTES: usize = 4 * 1024;

/// Watches, until it is dropped.
#[derive(Debug)]
pub(super) struct Inotify {
    events: AsyncFd<OwnedFd>,
    /// The watch on a directory, and the name in it.
    names: Vec<(i32, OsString)>,
}

impl Inotify {
    /// Watches the names of one walk.
    pub(super) fn on(lookups: &[Lookup]) -> Result<Self, WatchError> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(|errno| WatchError::Inotify(errno.into()))?;
        let mut names = Vec::with_capacity(lookups.len());
        let nearest = lookups.last().map(|lookup| &lookup.dir);
        for Lookup { dir, name } in lookups {
            let is_nearest = nearest == Some(dir);
            let flags = if is_nearest { NAMING | WRITING } else { NAMING };
            match inotify::add_watch(&events, dir.as_path(), flags).map_err(io::Error::from) {
                Ok(watch) => names.push((watch, name.clone())),
                // A directory far up, such as /home, may be closed to us; it is seldom renamed.
                Err(error) if error.kind() == ErrorKind::PermissionDenied && !is_nearest => {}
                Err(error) => return Err(WatchError::Directory { path: dir.clone(), error }),
            }
        }
        #[allow(deprecated, reason = "what its unsafe successor wants promised of any descriptor, an owned one keeps")]
        let events = AsyncFd::with_interest(events, Interest::READABLE).map_err(WatchError::Inotify)?;
        Ok(Self { events, names })
    }

    /// Resolves once something has happened to one of the names since the last time. Cancel-safe.
    pub(super) async fn stirred(&self) {
        let look = |events: &OwnedFd| if self.drain(events) { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) };
        // It fails where the runtime ends, and all that waits with it.
        let _ = self.events.async_io(Interest::READABLE, look).await;
    }

    /// Reads all there is. Whether any of it concerns us.
    fn drain(&self, events: &OwnedFd) -> bool {
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut reader = Reader::new(events, &mut buffer);
        let mut concerned = false;
        while let Ok(event) = reader.next() {
            concerned |= self.concerns(&event);
        }
        concerned
    }

    /// What has no name is about a watched directory itself, or says that more happened than was told.
    fn concerns(&self, event: &Event<'_>) -> bool {
        event.file_name().is_none_or(|name| {
            self.names.iter().any(|(watch, known)| *watch == event.wd() && known.as_bytes() == name.to_bytes())
        })
    }
}
