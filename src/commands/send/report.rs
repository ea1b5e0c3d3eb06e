//! What a person sees: progress on a terminal, each refusal, and a summary.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::gateway::Failure;
use crate::sys::log::{LineLimit, log, warning};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct Report {
    /// `line` or `message`
    noun: &'static str,
    started_at: Instant,
    /// When the progress was last shown; `None` where nobody sees it.
    progress_at: Option<Instant>,
    announcements: LineLimit<Instant>,
    pub(super) accepted: u64,
    pub(super) overtaking: u64,
    retries: u64,
    refused: u64,
    in_doubt: u64,
    pub(super) is_stopped: bool,
}

impl Report {
    pub(super) fn new(noun: &'static str) -> Self {
        let started_at = Instant::now();
        // Progress would disturb what a person types.
        let shows_progress = io::stderr().is_terminal() && !io::stdin().is_terminal();
        Self {
            noun,
            started_at,
            progress_at: shows_progress.then_some(started_at),
            announcements: LineLimit::new(),
            accepted: 0,
            overtaking: 0,
            retries: 0,
            refused: 0,
            in_doubt: 0,
            is_stopped: false,
        }
    }

    /// Shows also which `share` of the input was read, and how much time the rest takes at this pace.
    pub(super) fn show_progress(&mut self, share: Option<f64>) {
        let now = Instant::now();
        if self.progress_at.is_some_and(|shown| now - shown >= PROGRESS_INTERVAL) {
            self.progress_at = Some(now);
            let elapsed_s = self.started_at.elapsed().as_secs_f64();
            let left = share.filter(|share| *share > 0.0).map_or_else(String::new, |share| {
                format!("; {:.0} % done, {:.0} s left", share * 100.0, elapsed_s * (1.0 / share - 1.0))
            });
            let _ = write!(io::stderr(), "\r\x1b[K{}{left}", self.accepted_lines());
        }
    }

    fn clear_progress(&self) {
        if self.progress_at.is_some_and(|shown| shown > self.started_at) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn accepted_lines(&self) -> String {
        let elapsed_s = self.started_at.elapsed().as_secs_f64();
        let rate = self.accepted as f64 / elapsed_s.max(0.001);
        let lines = plural(self.accepted, self.noun);
        if self.accepted < 2 {
            return format!("{lines} accepted");
        }
        format!("{lines} accepted in {elapsed_s:.1} s, {rate:.0} a second")
    }

    pub(super) fn refused(&mut self, line: u64, reason: &str) {
        self.refused += 1;
        self.clear_progress();
        warning(format_args!("{} was refused: {reason}", self.names(&[line])));
    }

    /// Tells once a minute at most that the gateway takes nothing for now.
    pub(super) fn refused_for_now(&mut self, line: u64, reason: &str) {
        self.retries += 1;
        if self.announcements.passes(Instant::now()) {
            self.clear_progress();
            warning(format_args!("{} waits until the gateway takes it: {reason}", self.names(&[line])));
        }
    }

    pub(super) fn in_doubt(&mut self, lines: &[u64], reason: &str) {
        self.in_doubt += lines.len() as u64;
        self.clear_progress();
        let (names, are) = (self.names(lines), if lines.len() == 1 { "is" } else { "are" });
        warning(format_args!(
            "{names} {are} in doubt, and not sent again: {reason}, and the gateway may have published what had no \
             answer yet"
        ));
    }

    /// Tells the sums. It fails if a line was refused or is in doubt, or a signal has come. `unsent` tells which lines were
    /// not sent.
    pub(super) fn finish(&self, unsent: &str) -> Result<(), Failure> {
        self.clear_progress();
        let mut text = self.accepted_lines();
        if self.retries > 0 {
            text += &format!("; {} one had to wait until the gateway took it", plural(self.retries, "time"));
            if self.overtaking > 0 {
                let lines = plural(self.overtaking, self.noun);
                text += &format!(", and {lines} behind it went ahead, so the order changed");
            }
        }
        if self.accepted > 0 || self.noun == "line" {
            log(format_args!("{text}"));
        }
        let mut faults = Vec::new();
        faults.extend((self.refused > 0).then(|| format!("{} refused", plural(self.refused, self.noun))));
        faults.extend((self.in_doubt > 0).then(|| format!("{} in doubt", plural(self.in_doubt, self.noun))));
        faults.extend(self.is_stopped.then(|| "ended by a signal".into()));
        if faults.is_empty() {
            return Ok(());
        }
        Err(Failure::new(Failure::INCOMPLETE, faults.join(", ")).and(unsent))
    }

    /// Returns the lines by their numbers, in few words.
    pub(super) fn names(&self, lines: &[u64]) -> String {
        let ranges = lines.chunk_by(|line, next| line + 1 == *next).map(|range| match range {
            [first, .., last] => format!("{first}-{last}"),
            _ => range.iter().map(u64::to_string).collect(),
        });
        match lines {
            _ if self.noun != "line" => format!("the {}", self.noun),
            [one] => format!("line {one}"),
            _ => format!("lines {}", ranges.collect::<Vec<_>>().join(", ")),
        }
    }
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_named_in_few_words() {
        let report = Report::new("line");
        assert_eq!(report.names(&[7]), "line 7");
        assert_eq!(report.names(&[1, 2, 3, 5, 7, 8]), "lines 1-3, 5, 7-8");
        assert_eq!(Report::new("message").names(&[1]), "the message");
    }
}
