//! The log for people, on standard error. A thread of its own writes it, so that nobody has to read it.

use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::ops::Add;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;

use super::terminal::is_unseen;
use super::writer::{StreamWriter, WaitingBounds};

/// All lines are on one subject: a person who looks at the log after a long time wants the last ones. A thousand lines
/// of usual length have this many bytes.
const MAX_WAITING: WaitingBounds = WaitingBounds {
    lines: 1024,
    bytes: 256 * 1024,
    first_dropped: "",
    notice_of_lost: |lines| {
        let (were, them) = if lines == 1 { ("line was", "it") } else { ("lines were", "them") };
        prefixed("warning", format_args!("{lines} {were} dropped, since standard error did not take {them}"))
    },
};

/// The time that a slow reader gets to read the last lines before the process ends.
const FINISH_TIMEOUT: Duration = Duration::from_millis(250);

/// The shortest time between two lines that say the same of clients or peers, which may come in any number.
pub(crate) const LOG_PAUSE: Duration = Duration::from_secs(60);

/// Lets the first of the lines that say the same pass, and then one each [`LOG_PAUSE`]. Its time is any clock's.
#[derive(Debug)]
pub(crate) struct LineLimit<T> {
    last: Option<T>,
    /// The lines since then that did not pass.
    withheld: u64,
}

impl<T: Copy + PartialOrd + Add<Duration, Output = T>> LineLimit<T> {
    pub(crate) fn new() -> Self {
        Self { last: None, withheld: 0 }
    }

    pub(crate) fn passes(&mut self, now: T) -> bool {
        self.count(now).is_some()
    }

    /// Returns for how many lines this one stands if it passes: itself, and those that did not pass before it.
    pub(crate) fn count(&mut self, now: T) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + LOG_PAUSE) {
            self.withheld += 1;
            return None;
        }
        self.last = Some(now);
        Some(1 + mem::take(&mut self.withheld))
    }
}

/// `None` in it means that the system provides no thread.
static WRITER: OnceLock<Option<Arc<StreamWriter>>> = OnceLock::new();

static SHOWS_TIME: AtomicBool = AtomicBool::new(false);

/// Puts the time before each line from now on, in UTC.
pub fn show_time() {
    SHOWS_TIME.store(true, Ordering::Relaxed);
}

/// Logs a usual event. The call never waits for the reader of standard error: if too many lines wait, the oldest ones
/// are dropped, and the log tells how many.
pub fn log(line: fmt::Arguments<'_>) {
    add("info", line);
}

/// Logs what a person should act on, as [`log`] does.
pub fn warning(line: fmt::Arguments<'_>) {
    add("warning", line);
}

/// Logs why the process, or a part of it, ends, as [`log`] does.
pub fn error(line: fmt::Arguments<'_>) {
    add("error", line);
}

fn add(level: &str, line: fmt::Arguments<'_>) {
    let line = prefixed(level, line);
    match WRITER.get_or_init(|| StreamWriter::start("log", io::stderr(), MAX_WAITING).ok()) {
        Some(writer) => writer.push(String::new(), line),
        // The workers will have no thread either, and this line or the next one tells why the program ends.
        None => drop(io::stderr().write_all(&line)),
    }
}

/// Waits until the log is written, for a bounded time. The process calls this before it ends.
pub fn finish() {
    if let Some(Some(writer)) = WRITER.get() {
        writer.finish(&io::stderr(), FINISH_TIMEOUT);
    }
}

/// Writes the message of a panic to the log. The standard library writes it to standard error itself, and would not end
/// the process while nobody reads that.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        error(format_args!("thread '{}' {panic}", thread.name().unwrap_or("unnamed")));
        finish();
    }));
}

