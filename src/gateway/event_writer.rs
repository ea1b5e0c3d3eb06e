//! Writes the events to standard output, and decides which of them a parent that reads late still gets.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::gateway::events::{Event, EventSink};
use crate::sys::lock;
use crate::sys::writer::{StreamWriter, WaitingBounds};

/// The subject of the events that are dropped first.
const STATS: &str = "stats";

/// A usual event has 100 bytes, and `stats` 600.
const MAX_WAITING: WaitingBounds =
    WaitingBounds { lines: 1024, bytes: 1024 * 1024, first_dropped: STATS, notice_of_lost: |_| Vec::new() };

/// The time that a parent that reads slowly gets to read the last events.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);

/// Starts the thread that writes events to standard output, so that a parent that does not read delays nothing. Returns
/// the sink for its events, which are written in the order of the calls.
pub(crate) fn start() -> io::Result<(EventSink, Arc<StreamWriter>)> {
    let writer = StreamWriter::start("events", io::stdout(), MAX_WAITING)?;
    let (waiting, lines) = (Arc::clone(&writer), Mutex::new(EventLines::default()));
    let emit = move |event: &Event<'_>| {
        // The lock is held until the line waits, behind those of earlier calls.
        let mut lines = lock(&lines);
        if let Some((subject, line)) = lines.next(event) {
            waiting.push(subject, line);
        }
    };
    Ok((Arc::new(emit), writer))
}

/// Waits until all events are written, for [`FINISH_TIMEOUT`] at most where standard output takes nothing.
pub(crate) fn finish(writer: &StreamWriter) {
    writer.finish(&io::stdout(), FINISH_TIMEOUT);
}

/// What the lines of events depend on.
#[derive(Debug, Default)]
struct EventLines {
    /// The number of `listening` events since the last `disabled` event.
    listeners: usize,
    /// Whether the last of the events `ready` and `not-ready` was `ready`.
    is_ready: bool,
    is_ended: bool,
}

impl EventLines {
    /// Returns the subject whose state an event tells, which is its kind and its listener or endpoint, and its line.
    fn next(&mut self, event: &Event<'_>) -> Option<(String, Vec<u8>)> {
        // The bus thread may report an endpoint after the end of the drain.
        if self.is_ended {
            return None;
        }
        let line = serde_json::to_vec(event);
        debug_assert!(line.is_ok(), "an event has only keys that are strings");
        let mut line = line.ok()?;
        line.push(b'\n');
        let subject = match event {
            Event::Listening { .. } => {
                // Its port may differ each time.
                self.listeners += 1;
                format!("listening {}", self.listeners)
            }
            Event::Disabled { .. } => {
                debug_assert!(!self.is_ready, "not-ready comes first");
                self.listeners = 0;
                "disabled".into()
            }
            Event::Failed { .. } | Event::Stopped { .. } => {
                debug_assert!(!self.is_ready, "not-ready comes first");
                self.is_ended = true;
                "the end".into()
            }
            Event::Ready => {
                debug_assert!(!self.is_ready, "the parent knows that already");
                self.is_ready = true;
                "ready".into()
            }
            Event::NotReady { .. } => {
                self.is_ready = false;
                "not-ready".into()
            }
            Event::Bus { endpoint, .. } => format!("bus {endpoint}"),
            Event::Subscriber { endpoint, .. } => format!("subscriber {endpoint}"),
            Event::Settings(_) => "settings".into(),
            Event::Certificate { .. } => "certificate".into(),
            Event::Stats(_) => STATS.into(),
        };
        Some((subject, line))
    }
}

#[cfg(test)]
mod tests;
