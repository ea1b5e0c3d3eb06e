//! `adapter-gateway send`: posts one message, or the lines of standard input, over one connection.
//!
//! It has no runtime: it waits for the connection and the input with one call of poll(2).
//!
//! Invariant: a request whose bytes were written is sent again only if the gateway has answered that it published
//! nothing, or that it reads nothing more on that connection.

mod destination;
mod line;
mod pipeline;
mod report;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use self::destination::{Destination, GatewayConnection, wait_for};
use self::line::{Lines, content, content_of_line};
use self::pipeline::{Answer, AnswerFault, Pipeline, first_answer};
use self::report::Report;
use crate::cli::SendArguments;
use crate::gateway::Failure;
use crate::message::publish::Unavailable;
use crate::sys::log::log;
use crate::sys::retry::retry_until;
use crate::sys::secret_file::BYTE_ORDER_MARK;

/// How long a request may wait for its final answer, from when it was to be written. The gateway answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a gateway that goes away is waited for, with the last handshake, and the pause between two attempts.
const RETURN_TIMEOUT: Duration = Duration::from_secs(30);
const RETURN_PAUSE: Duration = Duration::from_millis(100);

/// The pause before a token is tried once more that was refused just after the settings were written.
const TOKEN_PAUSE: Duration = Duration::from_millis(500);

/// Runs the command until all lines have an outcome. It fails also if not every line was accepted.
pub fn run(arguments: &SendArguments) -> Result<(), Failure> {
    let destination = Destination::new(arguments)?;
    let mut pipeline = Pipeline::new();
    let (input, noun) = match arguments.message.as_slice() {
        [] => {
            if io::stdin().is_terminal() {
                log(format_args!("each line is a topic, a tab and a payload in JSON; Ctrl-D ends the input"));
            }
            let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::configuration)?;
            (Some(Lines::of(File::from(stdin))), "line")
        }
        [topic, payload] => {
            pipeline.push(1, content(topic, payload).map_err(|fault| Failure::new(Failure::USAGE, fault))?);
            (None, "message")
        }
        _ => return Err(Failure::new(Failure::USAGE, "a message is one topic and one payload; quote them")),
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
        was_asked_again: false,
        resume_at: Instant::now(),
        was_connected: false,
        report: Report::new(noun),
    };
    let result = sender.run();
    if result.is_err() {
        // What is in flight then was sent to a server that is no gateway.
        sender.broken("no answer of a gateway came");
    }
    let unsent = sender.unsent();
    let sums = sender.report.finish(&unsent);
    result.map_err(|failure| failure.and(&unsent)).and(sums)
}

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
    /// Whether the token was refused, and whether it was so after the gateway was asked once more.
    is_denied: bool,
    was_asked_again: bool,
    /// When something is sent again.
    resume_at: Instant,
    /// Whether the gateway was there.
    was_connected: bool,
    report: Report,
}

