//! `adapter-gateway send`: posts one message, or the lines of standard input, over one connection.
//!
//! It has no runtime. It takes the lines that have come, writes up to 64 of them at once, takes the outcome of each, and
//! goes on. `docs/clients.md` has the rule.
//!
//! Invariant: a request whose bytes were written is sent again only if the gateway has answered that it published
//! nothing, or that it reads nothing more on that connection.

mod answer;
mod connection;
mod destination;
mod line;
mod report;
mod stop;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use self::answer::{Answer, NoAnswer};
use self::connection::GatewayConnection;
use self::destination::Destination;
use self::line::{Lines, content, content_of_line};
use self::report::Report;
use self::stop::Stop;
use crate::cli::SendArguments;
use crate::gateway::Failure;
use crate::http::problem::ServiceUnavailable;
use crate::sys::is_ready;
use crate::sys::log::log;
use crate::sys::retry::retry_until;

/// The most requests that wait for their answers, and the most bytes of lines that are held. One line may be longer.
const IN_FLIGHT: usize = 64;
const HELD_BYTES: usize = 1024 * 1024;

/// How long a request may wait for its final answer, from when it was to be written. The gateway answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a gateway that goes away is waited for, with the last handshake, and the pause between two attempts.
const RETURN_TIMEOUT: Duration = Duration::from_secs(30);
const RETURN_PAUSE: Duration = Duration::from_millis(100);

/// How long lines are refused for now, with none accepted meanwhile, until one is refused for good.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause before a token is tried once more that was refused just after the settings were written.
const TOKEN_PAUSE: Duration = Duration::from_millis(500);

/// Runs the command until all lines have an outcome. It fails also if not every line was accepted.
pub fn run(arguments: &SendArguments) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let destination = Destination::new(arguments)?;
    let mut waiting = VecDeque::new();
    let (input, noun) = match arguments.message.as_slice() {
        [] => {
            if io::stdin().is_terminal() {
                log(format_args!("each line is a topic, a tab and a payload in JSON; Ctrl-D ends the input"));
            }
            let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(Failure::configuration)?;
            (Some(Lines::of(File::from(stdin))), "line")
        }
        [topic, payload] => {
            let content = content(topic, payload).map_err(|fault| Failure::new(Failure::USAGE, fault))?;
            waiting.push_back(Line { number: 1, content });
            (None, "message")
        }
        _ => return Err(Failure::new(Failure::USAGE, "a message is one topic and one payload; quote them")),
    };
    let mut sender = Sender {
        head: destination.request_head()?,
        destination,
        connection: None,
        waiting,
        input,
        last_line: 0,
        keeps_going: arguments.keep_going,
        takes: true,
        sends: true,
        window: IN_FLIGHT,
        resume_at: Instant::now(),
        unavailable_since: None,
        was_asked_again: false,
        was_connected: false,
        stop,
        report: Report::new(noun),
    };
    let result = sender.run();
    let unsent = sender.unsent();
    let sums = sender.report.finish(&unsent);
    result.map_err(|failure| failure.and(&unsent)).and(sums)
}

/// What one request posts.
struct Line {
    /// From 1.
    number: u64,
    content: Vec<u8>,
}

struct Sender {
    destination: Destination,
    /// What each request begins with. It holds the token.
    head: Vec<u8>,
    connection: Option<GatewayConnection>,
    /// What is to be sent, in the order of the lines.
    waiting: VecDeque<Line>,
    /// `None` for the message of the arguments.
    input: Option<Lines>,
    /// The number of the last line that was taken from the input.
    last_line: u64,
    keeps_going: bool,
    /// Whether more lines are taken from the input, and whether those that wait are still sent.
    takes: bool,
    sends: bool,
    /// How many lines are sent at once. A refusal for now makes it 1, so that few lines overtake the refused one if it is
    /// refused again.
    window: usize,
    /// When something is sent again.
    resume_at: Instant,
    /// When the first line was refused for now behind the last accepted one.
    unavailable_since: Option<Instant>,
    /// Whether the token was refused, and the gateway was asked once more.
    was_asked_again: bool,
    /// Whether the gateway was there.
    was_connected: bool,
    stop: Arc<Stop>,
    report: Report,
}

