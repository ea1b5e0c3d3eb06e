//! Signals, and the end of standard input: both steer the process from outside.

use std::future::{pending, poll_fn};
use std::io;
use std::os::fd::AsFd;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::gateway::failure::Failure;
use crate::sys::log::log;
use crate::sys::process::{ParentEnd, is_ignored};
use crate::sys::timed_join::on_thread;

/// The bytes of standard input that are read without a pause, and at once after each pause. A parent that writes to it
/// at all writes less.
const STDIN_BYTES: usize = 64 * 1024;

/// The pause before each further read, so that an input without an end, such as /dev/zero, takes no processor time.
const STDIN_PAUSE: Duration = Duration::from_millis(100);

/// The signals that the process handles (signal(7)), and what each asks for. The first two are SIGTERM and SIGINT.
pub(super) struct Signals(Vec<(Signal, SignalAction)>);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalAction {
    Stop,
    Reload,
    PrintStats,
    /// For a person, who can read the log.
    PrintStatsAndSubscriptions,
}

impl Signals {
    /// Installs the handlers. From then on these signals no longer end the process. SIGHUP asks to reload, or to stop
    /// if `stops_at_hangup` and unless the process ignores it.
    pub(super) fn install(stops_at_hangup: bool) -> io::Result<Self> {
        let hangup = SignalKind::hangup();
        let at_hangup = if stops_at_hangup { SignalAction::Stop } else { SignalAction::Reload };
        let mut actions = vec![
            (SignalKind::terminate(), SignalAction::Stop),
            (SignalKind::interrupt(), SignalAction::Stop),
            (SignalKind::user_defined1(), SignalAction::PrintStatsAndSubscriptions),
            (SignalKind::user_defined2(), SignalAction::PrintStats),
        ];
        if !(stops_at_hangup && is_ignored(hangup.as_raw_value())) {
            actions.push((hangup, at_hangup));
        }
        actions.into_iter().map(|(kind, action)| Ok((signal(kind)?, action))).collect::<io::Result<_>>().map(Self)
    }

    pub(super) async fn next(&mut self) -> SignalAction {
        self.next_of(usize::MAX).await
    }

    /// Waits for SIGTERM or SIGINT. When a terminal is closed, both the shell and the kernel send SIGHUP, so a second
    /// one asks for no more than the first.
    pub(super) async fn stop(&mut self) {
        self.next_of(2).await;
    }

    async fn next_of(&mut self, first: usize) -> SignalAction {
        poll_fn(|context| {
            let mut signals = self.0.iter_mut().take(first);
            let came = signals.find_map(|(signal, action)| signal.poll_recv(context).is_ready().then_some(*action));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// What a parent can ask for by its own end.
pub(super) struct WatchedParent {
    parent: Option<ParentEnd>,
    stdin: Option<oneshot::Receiver<()>>,
}

impl WatchedParent {
    /// Watches what is asked for.
    pub(super) fn watch(parent: bool, stdin: bool) -> Result<Self, Failure> {
        let parent = parent.then(ParentEnd::watch).transpose().map_err(Failure::cannot("watch the parent"))?;
        let stdin = stdin.then(watch_stdin).transpose().map_err(Failure::cannot("watch standard input"))?;
        Ok(Self { parent, stdin })
    }

    /// Resolves when the parent or standard input has ended, and logs which. It is called no more then. Cancel-safe.
    pub(super) async fn reached(&mut self) {
        let ended = tokio::select! {
            _ = or_never(self.stdin.as_mut()) => "stdin",
            () = or_never(self.parent.as_ref().map(ParentEnd::reached)) => "the parent",
        };
        log(format_args!("{ended} ended, so the gateway stops"));
    }
}

pub(super) async fn or_never<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// Starts a thread that reads standard input and drops what it reads. The receiver resolves when standard input has
/// ended. Standard input may be a file, or a terminal that other processes share, and must then not be made
/// non-blocking.
fn watch_stdin() -> io::Result<oneshot::Receiver<()>> {
    on_thread("stdin", || read_to_end(&io::stdin()))
}

/// Reads until the end, or until an error that will not pass. Another process may have made the stream non-blocking,
/// since it shares the open file description: then this waits until the stream is readable.
fn read_to_end(stream: &impl AsFd) {
    let mut dropped = vec![0; STDIN_BYTES];
    let mut read_bytes: usize = 0;
    loop {
        match read(stream, &mut dropped) {
            Ok(0) => return,
            Ok(bytes) => {
                read_bytes = read_bytes.saturating_add(bytes);
                if read_bytes >= STDIN_BYTES {
                    thread::sleep(STDIN_PAUSE);
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // If the poll fails, the next read tells why.
                let _ = poll(&mut [PollFd::new(stream, PollFlags::IN)], None);
            }
            Err(_) => return,
        }
    }
}
