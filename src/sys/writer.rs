//! Writes lines to a standard stream on a thread of its own. A stream that nobody reads blocks that thread and no
//! other.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};

/// How often the end of the process waits anew for lines that the stream would take.
const FINISH_ATTEMPTS: usize = 20;

/// The lines that wait decide which of them stay when the stream takes less than is produced.
pub(crate) trait WaitingLines: Send + 'static {
    /// Removes and returns what is written next.
    fn take_next(&mut self) -> Option<Vec<u8>>;

    /// Records that the stream did not take what [`WaitingLines::take_next`] returned last.
    fn record_lost(&mut self) {}
}

/// Shared by the thread that writes and those that add lines, who hold the lock while they count what waits.
#[derive(Debug)]
pub(crate) struct StreamWriter<L> {
    state: Mutex<WriterState<L>>,
    changed: Condvar,
}

#[derive(Debug)]
struct WriterState<L> {
    lines: L,
    is_idle: bool,
}

impl<L: WaitingLines> StreamWriter<L> {
    pub(crate) fn start(name: &str, stream: impl AsFd + Send + 'static, lines: L) -> io::Result<Arc<Self>> {
        let state = Mutex::new(WriterState { lines, is_idle: true });
        let writer = Arc::new(Self { state, changed: Condvar::new() });
        let body = {
            let writer = Arc::clone(&writer);
            move || writer.write_to(&stream)
        };
        std::thread::Builder::new().name(name.into()).spawn(body)?;
        Ok(writer)
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut L)) {
        let mut state = self.lock();
        change(&mut state.lines);
        state.is_idle = false;
        self.changed.notify_all();
    }

    /// Waits until all lines are written. A stream that takes no bytes gets this time. If it takes bytes, its thread is
    /// late because the machine is busy, and gets [`FINISH_ATTEMPTS`] times as long.
    pub(crate) fn finish(&self, stream: &impl AsFd, timeout: Duration) {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let takes_bytes = || poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&now)).is_ok_and(|ready| ready > 0);
        for _ in 0..FINISH_ATTEMPTS {
            if self.becomes_idle(timeout) || !takes_bytes() {
                return;
            }
        }
    }

    fn becomes_idle(&self, timeout: Duration) -> bool {
        let wait = self.changed.wait_timeout_while(self.lock(), timeout, |state| !state.is_idle);
        wait.unwrap_or_else(PoisonError::into_inner).0.is_idle
    }

    fn lock(&self) -> MutexGuard<'_, WriterState<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, stream: &impl AsFd) -> ! {
        let mut state = self.lock();
        loop {
            let Some(next) = state.lines.take_next() else {
                state.is_idle = true;
                self.changed.notify_all();
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let written = write_all(stream, &next);
            state = self.lock();
            if written.is_err() {
                state.lines.record_lost();
            }
        }
    }
}

/// Writes past the buffer and the lock of the standard library, which the end of the process would wait for. The flag
/// O_NONBLOCK belongs to all processes that share the stream, so it stays as it is.
fn write_all(stream: &impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(stream, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // If the poll fails, the next write tells why.
                let _ = poll(&mut [PollFd::new(stream, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;

    struct OneLine(Option<Vec<u8>>);

    impl WaitingLines for OneLine {
        fn take_next(&mut self) -> Option<Vec<u8>> {
            self.0.take()
        }
    }

    /// A pipe with room stands for the stream of a thread that gets no processor: a full pipe holds the thread up.
    #[test]
    fn the_end_waits_for_a_late_thread_and_not_for_a_reader() {
        let timeout = Duration::from_secs(1);
        let ((_other_reader, with_room), (mut reader, full)) = (pipe().unwrap(), pipe().unwrap());
        fcntl_setfl(&full, fcntl_getfl(&full).unwrap() | OFlags::NONBLOCK).unwrap();
        while write(&full, &[0; 4096]).is_ok() {}
        let writer = StreamWriter::start("late", full.try_clone().unwrap(), OneLine(None)).unwrap();
        writer.update(|line| line.0 = Some(b"last".to_vec()));
        writer.finish(&full, timeout);
        assert!(!writer.becomes_idle(Duration::ZERO));
        let late = std::thread::spawn(move || {
            std::thread::sleep(timeout * 3 / 2);
            reader.read_exact(&mut [0; 65_536]).unwrap();
            reader
        });
        writer.finish(&with_room, timeout);
        assert!(writer.becomes_idle(Duration::ZERO));
        drop(late.join().unwrap());
    }
}