impl Sender {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            self.take_lines();
            let has_input = self.takes && self.input.as_ref().is_some_and(|lines| !lines.has_ended);
            let has_work = self.sends && (has_input || !self.pipeline.is_empty());
            if !has_work && self.pipeline.in_flight == 0 {
                return Ok(());
            }
            self.send()?;
            self.wait()?;
            self.report.show_progress();
        }
    }

    fn take_lines(&mut self) {
        let Some(lines) = &mut self.input else { return };
        while self.takes
            && self.pipeline.has_room()
            && let Some(line) = lines.next()
        {
            self.last_line += 1;
            let unmarked = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| self.last_line == 1);
            match content_of_line(unmarked.unwrap_or(&line)) {
                Ok(content) => self.pipeline.push(self.last_line, content),
                Err(reason) => {
                    self.report.refused(self.last_line, &reason);
                    // Those before it are sent.
                    self.takes = self.keeps_going;
                }
            }
        }
    }

    fn send(&mut self) -> Result<(), Failure> {
        if self.pipeline.refused > 0 {
            if self.pipeline.in_flight > 0 {
                return Ok(());
            }
            if std::mem::take(&mut self.is_denied) {
                self.read_token_again()?;
            }
            self.pipeline.refused = 0;
        }
        if !self.sends || self.pipeline.is_empty() || Instant::now() < self.resume_at {
            return Ok(());
        }
        // After a failed write, the answers to what is in flight are still read.
        if !self.connection.as_ref().is_some_and(|it| it.is_writable || self.pipeline.in_flight > 0) {
            self.connect()?;
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        while connection.is_writable && !connection.has_unsent() {
            let bytes = self.pipeline.send(&self.head);
            if bytes.is_empty() {
                break;
            }
            connection.write(&bytes);
        }
        Ok(())
    }

    /// Connects. A gateway that was there is waited for: nothing is in flight that could be answered meanwhile.
    fn connect(&mut self) -> Result<(), Failure> {
        let return_by = Instant::now() + RETURN_TIMEOUT;
        let is_awaited = |failure: &Failure| self.was_connected && failure.status == Failure::NO_GATEWAY;
        let attempt = || {
            let connected = self.destination.connect(return_by);
            // A gateway that its settings have switched off does not come back.
            if connected.as_ref().is_err_and(is_awaited) && !self.destination.has_young_settings() {
                self.head = self.destination.request_head()?;
            }
            connected
        };
        self.connection = Some(retry_until(RETURN_TIMEOUT, RETURN_PAUSE, attempt, is_awaited)?);
        self.was_connected = true;
        Ok(())
    }

    /// Reads the token again that was refused. If it is the same and was just written, the gateway may not have read it
    /// yet, and is asked once more.
    fn read_token_again(&mut self) -> Result<(), Failure> {
        let head = self.destination.request_head()?;
        if head != self.head {
            (self.head, self.was_asked_again) = (head, false);
        } else if !self.was_asked_again && self.destination.has_young_settings() {
            self.was_asked_again = true;
            self.resume_at = Instant::now() + TOKEN_PAUSE;
        } else {
            let Destination { name, settings, .. } = &self.destination;
            let settings = settings.display();
            let text = format!(
                "the gateway at {name} refuses the token of {settings}; name the settings file of that gateway with \
                 --settings"
            );
            return Err(Failure::new(Failure::TOKEN_REFUSED, text));
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let wants_lines = self.takes && self.pipeline.has_room();
        let due = match self.pipeline.oldest_due_at() {
            Some(due_at) => Some(due_at + ANSWER_TIMEOUT),
            None => Some(self.resume_at).filter(|_| self.sends && !self.pipeline.is_empty()),
        };
        let timeout = due.map(|due| due.saturating_duration_since(Instant::now()));
        if let Some(connection) = &mut self.connection {
            connection.flush();
        }
        let lines = self.input.as_mut().filter(|lines| wants_lines && !lines.has_ended);
        let mut polled: Vec<_> = self.connection.iter().map(GatewayConnection::awaited).collect();
        polled.extend(lines.iter().map(|lines| PollFd::new(&lines.file, PollFlags::IN)));
        wait_for(&mut polled, timeout).map_err(Failure::configuration)?;
        let is_ready = |polled: Option<&PollFd<'_>>| polled.is_some_and(|it| !it.revents().is_empty());
        let answers_came = self.connection.is_some() && is_ready(polled.first());
        let lines_came = lines.is_some() && is_ready(polled.last());
        if lines_came
            && let Some(lines) = lines
            && let Err(error) = lines.read()
        {
            self.last_line += 1;
            self.report.refused(self.last_line, &format!("it cannot be read: {error}"));
            self.takes = false;
        }
        if answers_came {
            self.receive()?;
        }
        if self.pipeline.oldest_due_at().is_some_and(|due_at| due_at.elapsed() >= ANSWER_TIMEOUT) {
            self.broken("no answer came in time");
        }
        Ok(())
    }

    /// Reads answers. Without a request in flight, whatever comes is the end of an idle connection, which is no fault.
    fn receive(&mut self) -> Result<(), Failure> {
        let Some(mut connection) = self.connection.take() else { return Ok(()) };
        let is_open = connection.read();
        let mut rest = connection.received.as_slice();
        while self.pipeline.in_flight > 0 {
            match first_answer(rest) {
                Ok(Some((answer, length))) => {
                    rest = rest.get(length..).unwrap_or_default();
                    // An interim answer is followed by the one that counts.
                    if answer.status < 200 {
                        continue;
                    }
                    self.take(&answer)?;
                    if answer.closes {
                        return Ok(());
                    }
                }
                Ok(None) => break,
                Err(AnswerFault) => {
                    let text = format!("what answers at {} is no gateway", self.destination.name);
                    return Err(Failure::new(Failure::NO_GATEWAY, text));
                }
            }
        }
        let is_used = self.pipeline.in_flight > 0 || rest.is_empty();
        let taken = connection.received.len() - rest.len();
        connection.received.drain(..taken);
        match is_open {
            Ok(true) if is_used => self.connection = Some(connection),
            Err(error) => self.broken(&error.to_string()),
            Ok(_) => self.broken("the gateway closed the connection"),
        }
        Ok(())
    }

    fn take(&mut self, answer: &Answer) -> Result<(), Failure> {
        let Some(line) = self.pipeline.answered(answer) else { return Ok(()) };
        match answer.status {
            200 => {
                self.was_asked_again = false;
                self.report.accepted += 1;
                self.report.overtaking += u64::from(self.pipeline.refused > 0);
            }
            401 => self.is_denied = true,
            503 if answer.kind == Unavailable::Disabled.kind() => {
                let name = &self.destination.name;
                let text = format!("the gateway at {name} is off: its settings have switched it off");
                return Err(Failure::configuration(text));
            }
            503 => {
                self.report.refused_for_now(line, &answer.reason);
                self.resume_at = Instant::now() + Duration::from_secs(answer.retry_after_s);
            }
            status => {
                // A proxy has passed the request on, perhaps whole, and got no answer.
                if status >= 500 && answer.kind.is_empty() {
                    self.report.in_doubt(&[line], &format!("a proxy answers {status}"));
                } else {
                    self.report.refused(line, &answer.reason);
                }
                self.end_unless_it_keeps_going();
            }
        }
        Ok(())
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
