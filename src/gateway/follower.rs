//! A thread that follows files. It does whatever a file, a folder or a lock may hold up, and nobody waits for it.

use std::fmt;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::bus::Waker;
use crate::gateway::failure::Failure;
use crate::sys::watch::Watch;
use crate::sys::{lock, on_thread};

/// How long a step of the thread may take. Those that try again what another process prevents end before this.
const STEP_TIMEOUT: Duration = Duration::from_secs(3);

/// Whoever has asked for a step looks at it after this time: it is over then, or takes too long.
pub(super) const STEP_CHECK_PAUSE: Duration = Duration::from_secs(4);

/// Looks at files. It learns whether that was asked for, and returns the most time to the next look, if that is less
/// than usual. It is boxed, so that the program has the code of the thread once.
pub(super) type Look = Box<dyn FnMut(bool) -> Option<Duration> + Send>;

/// What such a thread shares with the others.
pub(super) struct Follower {
    /// What is to answer now, and since when, while the thread is in a step.
    step: Mutex<Option<(String, Instant)>>,
    bell: Waker,
    is_asked: AtomicBool,
    is_over: AtomicBool,
}

impl Follower {
    pub(super) fn new() -> Result<Arc<Self>, Failure> {
        let bell = Waker::new().map_err(Failure::cannot("create an event"))?;
        let (is_asked, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Arc::new(Self { step: Mutex::default(), bell, is_asked, is_over }))
    }

    /// Starts the thread, which looks at the files now, when they may have changed, in time, and when it is asked to.
    pub(super) fn start(
        self: &Arc<Self>,
        name: &str,
        files: Vec<PathBuf>,
        interval: Duration,
        mut look: Look,
    ) -> Result<(), Failure> {
        let follower = Arc::clone(self);
        let follow = move || {
            let subject = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" or ");
            let mut watch = Watch::new(files, interval);
            let mut is_first = true;
            while !follower.is_over.load(Ordering::SeqCst) {
                // The watch starts before anything is read, so that no later change is missed.
                let usual = watch.renew(|path| follower.begin(path.display()));
                follower.begin(&subject);
                // Whoever asked before the first look gets a second one.
                let is_asked = std::mem::take(&mut is_first) || follower.is_asked.swap(false, Ordering::SeqCst);
                let next = look(is_asked);
                *lock(&follower.step) = None;
                watch.wait(follower.bell.as_fd(), next.map_or(usual, |next| usual.min(next)));
                // It is not readable where it has not rung.
                let _ = rustix::io::read(follower.bell.as_fd(), &mut [0; 8]);
            }
        };
        on_thread(name, follow).map(drop).map_err(Failure::cannot("start a thread"))
    }

    /// The thread begins a step, in which `subject` is to answer.
    pub(super) fn begin(&self, subject: impl fmt::Display) {
        *lock(&self.step) = Some((subject.to_string(), Instant::now()));
    }

    /// Returns what has not answered for [`STEP_TIMEOUT`], because a file system hangs.
    pub(super) fn silent(&self) -> Option<String> {
        let step = lock(&self.step);
        let (subject, _) = step.as_ref().filter(|(_, since)| since.elapsed() >= STEP_TIMEOUT)?;
        Some(subject.clone())
    }

    /// Lets the thread look: something else has changed.
    pub(super) fn ring(&self) {
        self.bell.wake();
    }

    /// Asks the thread to read everything again. If that was asked already, once is enough.
    pub(super) fn ask(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Lets the thread end, unless a file holds it up.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.ring();
    }
}
