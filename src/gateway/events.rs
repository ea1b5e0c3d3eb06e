//! What the parent process is told: one JSON object a line on stdout.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use serde::Serialize;

/// An event.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<'a> {
    /// Requests are accepted from now on; one for each listening socket.
    Listening {
        /// Where messages are posted.
        url: &'a str,
        /// This process.
        pid: u32,
        /// How sockets are waited for: `uring` or `epoll`.
        io: &'a str,
    },
    /// Nothing listens.
    Disabled {
        /// Why, in a sentence.
        reason: &'a str,
    },
    /// An endpoint of the bus came or went.
    Bus {
        /// `connected` or `disconnected`.
        state: &'a str,
        /// The endpoint.
        endpoint: &'a str,
    },
    /// The settings file changed.
    Settings {
        /// `reloaded`, or `rejected`: then the last good settings stay in force.
        state: &'a str,
        /// What was wrong with them.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
    /// The counters.
    Stats(Stats),
    /// The last line.
    Stopped {
        /// Messages that were still waiting when the time to stop was over; left out where there are none.
        #[serde(skip_serializing_if = "is_zero")]
        undelivered: u64,
        /// The counters as they ended.
        #[serde(flatten)]
        stats: Stats,
    },
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The counters since the start, and the present state.
#[derive(Debug, Serialize)]
pub struct Stats {
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Answers by status code.
    pub answers: BTreeMap<u16, u64>,
    /// Answers 503 by reason: the last part of the problem's type.
    pub refused: BTreeMap<&'static str, u64>,
    /// Messages that were answered 200.
    pub accepted: u64,
    /// Messages that were handed to libzmq.
    pub published: u64,
    /// Messages in the queue to the bus.
    pub queue_depth: u64,
    /// The most there ever were.
    pub queue_high_water: u64,
    /// Bytes of the messages in the queue.
    pub queue_bytes: u64,
    /// How often a full pipe held the bus up.
    pub pipe_full: u64,
    /// Bytes read from connections.
    pub bytes_in: u64,
    /// Bytes written to connections.
    pub bytes_out: u64,
    /// Connections open now.
    pub connections: u64,
    /// Connections accepted since the start.
    pub connections_accepted: u64,
    /// The endpoints of the bus.
    pub endpoints: Vec<EndpointStats>,
    /// The embedded hub, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubStats>,
}

/// The embedded hub.
#[derive(Debug, Serialize)]
pub struct HubStats {
    /// Messages passed on, also those that nobody had subscribed to.
    pub forwarded: u64,
    /// How often a subscriber's full pipe held it up.
    pub pipe_full: u64,
}

/// An endpoint of the bus.
#[derive(Debug, Serialize)]
pub struct EndpointStats {
    /// As it was given.
    pub endpoint: String,
    /// Whether messages go there now.
    pub connected: bool,
    /// How often it came back.
    pub reconnects: u64,
}

/// Who is told of events.
pub type Emit = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// Events that may wait for a parent that is slow to read. Beyond them the newest are dropped: whoever reads none of
/// a thousand will not miss the next.
const WAITING_EVENTS: usize = 1024;

/// What a parent that is slow to read gets to read the last of them.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Writes events to stdout on a thread of its own, so that a parent that does not read holds up nothing.
#[derive(Debug)]
pub struct Stdout {
    written: Receiver<()>,
}

impl Stdout {
    /// Starts the thread. Events are written in the order in which they are told.
    #[must_use]
    pub fn start() -> (Emit, Self) {
        let (sender, lines) = sync_channel::<Vec<u8>>(WAITING_EVENTS);
        let (done, written) = sync_channel(1);
        std::thread::spawn(move || {
            for line in lines {
                // A parent that closed its end is no reason to stop.
                let mut stdout = io::stdout().lock();
                let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
            }
            let _ = done.send(());
        });
        let emit = move |event: &Event<'_>| {
            if let Ok(mut line) = serde_json::to_vec(event) {
                line.push(b'\n');
                let _ = sender.try_send(line);
            }
        };
        (Arc::new(emit), Self { written })
    }

    /// Waits until all events are written, once nobody can tell any more.
    pub fn finish(self) {
        let _ = self.written.recv_timeout(LAST_WORDS);
    }
}
