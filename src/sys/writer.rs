//! Writes lines to a standard stream on a thread of its own. A stream that nobody reads blocks that thread alone.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, write};

use super::{is_ready, lock};

/// How often the end of the process waits anew for lines that the stream would take.
const FINISH_ATTEMPTS: usize = 20;

/// How much may wait for a reader that is slow or gone, and what becomes of the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingBounds {
    pub(crate) lines: usize,
    /// The bound on the bytes of these lines.
    pub(crate) bytes: usize,
    /// Lines on this subject are dropped before those on others.
    pub(crate) first_dropped: &'static str,
    /// Returns what says, before the next line, that so many were lost.
    pub(crate) notice_of_lost: fn(u64) -> Vec<u8>,
}

/// The lines that wait, the oldest first. The one that is being written is not among them.
pub(crate) struct WaitingLines {
    max: WaitingBounds,
    /// Each line has a subject, and a later one on the same subject can replace it.
    pub(crate) lines: VecDeque<(String, Vec<u8>)>,
    /// Lines that were dropped, or that the stream did not take, of which the reader was not told.
    pub(crate) lost: u64,
    is_written: bool,
}

impl WaitingLines {
    pub(crate) fn new(max: WaitingBounds) -> Self {
        Self { max, lines: VecDeque::new(), lost: 0, is_written: true }
    }

    /// Beyond the bounds, drops the oldest lines that later ones replace. What then remains is bounded by the number of
    /// subjects.
    pub(crate) fn push(&mut self, subject: String, line: Vec<u8>) {
        self.lines.push_back((subject, line));
        while let Some(at) = self.excess() {
            self.lines.remove(at);
            self.lost += 1;
        }
    }

    /// Returns the index of the line that is dropped next.
    fn excess(&self) -> Option<usize> {
        let bytes: usize = self.lines.iter().map(|(_, line)| line.len()).sum();
        if self.lines.len() <= self.max.lines && bytes <= self.max.bytes {
            return None;
        }
        let is_replaced = |&at: &usize| {
            let mut from_here = self.lines.range(at..).map(|(subject, _)| subject);
            from_here.next().is_some_and(|subject| from_here.any(|later| later == subject))
        };
        let goes_first = |at: &usize| self.lines.get(*at).is_some_and(|(subject, _)| subject == self.max.first_dropped);
        let first = (0..self.lines.len()).filter(goes_first).find(is_replaced);
        first.or_else(|| (0..self.lines.len()).find(is_replaced))
    }

    /// Removes and returns what is written next, and the number of lines that are lost if the stream does not take it.
    pub(crate) fn take_next(&mut self) -> Option<(Vec<u8>, u64)> {
        let (_, line) = self.lines.pop_front()?;
        let lost = std::mem::take(&mut self.lost);
        let notice = if lost > 0 { (self.max.notice_of_lost)(lost) } else { Vec::new() };
        Some(([notice, line].concat(), lost + 1))
    }
}

/// Shared by the thread that writes and those that add lines, who hold the lock while they count what waits.
pub(crate) struct StreamWriter {
    waiting: Mutex<WaitingLines>,
    changed: Condvar,
}

impl StreamWriter {
    pub(crate) fn start(name: &str, stream: impl AsFd + Send + 'static, max: WaitingBounds) -> io::Result<Arc<Self>> {
        let writer = Arc::new(Self { waiting: Mutex::new(WaitingLines::new(max)), changed: Condvar::new() });
        let of_thread = Arc::clone(&writer);
        std::thread::Builder::new().name(name.into()).spawn(move || of_thread.write_to(&stream))?;
        Ok(writer)
    }

    pub(crate) fn push(&self, subject: String, line: Vec<u8>) {
        let mut waiting = lock(&self.waiting);
        waiting.push(subject, line);
        waiting.is_written = false;
        self.changed.notify_all();
    }

    /// Waits until all lines are written. A stream that takes no bytes gets this time. If it takes bytes, its thread is
    /// late because the machine is busy, and gets [`FINISH_ATTEMPTS`] times as long.
    pub(crate) fn finish(&self, stream: &impl AsFd, timeout: Duration) {
        for _ in 0..FINISH_ATTEMPTS {
            if self.is_written_within(timeout) || !is_ready(stream, PollFlags::OUT) {
                return;
            }
        }
    }

    fn is_written_within(&self, timeout: Duration) -> bool {
        let wait = self.changed.wait_timeout_while(lock(&self.waiting), timeout, |waiting| !waiting.is_written);
        wait.unwrap_or_else(PoisonError::into_inner).0.is_written
    }

    fn write_to(&self, stream: &impl AsFd) -> ! {
        let mut waiting = lock(&self.waiting);
        loop {
            let Some((next, lines)) = waiting.take_next() else {
                debug_assert!(waiting.lines.is_empty(), "a line that waits is the next one");
                waiting.is_written = true;
                self.changed.notify_all();
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(waiting);
            let written = write_all(stream, &next);
            waiting = lock(&self.waiting);
            if written.is_err() {
                waiting.lost += lines;
            }
        }
    }
}

/// Writes past the buffer and the lock of the standard library, which the end of the process would wait for. The flag
/// O_NONBLOCK belongs to all processes that share the stream, so it stays as it is, and a full stream is waited for.
pub fn write_all(stream: &impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(stream, bytes) {
            Ok(written) => (_, bytes) = bytes.split_at(written),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // If the poll fails, the next write tells why.
                let _ = poll(&mut [PollFd::new(stream, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;

    const MAX: WaitingBounds = WaitingBounds { lines: 1, bytes: 10, first_dropped: "", notice_of_lost: |_| Vec::new() };

    /// A pipe with room stands for the stream of a thread that gets no processor: a full pipe holds the thread up.
    #[test]
    fn the_end_waits_for_a_late_thread_and_not_for_a_reader() {
        let timeout = Duration::from_secs(1);
        let ((_other_reader, with_room), (mut reader, full)) = (pipe().unwrap(), pipe().unwrap());
        fcntl_setfl(&full, fcntl_getfl(&full).unwrap() | OFlags::NONBLOCK).unwrap();
        while write(&full, &[0; 4096]).is_ok() {}
        let writer = StreamWriter::start("late", full.try_clone().unwrap(), MAX).unwrap();
        writer.push(String::new(), b"last".to_vec());
        writer.finish(&full, timeout);
        assert!(!writer.is_written_within(Duration::ZERO));
        let late = std::thread::spawn(move || {
            std::thread::sleep(timeout * 3 / 2);
            reader.read_exact(&mut [0; 65_536]).unwrap();
            reader
        });
        writer.finish(&with_room, timeout);
        assert!(writer.is_written_within(Duration::ZERO));
        drop(late.join().unwrap());
    }
}