impl Sender {
    fn run(&mut self) -> Result<(), Failure> {
        while self.wait()? {
            if self.connection.is_none() {
                self.connection = self.connect()?;
            }
            if let Some(connection) = self.connection.take() {
                self.exchange(connection)?;
            }
            self.report.show_progress(self.input.as_ref().and_then(Lines::share));
        }
        Ok(())
    }

    /// Waits until a line can be sent. Returns false if none is left, or none is to be sent any more.
    fn wait(&mut self) -> Result<bool, Failure> {
        loop {
            self.take_lines();
            // One that the gateway has ended is closed at once, and no line is written to it.
            self.connection.take_if(|connection| !connection.is_idle());
            let pause = self.resume_at.saturating_duration_since(Instant::now());
            let lines = self.input.as_mut().filter(|lines| self.takes && !lines.has_ended);
            let has_lines = !self.waiting.is_empty();
            if !self.sends || (!has_lines && lines.is_none()) {
                return Ok(false);
            } else if self.stop.is_asked() {
                self.report.is_stopped = true;
                return Ok(false);
            } else if has_lines && pause.is_zero() {
                return Ok(true);
            }
            let lines = lines.filter(|_| !has_lines);
            let of_lines = lines.as_ref().map(|lines| PollFd::new(&lines.file, PollFlags::IN));
            let polled = of_lines.into_iter().chain(self.connection.as_ref().map(GatewayConnection::awaited));
            self.stop.wait(polled, has_lines.then_some(pause), true).map_err(Failure::configuration)?;
            if let Some(lines) = lines.filter(|lines| is_ready(&lines.file, PollFlags::IN))
                && let Err(error) = lines.read()
            {
                self.last_line += 1;
                self.report.refused(self.last_line, &format!("it cannot be read: {error}"));
                self.takes = false;
            }
        }
    }

    fn take_lines(&mut self) {
        let Some(lines) = &mut self.input else { return };
        let mut held_bytes: usize = self.waiting.iter().map(|line| line.content.len()).sum();
        while self.takes
            && self.waiting.len() < IN_FLIGHT
            && held_bytes < HELD_BYTES
            && let Some(line) = lines.next()
        {
            self.last_line += 1;
            match content_of_line(&line) {
                Ok(content) => {
                    held_bytes += content.len();
                    self.waiting.push_back(Line { number: self.last_line, content });
                }
                Err(reason) => {
                    self.report.refused(self.last_line, &reason);
                    // Those before it are sent.
                    self.takes = self.keeps_going;
                }
            }
        }
    }

    /// Connects. A gateway that was there is waited for. Returns `None` if the stop is asked for meanwhile.
    fn connect(&mut self) -> Result<Option<GatewayConnection>, Failure> {
        let return_by = Instant::now() + RETURN_TIMEOUT;
        let is_awaited =
            |failure: &Failure| self.was_connected && failure.status == Failure::NO_GATEWAY && !self.stop.is_asked();
        let attempt = || {
            let connected = self.destination.connect(return_by, &self.stop);
            // A gateway that its settings have switched off does not come back.
            if connected.as_ref().is_err_and(is_awaited) && !self.destination.has_young_settings() {
                self.head = self.destination.request_head()?;
            }
            connected
        };
        let connected = retry_until(RETURN_TIMEOUT, RETURN_PAUSE, attempt, is_awaited);
        if self.stop.is_asked() {
            return Ok(None);
        }
        self.was_connected |= connected.is_ok();
        connected.map(Some)
    }

