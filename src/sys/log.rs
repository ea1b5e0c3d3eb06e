//! The log for people, on standard error. A thread of its own writes it, so that nobody has to read it.

use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::ops::Add;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;

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
pub(crate) struct LineLimit<T> {
    last: Option<T>,
    /// How many lines have come since then, none of which passed.
    withheld: u64,
}

impl<T: Copy + PartialOrd + Add<Duration, Output = T>> LineLimit<T> {
    pub(crate) fn new() -> Self {
        Self { last: None, withheld: 0 }
    }

    pub(crate) fn passes(&mut self, now: T) -> bool {
        self.count(now).is_some()
    }

    /// Returns for how many lines this one stands if it passes: itself, and those that were withheld before it.
    pub(crate) fn count(&mut self, now: T) -> Option<u64> {
        self.add(1, now)
    }

    /// Adds so many lines. If one may pass, returns for how many it stands: these, and those that were withheld.
    pub(crate) fn add(&mut self, more: u64, now: T) -> Option<u64> {
        self.withheld += more;
        if self.withheld == 0 || self.last.is_some_and(|last| now < last + LOG_PAUSE) {
            return None;
        }
        self.last = Some(now);
        Some(mem::take(&mut self.withheld))
    }

    /// Returns when a line may pass for those that are withheld, if there are any.
    pub(crate) fn due(&self) -> Option<T> {
        debug_assert!(self.withheld == 0 || self.last.is_some(), "the first line passes");
        self.last.filter(|_| self.withheld > 0).map(|last| last + LOG_PAUSE)
    }
}

/// The warnings that hold of one thing. Each is logged when it begins to hold.
#[derive(Debug, Default)]
pub(crate) struct StandingWarnings(Vec<String>);

impl StandingWarnings {
    pub(crate) fn contain(&self, warning: &String) -> bool {
        self.0.contains(warning)
    }

    /// Logs those that did not hold before, and forgets those that hold no more.
    pub(crate) fn replace(&mut self, now: Vec<String>) {
        now.iter().filter(|text| !self.contain(text)).for_each(|text| warning(format_args!("{text}")));
        self.0 = now;
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

/// Returns whether a terminal or a reader of lines may take `c` for something else than a part of the text, or shows
/// nothing of it: what the standard library escapes, such as controls, formats and the ends of lines, but no space.
pub(crate) fn is_unseen(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let is_space = c.is_whitespace() && !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    // A mark that joins the character before it is escaped where there is none.
    !is_space && format!("x{c}").escape_debug().nth(2).is_some()
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
    use std::process::Command;

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
    fn what_is_withheld_is_due_after_the_pause() {
        let mut limit = LineLimit::new();
        for (s, more, count, due) in [
            (0, 0, None, None),
            (1, 5, Some(5), None),
            (2, 3, None, Some(61)),
            (3, 4, None, Some(61)),
            (61, 0, Some(7), None),
            (130, 0, None, None),
        ] {
            assert_eq!(limit.add(more, Duration::from_secs(s)), count, "{s}");
            assert_eq!(limit.due(), due.map(Duration::from_secs), "{s}");
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

    /// Python's table of Unicode is an independent one. Its version may be another one, so it answers for the characters
    /// that it knows. Those of private use (Co) may be seen or not.
    #[test]
    fn what_is_not_seen_are_controls_formats_and_ends_of_lines() {
        let script = "import sys, unicodedata\n\
             category = lambda code: unicodedata.category(chr(code))\n\
             print(*(f'{code:x} {category(code)}' for code in range(0x110000) if category(code) not in ('Cs', 'Cn', 'Co')), sep='\\n')";
        let output = Command::new("python3").args(["-c", script]).output().unwrap();
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(table.lines().count() > 100_000, "{}", String::from_utf8_lossy(&output.stderr));
        for line in table.lines() {
            let (code, category) = line.split_once(' ').unwrap();
            let c = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
            assert_eq!(is_unseen(c), matches!(category, "Cc" | "Cf" | "Zl" | "Zp"), "U+{code} {category}");
        }
    }
}
