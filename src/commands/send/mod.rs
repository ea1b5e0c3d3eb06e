//! `adapter-gateway send`: posts one message, or the lines of standard input, over one connection.
//!
//! | file | what it does |
//! |---|---|
//! | `destination` | finds the gateway, the token and the certificate, and connects |
//! | `line` | reads lines, and makes the content of a request of each |
//! | `pipeline` | keeps the requests without an outcome, in order, and finds the answers in the bytes that arrive |
//! | `report` | tells a person what became of the lines |
//!
//! It blocks, without a runtime: it waits for the connection and the input with one call of poll(2). A write may block,
//! since the answers of 64 requests fit into the buffers of any socket, so the gateway never waits for it to read.
//!
//! Invariant: a request whose bytes were written is sent again only if the gateway has answered that it published
//! nothing, or that it reads nothing more on that connection.

mod destination;
mod line;
mod pipeline;
mod report;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use self::destination::{ANSWER_TIMEOUT, Destination, GatewayConnection};
use self::line::{Lines, content, content_of_line};
use self::pipeline::{Answer, Pipeline, first_answer};
use self::report::Report;
use crate::cli::SendArguments;
use crate::gateway::Failure;
use crate::sys::log::log;

/// Runs the command until all lines have an outcome.
///
/// # Errors
/// Returns the failure that ended it, or tells that not every line was accepted.
pub fn run(arguments: &SendArguments) -> Result<(), Failure> {
    let destination = Destination::new(arguments)?;
    let mut pipeline = Pipeline::new();
    let (input, noun) = match arguments.message.as_slice() {
        [] => (Some(standard_input()?), "line"),
        [topic, payload] => {
            pipeline.push(1, content(topic, payload).map_err(Failure::Usage)?);
            (None, "message")
        }
        _ => return Err(Failure::Usage("a message is one topic and one payload; quote them".into())),
    };
    let mut sender = Sender {
        head: destination.request_head()?,
        destination,
        connection: None,
        pipeline,
        input,
        last_line: 0,
        keeps_going: arguments.keep_going,
        takes: true,
        sends: true,
        is_denied: false,
        resume_at: Instant::now(),
        report: Report::new(noun),
    };
    let result = sender.run();
    if result.is_err() {
        // Usually nothing is in flight then.
        sender.broken("no answer was waited for");
    }
    let unsent = sender.unsent();
    let sums = sender.report.finish(&unsent);
    result.map_err(|failure| failure.and(&unsent)).and(sums)
}

fn standard_input() -> Result<Lines, Failure> {
    if io::stdin().is_terminal() {
        log(format_args!("each line is a topic, a tab and a payload in JSON; Ctrl-D ends the input"));
    }
    let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::configuration)?;
    Ok(Lines::of(File::from(stdin)))
}

/// The state of the command.
struct Sender {
    destination: Destination,
    /// What each request begins with. It holds the token.
    head: Vec<u8>,
    connection: Option<GatewayConnection>,
    pipeline: Pipeline,
    /// `None` for the message of the arguments.
    input: Option<Lines>,
    /// The number of the last line that was taken from the input.
    last_line: u64,
    keeps_going: bool,
    /// Whether more lines are taken from the input, and whether those that were taken are still sent.
    takes: bool,
    sends: bool,
    /// Whether the token was refused, and the settings were not read again yet.
    is_denied: bool,
    /// When the requests that were refused for now are sent again.
    resume_at: Instant,
    report: Report,
}