    /// Writes the requests of the first lines that wait, and takes the outcome of each. Those that were refused for now,
    /// or that the gateway has not read, wait again. The connection is kept if it can be used again.
    fn exchange(&mut self, mut connection: GatewayConnection) -> Result<(), Failure> {
        // Nobody knows whether a server that has answered nothing reads at all.
        let count = self.waiting.len().min(if connection.has_answered { self.window } else { 1 });
        let mut sent: VecDeque<Line> = self.waiting.drain(..count).collect();
        let mut requests = Vec::new();
        for Line { content, .. } in &sent {
            requests.extend_from_slice(&self.head);
            // Writing to a vector never fails.
            let _ = write!(requests, "{}\r\n\r\n", content.len());
            requests.extend_from_slice(content);
        }
        let answer_by = Instant::now() + ANSWER_TIMEOUT;
        connection.write(&requests);
        let (mut again, mut closes, mut is_denied, mut result) = (Vec::new(), false, false, Ok(()));
        while !sent.is_empty() && !closes && result.is_ok() {
            match connection.answer(answer_by, &self.stop) {
                Ok(answer) => {
                    (closes, is_denied) = (answer.closes, is_denied || answer.status == 401);
                    if let Some(line) = sent.pop_front() {
                        result = self.take(line, &answer, &mut again);
                    }
                }
                Err(no_answer) => {
                    closes = true;
                    result = self.lose(&mut sent, no_answer);
                }
            }
        }
        self.window = if again.is_empty() { IN_FLIGHT.min(2 * self.window) } else { 1 };
        if closes {
            // RFC 9112 §9.6: of a connection that ends, the gateway has read nothing behind this request.
            again.extend(sent);
        } else if result.is_err() {
            let _ = self.lose(&mut sent, NoAnswer::Broken("the gateway is off".into()));
        } else {
            self.connection = Some(connection);
        }
        again.into_iter().rev().for_each(|line| self.waiting.push_front(line));
        result?;
        if is_denied { self.read_token_again() } else { Ok(()) }
    }

    /// Takes the outcome of a line.
    fn take(&mut self, line: Line, answer: &Answer, again: &mut Vec<Line>) -> Result<(), Failure> {
        let is_final = self.unavailable_since.is_some_and(|since| since.elapsed() >= RETRY_TIMEOUT);
        match answer.status {
            200 => {
                (self.was_asked_again, self.unavailable_since) = (false, None);
                self.report.accepted += 1;
                self.report.overtaking += u64::from(!again.is_empty());
            }
            401 => again.push(line),
            503 if answer.kind == ServiceUnavailable::Disabled.kind() => {
                again.push(line);
                let name = &self.destination.name;
                let text = format!("the gateway at {name} is off: its settings have switched it off");
                return Err(Failure::configuration(text));
            }
            503 if !is_final => {
                self.report.refused_for_now(line.number, &answer.reason);
                self.unavailable_since.get_or_insert_with(Instant::now);
                self.resume_at = Instant::now() + answer.retry_after;
                again.push(line);
            }
            // A proxy has passed the request on, perhaps whole, and got no answer.
            status @ (500..=502 | 504..) if answer.kind.is_empty() => {
                self.report.in_doubt(&[line.number], &format!("a proxy answers {status}"));
                self.end(self.keeps_going);
            }
            status => {
                self.report.refused(line.number, &answer.reason);
                self.end(self.keeps_going && status != 503);
            }
        }
        Ok(())
    }

    /// What was sent and has no answer is in doubt.
    fn lose(&mut self, sent: &mut VecDeque<Line>, no_answer: NoAnswer) -> Result<(), Failure> {
        let lines: Vec<_> = sent.drain(..).map(|line| line.number).collect();
        let (reason, result) = match no_answer {
            NoAnswer::Broken(reason) => (reason, Ok(())),
            NoAnswer::Stranger => {
                let text = format!("what answers at {} is no gateway", self.destination.name);
                ("no answer of a gateway came".into(), Err(Failure::new(Failure::NO_GATEWAY, text)))
            }
        };
        if !lines.is_empty() {
            self.report.in_doubt(&lines, &reason);
            self.end(self.keeps_going);
        }
        result
    }

    fn end(&mut self, goes_on: bool) {
        self.takes &= goes_on;
        self.sends &= goes_on;
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
            let text = format!(
                "the gateway at {name} refuses the token of {}; name the settings file of that gateway with --settings",
                settings.display()
            );
            return Err(Failure::new(Failure::TOKEN_REFUSED, text));
        }
        Ok(())
    }

    /// Tells which lines were not sent, with the line to go on with where those behind it are all unsent.
    fn unsent(&mut self) -> String {
        let Some(input) = &mut self.input else { return String::new() };
        let mut lines: Vec<_> = self.waiting.iter().map(|line| line.number).collect();
        if !input.has_more() {
            return if lines.is_empty() { String::new() } else { format!("unsent: {}", self.report.names(&lines)) };
        }
        let mut next = self.last_line + 1;
        while lines.pop_if(|line| *line + 1 == next).is_some() {
            next -= 1;
        }
        let others = if lines.is_empty() { String::new() } else { format!("{} and ", self.report.names(&lines)) };
        format!("unsent: {others}everything from line {next} on")
    }
}
