use super::*;
use crate::gateway::events::{BusEndpointState, SettingsChange, Stats};
use crate::sys::writer::WaitingLines;

const SETTINGS: Event<'_> = Event::Settings(&SettingsChange::Reloaded);

fn listening(url: &str) -> Event<'_> {
    Event::Listening { url, socket: None, pid: 1, io: "epoll" }
}

fn bus(endpoint: &str) -> Event<'_> {
    Event::Bus { state: BusEndpointState::Connected, endpoint, reason: None }
}

/// The events that wait for the parent.
struct EventQueue {
    lines: EventLines,
    waiting: WaitingLines,
}

impl EventQueue {
    fn new() -> Self {
        Self { lines: EventLines::default(), waiting: WaitingLines::new(MAX_WAITING) }
    }

    fn push(&mut self, event: &Event<'_>) {
        self.lines.next(event).into_iter().for_each(|(subject, line)| self.waiting.push(subject, line));
    }

    /// Returns what the parent reads.
    fn written(&mut self) -> String {
        let lines: Vec<_> = std::iter::from_fn(|| self.waiting.take_next()).map(|(line, _)| line).collect();
        String::from_utf8(lines.concat()).unwrap()
    }
}

#[test]
fn events_that_fit_are_all_kept_in_their_order() {
    let mut queue = EventQueue::new();
    for _ in 0..MAX_WAITING.lines / 2 {
        queue.push(&listening("a"));
        queue.push(&Event::Disabled { reason: "b" });
    }
    let lines = queue.written();
    let mut names = lines.lines().map(|line| line.contains("disabled"));
    assert!(names.by_ref().step_by(2).all(|is_disabled| !is_disabled));
    assert_eq!(lines.lines().count(), MAX_WAITING.lines);
}

#[test]
fn a_parent_that_reads_late_gets_the_last_event_about_each_subject() {
    let mut queue = EventQueue::new();
    queue.push(&bus("tcp://once:1"));
    for number in 0..5 * MAX_WAITING.lines {
        queue.push(&listening(&format!("http://a:{number}")));
        queue.push(&listening(&format!("http://b:{number}")));
        queue.push(&Event::Stats(Stats { uptime_s: number as u64, ..Stats::default() }));
        queue.push(&SETTINGS);
        queue.push(&Event::Disabled { reason: &format!("reason {number}") });
        queue.push(&bus("tcp://often:1"));
    }
    queue.push(&Event::Stopped { undelivered: None, stats: Stats::default() });
    queue.push(&bus("tcp://late:1"));
    assert!(queue.waiting.lines.len() <= MAX_WAITING.lines);
    let lines = queue.written();
    let last = 5 * MAX_WAITING.lines - 1;
    let place = |text: &str| lines.rfind(text).unwrap_or_else(|| panic!("{text} is not in {lines}"));
    assert!(place(&format!("http://a:{last}\"")) < place(&format!("http://b:{last}\"")));
    assert!(place(&format!("http://b:{last}\"")) < place(&format!("reason {last}\"")));
    assert!(place("tcp://once:1") < place("tcp://often:1"));
    assert!(lines.contains(&format!("\"uptime_s\":{last},")));
    assert!(lines.lines().last().unwrap().contains("stopped"), "{lines}");
}

/// Also where they are older.
#[test]
fn changes_of_state_are_kept_while_stats_can_be_dropped() {
    let mut queue = EventQueue::new();
    for number in 0..MAX_WAITING.lines {
        queue.push(&SETTINGS);
        queue.push(&Event::Stats(Stats { uptime_s: number as u64, ..Stats::default() }));
    }
    let lines = queue.written();
    let settings = lines.lines().filter(|line| line.contains("reloaded")).count();
    assert_eq!((settings, lines.lines().count()), (MAX_WAITING.lines - 1, MAX_WAITING.lines));
    assert!(lines.contains(&format!("\"uptime_s\":{},", MAX_WAITING.lines - 1)));
}

#[test]
fn the_bytes_of_the_events_are_bounded() {
    let mut queue = EventQueue::new();
    let reason = "x".repeat(MAX_WAITING.bytes / 4);
    (0..8).for_each(|_| queue.push(&Event::Disabled { reason: &reason }));
    assert_eq!(queue.waiting.lines.len(), 3);
    queue.push(&Event::Disabled { reason: &"x".repeat(2 * MAX_WAITING.bytes) });
    assert_eq!(queue.waiting.lines.len(), 1, "the last event about a subject is kept, whatever its length");
}
