//! What steers the process from outside: signals, and the end of stdin.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// The signals that mean something (signal(7)).
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user1: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Stop,
    Reload,
    Stats,
}

impl Signals {
    /// From now on they are waited for, and end the process no more.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// What the next one asks for.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.user1.recv() => Asked::Stats,
        }
    }

    /// Waits for one that asks to stop.
    pub(crate) async fn stop(&mut self) {
        while self.next().await != Asked::Stop {}
    }
}

/// The end of stdin. A thread of its own waits for it, since stdin may be anything, a file or a terminal shared with
/// others too, which must not be made non-blocking.
pub(crate) struct EndOfInput(mpsc::Receiver<()>);

impl EndOfInput {
    /// Begins to read stdin, and drops what it reads.
    pub(crate) fn of_stdin() -> Self {
        let (sender, receiver) = mpsc::channel(1);
        std::thread::spawn(move || {
            let _dropped_at_the_end = sender;
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        });
        Self(receiver)
    }

    /// Waits for it.
    pub(crate) async fn reached(&mut self) {
        let _ = self.0.recv().await;
    }
}
