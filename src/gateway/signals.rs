//! What steers the process from outside: signals, and the end of standard input.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// The signals that the process handles (signal(7)).
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user1: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalAction {
    Stop,
    Reload,
    PrintStats,
}

impl Signals {
    /// Installs the handlers. From then on these signals no longer end the process.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next signal, and returns what it asks for.
    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hangup.recv() => SignalAction::Reload,
            _ = self.user1.recv() => SignalAction::PrintStats,
        }
    }

    /// Waits for a signal that asks to stop, and ignores the others.
    pub(crate) async fn stop(&mut self) {
        while self.next().await != SignalAction::Stop {}
    }
}

/// The end of standard input. A thread of its own waits for it: standard input may be a file, or a terminal that other
/// processes share, and must then not be made non-blocking.
pub(crate) struct StdinEnd(mpsc::Receiver<()>);

impl StdinEnd {
    /// Starts a thread that reads standard input and drops what it reads.
    pub(crate) fn watch() -> Self {
        let (sender, receiver) = mpsc::channel(1);
        std::thread::spawn(move || {
            let _dropped_at_the_end = sender;
            read_to_end(&io::stdin());
        });
        Self(receiver)
    }

    /// Waits until standard input has ended.
    pub(crate) async fn reached(&mut self) {
        let _ = self.0.recv().await;
    }
}

/// Reads until the end, or until an error that will not pass. Another process may have made the stream non-blocking,
/// since it shares the open file description: then this waits until the stream is readable.
fn read_to_end(stream: &impl AsFd) {
    let mut dropped = [0; 4096];
    loop {
        match read(stream, &mut dropped) {
            Ok(0) => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // If the poll fails, the next read tells why.
                let _ = poll(&mut [PollFd::new(stream, PollFlags::IN)], None);
            }
            Err(_) => return,
        }
    }
}