/// Returns the text with the level before each of its lines, and with the time if it is to be shown. What a terminal
/// does not show is escaped: names and topics come from others.
fn prefixed(level: &str, text: fmt::Arguments<'_>) -> Vec<u8> {
    let shows_time = SHOWS_TIME.load(Ordering::Relaxed);
    let now = if shows_time { rfc3339(SystemTime::now()) + " " } else { String::new() };
    let prefix = format!("{now}{level}: ");
    let mut line = prefix.clone();
    for c in text.to_string().chars() {
        match c {
            '\n' => line.extend(["\n", &prefix]),
            c if is_unseen(c) => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line.push('\n');
    line.into_bytes()
}

/// Returns the time in UTC to the millisecond, as RFC 3339 §5.6 has it.
fn rfc3339(time: SystemTime) -> String {
    let millisecond = OffsetDateTime::from(time).millisecond();
    format!("{}.{millisecond:03}Z", date_time(time))
}

/// Returns the time to the second, without the `Z` that ends it.
pub(crate) fn date_time(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    format!("{}T{:02}:{:02}:{:02}", time.date(), time.hour(), time.minute(), time.second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::writer::WaitingLines;

    fn line(number: usize) -> Vec<u8> {
        format!("line {number}\n").into_bytes()
    }

    fn rest(lines: &mut WaitingLines) -> String {
        let all: Vec<_> = std::iter::from_fn(|| lines.take_next()).map(|(line, _)| line).collect();
        String::from_utf8(all.concat()).unwrap()
    }

    #[test]
    fn a_line_passes_once_a_minute_and_stands_for_those_before_it() {
        let mut limit = LineLimit::new();
        for (s, count) in
            [(0, Some(1)), (1, None), (59, None), (60, Some(3)), (119, None), (120, Some(2)), (180, Some(1))]
        {
            assert_eq!(limit.count(Duration::from_secs(s)), count, "{s}");
        }
    }

    #[test]
    fn each_line_begins_with_its_level() {
        assert_eq!(prefixed("warning", format_args!("a\nb")), b"warning: a\nwarning: b\n");
        assert_eq!(prefixed("info", format_args!("é\u{1b}[2J\u{202e}")), "info: é\\u{1b}[2J\\u{202e}\n".as_bytes());
    }

    #[test]
    fn the_newest_lines_are_kept_and_the_dropped_ones_counted_before_them() {
        let mut lines = WaitingLines::new(MAX_WAITING);
        (0..MAX_WAITING.lines + 2).for_each(|number| lines.push(String::new(), line(number)));
        let written = rest(&mut lines);
        let notice = "warning: 2 lines were dropped, since standard error did not take them\nline 2\nline 3\n";
        assert!(written.starts_with(notice), "{written}");
        assert!(written.ends_with(&format!("line {}\n", MAX_WAITING.lines + 1)));
        assert_eq!(written.lines().count(), 1 + MAX_WAITING.lines);
        assert_eq!(lines.lost, 0);
    }

    #[test]
    fn the_bytes_of_the_lines_are_bounded() {
        let mut lines = WaitingLines::new(MAX_WAITING);
        (0..3).for_each(|_| lines.push(String::new(), vec![b'x'; MAX_WAITING.bytes / 2]));
        assert_eq!((lines.lines.len(), lines.lost), (2, 1));
        lines.push(String::new(), vec![b'x'; 2 * MAX_WAITING.bytes]);
        assert_eq!((lines.lines.len(), lines.lost), (1, 3));
    }

    #[test]
    fn lines_that_a_write_loses_are_counted_with_those_dropped_before() {
        let mut lines = WaitingLines::new(MAX_WAITING);
        lines.push(String::new(), line(0));
        lines.lost += lines.take_next().unwrap().1;
        assert_eq!(lines.take_next(), None, "the notice waits for a line that can be written");
        lines.push(String::new(), line(1));
        lines.lost += lines.take_next().unwrap().1;
        lines.push(String::new(), line(2));
        assert_eq!(rest(&mut lines), "warning: 2 lines were dropped, since standard error did not take them\nline 2\n");
    }

    #[test]
    fn a_time_is_in_utc_to_the_millisecond() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(951_782_399_007);
        assert_eq!(rfc3339(time), "2000-02-28T23:59:59.007Z");
        assert_eq!(date_time(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00");
    }
}