impl Sender {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            self.take_lines();
            let has_input = self.takes && self.input.as_ref().is_some_and(|lines| !lines.has_ended);
            let has_work = self.sends && (has_input || !self.pipeline.is_empty());
            if !has_work && !self.pipeline.is_in_flight() {
                return Ok(());
            }
            self.send()?;
            self.wait()?;
            self.report.show_progress();
        }
    }

    /// Takes the lines that have been read, as far as there is room.
    fn take_lines(&mut self) {
        let Some(lines) = &mut self.input else { return };
        while self.takes
            && self.pipeline.has_room()
            && let Some(line) = lines.next()
        {
            self.last_line += 1;
            match content_of_line(line) {
                Ok(content) => self.pipeline.push(self.last_line, content),
                Err(reason) => {
                    self.report.refused(self.last_line, &reason);
                    // Those before it are sent.
                    self.takes = self.keeps_going;
                }
            }
        }
    }

    /// Sends what may be sent now.
    fn send(&mut self) -> Result<(), Failure> {
        if self.pipeline.is_refused_for_now() {
            if self.pipeline.is_in_flight() || Instant::now() < self.resume_at {
                return Ok(());
            }
            if std::mem::take(&mut self.is_denied) {
                let head = self.destination.request_head()?;
                if head == self.head {
                    return Err(self.destination.token_refused());
                }
                self.head = head;
            }
            self.pipeline.resume();
        }
        if !self.sends || self.pipeline.is_empty() {
            return Ok(());
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.destination.connect()?),
        };
        let mut bytes = Vec::new();
        while connection.is_writable {
            bytes.clear();
            self.pipeline.send(&self.head, &mut bytes);
            if bytes.is_empty() {
                break;
            }
            connection.write(&bytes);
        }
        Ok(())
    }

    /// Waits for answers and for lines, and takes them in.
    fn wait(&mut self) -> Result<(), Failure> {
        let wants_lines = self.takes && self.pipeline.has_room();
        let timeout = if self.pipeline.is_in_flight() {
            Some(ANSWER_TIMEOUT)
        } else if self.pipeline.is_refused_for_now() {
            Some(self.resume_at.saturating_duration_since(Instant::now()))
        } else {
            None
        };
        let lines = self.input.as_mut().filter(|lines| wants_lines && !lines.has_ended);
        let sources = [self.connection.as_ref().map(AsFd::as_fd), lines.as_ref().map(|lines| lines.file.as_fd())];
        let [answers_came, lines_came] = ready(sources, timeout).map_err(Failure::configuration)?;
        if lines_came
            && let Some(lines) = lines
            && let Err(error) = lines.read()
        {
            self.report.refused(self.last_line + 1, &format!("it cannot be read: {error}"));
            self.takes = false;
        }
        if answers_came {
            self.receive();
        } else if !lines_came && self.pipeline.is_in_flight() {
            self.broken("no answer came in time");
        }
        Ok(())
    }

    /// Reads answers. Without a request in flight, whatever comes is the end of an idle connection, which is no fault.
    fn receive(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let is_open = connection.read();
        let mut rest = connection.received.as_slice();
        while self.pipeline.is_in_flight() {
            match first_answer(rest) {
                Ok(Some((answer, length))) => {
                    rest = rest.get(length..).unwrap_or_default();
                    // An interim answer is followed by the one that counts.
                    if answer.status < 200 {
                        continue;
                    }
                    self.take(&answer);
                    if answer.closes {
                        // RFC 9112 §9.6: the gateway has read nothing behind this request.
                        return self.pipeline.unsend();
                    }
                }
                Ok(None) => break,
                Err(reason) => return self.broken(reason),
            }
        }
        let is_used = self.pipeline.is_in_flight() || rest.is_empty();
        let taken = connection.received.len() - rest.len();
        connection.received.drain(..taken);
        match is_open {
            Ok(true) if is_used => self.connection = Some(connection),
            Err(error) => self.broken(&error.to_string()),
            Ok(_) => self.broken("the gateway closed the connection"),
        }
    }

    /// Takes an answer in.
    fn take(&mut self, answer: &Answer) {
        let Some(line) = self.pipeline.answered(answer.status) else { return };
        match answer.status {
            200 => {
                self.report.accepted += 1;
                self.report.overtaking += u64::from(self.pipeline.is_refused_for_now());
            }
            401 => {
                self.is_denied = true;
                self.resume_at = Instant::now();
            }
            503 => {
                self.report.refused_for_now(line, &answer.reason);
                self.resume_at = Instant::now() + Duration::from_secs(answer.retry_after_s);
            }
            _ => {
                self.report.refused(line, &answer.reason);
                self.end_unless_it_keeps_going();
            }
        }
    }

    /// Ends a connection that is of no more use. What is in flight is in doubt.
    fn broken(&mut self, reason: &str) {
        self.connection = None;
        let lines = self.pipeline.in_doubt();
        if !lines.is_empty() {
            self.report.in_doubt(&lines, reason);
            self.end_unless_it_keeps_going();
        }
    }

    fn end_unless_it_keeps_going(&mut self) {
        self.takes &= self.keeps_going;
        self.sends &= self.keeps_going;
    }

    /// Tells which lines were not sent.
    fn unsent(&mut self) -> String {
        let Some(input) = &mut self.input else { return String::new() };
        let (lines, last) = (self.pipeline.lines(), self.last_line);
        match (lines.is_empty(), input.has_ended && input.next().is_none()) {
            (true, true) => String::new(),
            (true, false) => format!("unsent: everything behind line {last}"),
            (false, true) => format!("unsent: {}", self.report.names(&lines)),
            (false, false) => format!("unsent: {} and everything behind line {last}", self.report.names(&lines)),
        }
    }
}

/// Waits until one of the sources is ready, or the time is over. Returns which of them are ready.
fn ready(sources: [Option<BorrowedFd<'_>>; 2], timeout: Option<Duration>) -> io::Result<[bool; 2]> {
    let timeout = timeout.map(TryInto::try_into).transpose().unwrap_or_default();
    let mut polled: Vec<PollFd<'_>> =
        sources.iter().flatten().map(|source| PollFd::new(source, PollFlags::IN)).collect();
    retry_on_intr(|| poll(&mut polled, timeout.as_ref()))?;
    let mut results = polled.iter().map(|polled| !polled.revents().is_empty());
    Ok(sources.map(|source| source.is_some() && results.next().unwrap_or_default()))
}
