//! The requests that wait, that are in flight and that are to be sent again, in the order of their lines.

use std::collections::VecDeque;
use std::io::Write;

/// The most requests that wait for their answers, and the most bytes of lines that are held. One line may be longer.
pub(super) const IN_FLIGHT: usize = 64;
const HELD_BYTES: usize = 1024 * 1024;

/// The request that posts a line.
pub(super) struct LineRequest {
    pub(super) line: u64,
    pub(super) content: Vec<u8>,
}

/// The requests without an outcome.
pub(super) struct Pipeline {
    unsent: VecDeque<LineRequest>,
    in_flight: VecDeque<LineRequest>,
    /// Refused for now. Nothing else is sent before them.
    again: Vec<LineRequest>,
    /// The bytes of all contents.
    held_bytes: usize,
    /// How many requests may be in flight. A refusal for now makes it 1, so that few lines overtake the refused one if
    /// it is refused again. Each accepted line doubles it.
    window: usize,
}

impl Pipeline {
    pub(super) fn new() -> Self {
        let (unsent, in_flight, again) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Self { unsent, in_flight, again, held_bytes: 0, window: IN_FLIGHT }
    }

    /// Returns whether another line may be taken from the input.
    pub(super) fn has_room(&self) -> bool {
        self.again.is_empty() && self.unsent.len() + self.in_flight.len() < IN_FLIGHT && self.held_bytes < HELD_BYTES
    }

    pub(super) fn push(&mut self, request: LineRequest) {
        self.held_bytes += request.content.len();
        self.unsent.push_back(request);
    }

    pub(super) fn is_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    pub(super) fn is_refused_for_now(&self) -> bool {
        !self.again.is_empty()
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Adds requests that may be sent now to `bytes`: half of the window at most, and none before half of those in flight
    /// are answered. So one call to the system writes many, and the gateway has one half while the other one is written.
    pub(super) fn send(&mut self, head: &[u8], bytes: &mut Vec<u8>) {
        if self.in_flight.len() > self.window / 2 {
            return;
        }
        for _ in 0..self.window.div_ceil(2) {
            let Some(request) = self.unsent.pop_front() else { return };
            bytes.extend_from_slice(head);
            // Writing to a vector never fails.
            let _ = write!(bytes, "{}\r\n\r\n", request.content.len());
            bytes.extend_from_slice(&request.content);
            self.in_flight.push_back(request);
        }
    }

    /// Removes the request that the next answer belongs to.
    pub(super) fn answered(&mut self) -> Option<LineRequest> {
        let request = self.in_flight.pop_front()?;
        self.held_bytes -= request.content.len();
        Some(request)
    }

    /// Notes that a request was accepted. Returns whether its line has overtaken another one.
    pub(super) fn accepted(&mut self) -> bool {
        self.window = IN_FLIGHT.min(2 * self.window);
        !self.again.is_empty()
    }

    /// Keeps a request that was refused for now.
    pub(super) fn refused_for_now(&mut self, request: LineRequest) {
        self.window = 1;
        self.held_bytes += request.content.len();
        self.again.push(request);
    }

    /// Has the requests sent next that were refused for now.
    pub(super) fn resume(&mut self) {
        for request in self.again.drain(..).rev() {
            self.unsent.push_front(request);
        }
    }

    /// Has everything in flight sent anew, since the gateway has not read it.
    pub(super) fn unsend(&mut self) {
        for request in self.in_flight.drain(..).rev() {
            self.unsent.push_front(request);
        }
    }

    /// Removes everything in flight, and returns the numbers of the lines.
    pub(super) fn in_doubt(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.answered()).map(|request| request.line).collect()
    }

    /// Returns the numbers of the lines that are not accepted and not in flight.
    pub(super) fn unsent_lines(&self) -> Vec<u64> {
        self.again.iter().chain(&self.unsent).map(|request| request.line).collect()
    }
}
