//! What a client of the simulated worlds and of the soak sends and when, how it reads, and how it ends.

use std::cell::Cell;
use std::pin::pin;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::*;

/// How long a client waits for an answer before it sends on.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that are sent at once, after a pause.
#[derive(Default)]
pub(crate) struct Piece {
    /// Where they end in what the client sends.
    pub(crate) end: usize,
    pub(crate) pause: Duration,
    /// Wait for so many answers first.
    pub(crate) answers: usize,
    /// Wait for 100, or for an answer, first.
    pub(crate) is_continued: bool,
}

/// What the client does once it has sent everything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Finish {
    /// It waits for so many answers, and goes on with another plan.
    GoOn(usize),
    Wait,
    /// It ends its side and goes on reading.
    EndSide,
    Close,
    Reset,
    Vanish,
}

#[derive(Clone, Copy)]
pub(crate) enum Pace {
    /// It reads all as it comes.
    Prompt,
    /// It pauses after so many bytes.
    Slow { bytes: usize, pause: Duration },
    /// It reads nothing behind so many bytes.
    Stops(usize),
}

pub(crate) struct Plan {
    pub(crate) wire: Vec<u8>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) finish: Finish,
    pub(crate) pace: Pace,
    /// When the connection breaks, whatever the client does.
    pub(crate) breaks_after: Option<Duration>,
    /// Whether the client goes on sending when the gateway has ended its side.
    pub(crate) is_rude: bool,
}

pub(crate) trait ClientEnd {
    /// Returns whether requests can be sent. Before, a handshake is to be done, which begins when nothing is sent.
    fn is_ready(&self) -> bool;
    /// Sends all of these bytes. Returns whether the gateway may still read.
    async fn send(&self, bytes: &[u8]) -> bool;
    /// Waits for at most so many bytes, and takes the answers in them. Returns how many there were; 0 at the end.
    async fn receive(&self, most: usize) -> usize;
    /// Returns how many answers have come, without and with those that are interim.
    fn answered(&self) -> [usize; 2];
    async fn end(&self);
    fn close(&self);
    fn reset(&self);
}

impl Plan {
    /// Returns a plan to send all of these bytes at once and to read the answers as they come.
    pub(crate) fn at_once(wire: Vec<u8>, finish: Finish) -> Self {
        let pieces = if wire.is_empty() { vec![] } else { vec![Piece { end: wire.len(), ..Piece::default() }] };
        Self { wire, pieces, finish, pace: Pace::Prompt, breaks_after: None, is_rude: false }
    }

    pub(crate) async fn follow(&self, client: &impl ClientEnd) {
        let (received, is_over) = (Notify::new(), Cell::new(false));
        let until = async |is_due: &dyn Fn() -> bool| {
            while !is_due() && !is_over.get() {
                received.notified().await;
            }
        };
        // Returns whether the client has done all that it will do.
        let send = async {
            client.send(&[]).await;
            until(&|| client.is_ready()).await;
            let mut start = 0;
            for piece in self.pieces.iter().filter(|_| client.is_ready()) {
                let is_due = || {
                    let [answers, all] = client.answered();
                    answers >= piece.answers && (!piece.is_continued || all > piece.answers)
                };
                let _ = timeout(PATIENCE, until(&is_due)).await;
                if !piece.pause.is_zero() {
                    sleep(piece.pause).await;
                }
                if !client.send(&self.wire[start..piece.end]).await {
                    return false;
                }
                start = piece.end;
            }
            match self.finish {
                Finish::GoOn(answers) => until(&|| client.answered()[0] >= answers).await,
                Finish::Wait => {}
                Finish::EndSide => client.end().await,
                Finish::Close => client.close(),
                Finish::Reset => client.reset(),
                Finish::Vanish => std::future::pending().await,
            }
            !matches!(self.finish, Finish::Wait | Finish::EndSide)
        };
        let receive = async {
            let mut left = if let Pace::Stops(after) = self.pace { after } else { usize::MAX };
            while left > 0 {
                let most = if let Pace::Slow { bytes, .. } = self.pace { bytes } else { left };
                let bytes = client.receive(most.min(left)).await;
                is_over.set(bytes == 0);
                received.notify_one();
                if bytes == 0 {
                    if !self.is_rude {
                        client.close();
                    }
                    return;
                }
                left = left.saturating_sub(bytes);
                if let Pace::Slow { pause, .. } = self.pace {
                    sleep(pause).await;
                }
            }
            std::future::pending::<()>().await
        };
        // It sends and receives at the same time.
        let both = async {
            let (mut send, mut receive) = (pin!(send), pin!(receive));
            tokio::select! {
                biased;
                is_done = &mut send => {
                    if !is_done {
                        receive.await;
                    }
                }
                () = &mut receive => drop(send.await),
            }
        };
        let broken = async {
            match self.breaks_after {
                Some(after) => sleep(after).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = both => {
                if !matches!(self.finish, Finish::GoOn(_)) {
                    client.close();
                }
            }
            () = broken => client.reset(),
        }
    }
}
