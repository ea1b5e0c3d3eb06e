//! Writes the events to standard output, and decides which of them a parent that reads late still gets.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::gateway::events::{Event, EventSink};
use crate::sys::writer::{StreamWriter, WaitingLines};

/// The number of events that may wait for a slow parent. If more wait, those are dropped that a later one replaces.
const WAITING_EVENTS: usize = 1024;

/// The bound on the bytes of these events. A usual event has 100 bytes, and `stats` 600.
const WAITING_BYTES: usize = 1024 * 1024;

/// The time that a parent that reads slowly gets to read the last events.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);

/// Writes events to standard output on a thread of its own, so that a parent that does not read delays nothing.
#[derive(Debug)]
pub(crate) struct EventWriter(Arc<StreamWriter<EventQueue>>);

impl EventWriter {
    /// Starts the thread, and returns the sink for its events. Events are written in the order of the calls.
    pub(crate) fn start() -> io::Result<(EventSink, Self)> {
        let writer = StreamWriter::start("events", io::stdout(), EventQueue::default())?;
        let queue = Arc::clone(&writer);
        let emit = move |event: &Event<'_>| queue.update(|queue| queue.push(event));
        Ok((Arc::new(emit), Self(writer)))
    }

    /// Waits until all events are written, for [`FINISH_TIMEOUT`] at most.
    pub(crate) fn finish(self) {
        self.0.finish(&io::stdout(), FINISH_TIMEOUT);
    }
}

/// The subject whose state an event tells. A later event about the same subject replaces an earlier one.
#[derive(Debug, PartialEq, Eq)]
enum Subject {
    /// A listening socket, by its place among those that were opened together. Its port may differ each time.
    Listener(usize),
    Disabled,
    Ready,
    NotReady,
    Endpoint(String),
    Subscriber(String),
    Settings,
    Certificate,
    Stats,
    End,
}

#[derive(Debug, Default)]
struct EventQueue {
    events: VecDeque<(Subject, Vec<u8>)>,
    /// The number of `listening` events since the last `disabled` event.
    listeners: usize,
    is_ended: bool,
}

impl EventQueue {
    fn push(&mut self, event: &Event<'_>) {
        // The bus thread may report an endpoint after the end of the drain.
        if self.is_ended {
            return;
        }
        let Ok(mut line) = serde_json::to_vec(event) else {
            debug_assert!(false, "an event has only keys that are strings");
            return;
        };
        line.push(b'\n');
        let subject = self.subject(event);
        self.is_ended = subject == Subject::End;
        self.events.push_back((subject, line));
        while self.is_beyond_a_bound() && self.drop_one() {}
    }

    fn is_beyond_a_bound(&self) -> bool {
        let bytes: usize = self.events.iter().map(|(_, line)| line.len()).sum();
        self.events.len() > WAITING_EVENTS || bytes > WAITING_BYTES
    }

    fn subject(&mut self, event: &Event<'_>) -> Subject {
        match event {
            Event::Listening { .. } => {
                self.listeners += 1;
                Subject::Listener(self.listeners)
            }
            Event::Disabled { .. } => {
                self.listeners = 0;
                Subject::Disabled
            }
            Event::Ready => Subject::Ready,
            Event::NotReady { .. } => Subject::NotReady,
            Event::Bus { endpoint, .. } => Subject::Endpoint((*endpoint).into()),
            Event::Subscriber { endpoint, .. } => Subject::Subscriber((*endpoint).into()),
            Event::Settings(_) => Subject::Settings,
            Event::Certificate { .. } => Subject::Certificate,
            Event::Stats(_) => Subject::Stats,
            Event::Failed { .. } | Event::Stopped { .. } => Subject::End,
        }
    }

