//! Signals, and the end of standard input: both steer the process from outside.

use std::future::poll_fn;
use std::os::fd::{AsFd, OwnedFd};
use std::task::Poll;
use std::time::Duration;
use std::{io, thread};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::gateway::config::GatewayConfig;
use crate::gateway::failure::Failure;
use crate::sys::log::log;
use crate::sys::process::{is_ignored, parent_end};
use crate::sys::{on_thread, or_never};

/// The bytes of standard input that are read without a pause. A parent that writes to it at all writes less.
const STDIN_BYTES: usize = 64 * 1024;

/// The pause before each further read, so that an input without an end, such as /dev/zero, takes no processor time.
const STDIN_PAUSE: Duration = Duration::from_millis(100);

/// What steers the process.
pub(super) struct Signals {
    /// The signals that the process handles (signal(7)), and what each asks for. The first two are SIGTERM and SIGINT.
    actions: Vec<(Signal, SignalAction)>,
    /// It becomes readable when the parent has ended.
    parent: Option<AsyncFd<OwnedFd>>,
    /// Resolves when standard input has ended.
    stdin: Option<oneshot::Receiver<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalAction {
    Stop,
    Reload,
    PrintStats,
    /// For a person, who can read the log.
    PrintStatsAndSubscriptions,
}

impl Signals {
    /// Watches the parent and standard input, if that is asked for, and installs the handlers. From then on these
    /// signals no longer end the process. SIGHUP asks to reload, or to stop, as the configuration says.
    pub(super) fn install(config: &GatewayConfig) -> Result<Self, Failure> {
        // The parent may end at any time, so it is watched first.
        let parent = config.watch_parent.then(parent_end).transpose();
        let parent = parent.map_err(Failure::cannot("watch the parent"))?;
        let stdin = config.watch_stdin.then(|| on_thread("stdin", || read_to_end(&io::stdin()))).transpose();
        let stdin = stdin.map_err(Failure::cannot("watch standard input"))?;
        let hangup = SignalKind::hangup();
        let hangup = match config.stops_at_hangup {
            true if is_ignored(hangup.as_raw_value()) => None,
            true => Some((hangup, SignalAction::Stop)),
            false => Some((hangup, SignalAction::Reload)),
        };
        let actions = [
            (SignalKind::terminate(), SignalAction::Stop),
            (SignalKind::interrupt(), SignalAction::Stop),
            (SignalKind::user_defined1(), SignalAction::PrintStatsAndSubscriptions),
            (SignalKind::user_defined2(), SignalAction::PrintStats),
        ];
        let actions = actions.into_iter().chain(hangup).map(|(kind, action)| Ok((signal(kind)?, action)));
        let actions = actions.collect::<io::Result<_>>().map_err(Failure::cannot("handle signals"))?;
        Ok(Self { actions, parent, stdin })
    }

    /// Waits for what is asked for next. Cancel-safe.
    pub(super) async fn next(&mut self) -> SignalAction {
        let Self { actions, parent, stdin } = self;
        let stop_after = |ended| {
            log(format_args!("{ended} ended, so the gateway stops"));
            SignalAction::Stop
        };
        let action = tokio::select! {
            action = next_of(actions, usize::MAX) => action,
            _ = or_never(stdin.as_mut()) => stop_after("stdin"),
            _ = or_never(parent.as_ref().map(AsyncFd::readable)) => stop_after("the parent"),
        };
        if action == SignalAction::Stop {
            // The end of the parent is no second request.
            (self.parent, self.stdin) = (None, None);
        }
        action
    }

    /// Waits for SIGTERM or SIGINT. When a terminal is closed, both the shell and the kernel send SIGHUP, so a second
    /// one asks for no more than the first.
    pub(super) async fn stop(&mut self) {
        next_of(&mut self.actions, 2).await;
    }
}

/// Waits for one of the `first` signals.
async fn next_of(actions: &mut [(Signal, SignalAction)], first: usize) -> SignalAction {
    poll_fn(|context| {
        let mut signals = actions.iter_mut().take(first);
        let came = signals.find_map(|(signal, action)| signal.poll_recv(context).is_ready().then_some(*action));
        came.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Reads and drops until the end, or until an error that will not pass. The stream may be a file, or a terminal that
/// other processes share, and must then not be made non-blocking. Another process may have made it so, since it shares
/// the open file description: then this waits until the stream is readable.
fn read_to_end(stream: &impl AsFd) {
    let mut dropped = vec![0; STDIN_BYTES];
    let mut read_bytes: usize = 0;
    loop {
        // If the poll fails, the read tells why.
        let _ = poll(&mut [PollFd::new(stream, PollFlags::IN)], None);
        match read(stream, &mut dropped) {
            Ok(0) => return,
            Ok(bytes) => {
                read_bytes = read_bytes.saturating_add(bytes);
                if read_bytes >= STDIN_BYTES {
                    thread::sleep(STDIN_PAUSE);
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}