    /// Drops the oldest `stats` event, or otherwise the oldest event, that a later one replaces. Returns whether there
    /// was one: what then remains is bounded by the number of listeners and endpoints.
    fn drop_one(&mut self) -> bool {
        let is_replaced = |&at: &usize| {
            let mut from_here = self.events.range(at..).map(|(subject, _)| subject);
            from_here.next().is_some_and(|subject| from_here.any(|later| later == subject))
        };
        let is_stats = |at: &usize| self.events.get(*at).is_some_and(|(subject, _)| *subject == Subject::Stats);
        let stats = (0..self.events.len()).filter(is_stats).find(is_replaced);
        let oldest = stats.or_else(|| (0..self.events.len()).find(is_replaced));
        oldest.is_some_and(|at| self.events.remove(at).is_some())
    }
}

impl WaitingLines for EventQueue {
    fn take_next(&mut self) -> Option<Vec<u8>> {
        self.events.pop_front().map(|(_, line)| line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::events::{BusEndpointState, SettingsChange, Stats};

    const SETTINGS: Event<'_> = Event::Settings(&SettingsChange::Reloaded);

    fn listening(url: &str) -> Event<'_> {
        Event::Listening { url, socket: None, pid: 1, io: "epoll" }
    }

    fn bus(endpoint: &str) -> Event<'_> {
        Event::Bus { state: BusEndpointState::Connected, endpoint, reason: None }
    }

    /// Returns what the parent reads from the queue.
    fn written(queue: &mut EventQueue) -> String {
        let lines: Vec<_> = std::iter::from_fn(|| queue.take_next()).collect();
        String::from_utf8(lines.concat()).unwrap()
    }

    #[test]
    fn events_that_fit_are_all_kept_in_their_order() {
        let mut queue = EventQueue::default();
        for _ in 0..WAITING_EVENTS / 2 {
            queue.push(&listening("a"));
            queue.push(&Event::Disabled { reason: "b" });
        }
        let lines = written(&mut queue);
        let mut names = lines.lines().map(|line| line.contains("disabled"));
        assert!(names.by_ref().step_by(2).all(|is_disabled| !is_disabled));
        assert_eq!(lines.lines().count(), WAITING_EVENTS);
    }

    #[test]
    fn a_parent_that_reads_late_gets_the_last_event_about_each_subject() {
        let mut queue = EventQueue::default();
        queue.push(&bus("tcp://once:1"));
        for number in 0..5 * WAITING_EVENTS {
            queue.push(&listening(&format!("http://a:{number}")));
            queue.push(&listening(&format!("http://b:{number}")));
            queue.push(&Event::Stats(Stats { accepted: number as u64, ..Stats::default() }));
            queue.push(&SETTINGS);
            queue.push(&Event::Disabled { reason: &format!("reason {number}") });
            queue.push(&bus("tcp://often:1"));
        }
        queue.push(&Event::Stopped { undelivered: None, stats: Stats::default() });
        queue.push(&bus("tcp://late:1"));
        assert!(queue.events.len() <= WAITING_EVENTS);
        let lines = written(&mut queue);
        let last = 5 * WAITING_EVENTS - 1;
        let place = |text: &str| lines.rfind(text).unwrap_or_else(|| panic!("{text} is not in {lines}"));
        assert!(place(&format!("http://a:{last}\"")) < place(&format!("http://b:{last}\"")));
        assert!(place(&format!("http://b:{last}\"")) < place(&format!("reason {last}\"")));
        assert!(place("tcp://once:1") < place("tcp://often:1"));
        assert!(lines.contains(&format!("\"accepted\":{last},")));
        assert!(lines.lines().last().unwrap().contains("stopped"), "{lines}");
    }

    #[test]
    fn the_bytes_of_the_events_are_bounded() {
        let mut queue = EventQueue::default();
        let reason = "x".repeat(WAITING_BYTES / 4);
        (0..8).for_each(|_| queue.push(&Event::Disabled { reason: &reason }));
        assert_eq!(queue.events.len(), 3);
        queue.push(&Event::Disabled { reason: &"x".repeat(2 * WAITING_BYTES) });
        assert_eq!(queue.events.len(), 1, "the last event about a subject is kept, whatever its length");
    }
}
