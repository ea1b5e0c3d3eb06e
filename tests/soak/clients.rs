//! The clients. Each has one connection at a time, and judges each answer by what it sent and by what was changing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::account::{Outcome, message};
use crate::stream::{Stream, Way};
use crate::support::ladder::{Fault, LADDER};
use crate::support::plan::{ClientEnd, Finish, Pace, Piece, Plan};
use crate::support::{Answer, Random, Request};
use crate::world::{Change, HEAD_TIMEOUT, IDLE_TIMEOUT, Moment, World};

/// How long a client waits for anything. It bounds a run in which something hangs, and measures nothing.
const PATIENCE: Duration = Duration::from_secs(180);
/// The most requests that a client sends at once.
const PIPELINE: usize = 8;

/// How many milliseconds a client may think between two requests: some for longer than the gateway waits for them.
const THINKING_MS: Range<usize> = 0..24_000;
/// How many milliseconds a client waits before it connects again.
const AWAY_MS: Range<usize> = 500..8_000;

#[derive(Clone, Copy, Debug)]
enum Kind {
    KeepAlive,
    Pipelined,
    ConnectionEach,
    Slow,
    Rude,
}

/// The default of `--max-body`.
const MAX_BODY_BYTES: usize = 1 << 20;

struct Client {
    world: Arc<World>,
    way: Way,
    random: Random,
    connection: u32,
    begun: Moment,
    /// When its last request but one began. The time without a request is not longer.
    previous: Instant,
    /// When its last request began. The first one begins with the connection.
    latest: Instant,
    requests: u32,
    /// How many pieces of its last plan were sent.
    pieces: usize,
}

struct Sent {
    number: u32,
    at: Moment,
    /// The status that its answer should have.
    wanted: u16,
}

/// Runs the client of this number until the load is over.
pub(crate) async fn run(world: Arc<World>, seed: u64, number: usize) {
    let mut random = Random::for_user(seed, number as u64);
    // So many of 100 clients are of each kind. Half of each kind connect by TCP.
    let kind = match (number / 2) % 100 {
        0..55 => Kind::KeepAlive,
        55..70 => Kind::Pipelined,
        70..80 => Kind::ConnectionEach,
        80..90 => Kind::Slow,
        _ => Kind::Rude,
    };
    let way = if number.is_multiple_of(2) { Way::Tcp } else { Way::Unix };
    world.pause(random.pause_ms(AWAY_MS)).await;
    while !world.is_over() {
        Client::new(&world, way, random.fork()).live(kind).await;
        world.pause(random.pause_ms(AWAY_MS)).await;
    }
}

impl Client {
    fn new(world: &Arc<World>, way: Way, random: Random) -> Self {
        let (begun, latest) = (world.changes.now(), Instant::now());
        let connection = world.account().open_connection();
        let (world, previous, requests, pieces) = (Arc::clone(world), latest, 0, 0);
        Self { world, way, random, connection, begun, previous, latest, requests, pieces }
    }

    async fn live(&mut self, kind: Kind) {
        let by_https = self.way == Way::Tcp && self.world.tls().is_some();
        let is_plain = matches!(kind, Kind::Rude) && by_https && self.random.permille(100);
        let Some(stream) = self.connect(!is_plain).await else { return };
        let choice = self.random.within(0..10);
        match kind {
            // The port speaks https. The answer is in http, and in plain text.
            Kind::Rude if is_plain => _ = self.exchange(&stream, 1, 400).await,
            Kind::Rude => self.be_rude(&stream, choice).await,
            Kind::ConnectionEach if choice < 5 => _ = self.exchange(&stream, 1, 200).await,
            Kind::ConnectionEach => self.post_and_be_closed(&stream).await,
            Kind::Slow if choice < 6 => self.trickle(&stream).await,
            // It sends a part of a request and waits until the gateway gives up.
            Kind::Slow if choice < 8 => self.send_a_part(&stream, 408, Finish::Wait).await,
            Kind::Slow => self.stay_idle(&stream).await,
            Kind::KeepAlive | Kind::Pipelined => {
                let most = if matches!(kind, Kind::Pipelined) { PIPELINE } else { 1 };
                for _ in 0..self.random.within(1..40) {
                    let count = self.random.within(1..most + 1);
                    if !self.exchange(&stream, count, 200).await || self.world.is_over() {
                        break;
                    }
                    self.world.pause(self.random.pause_ms(THINKING_MS)).await;
                }
            }
        }
        stream.close();
    }

    /// Breaks off, or sends what must be refused. Whatever it sends holds a real message, so that one that is published
    /// in spite of its refusal is noticed.
    async fn be_rude(&mut self, stream: &Stream, choice: usize) {
        let leave = self.random.pick(&[Finish::Close, Finish::Reset]);
        match choice {
            0 => {}
            1 | 2 => {
                // An incomplete request is 400. In TLS without close_notify there is no answer.
                let finish = if self.random.permille(300) { Finish::EndSide } else { leave };
                self.send_a_part(stream, 400, finish).await;
            }
            3 | 4 => {
                let count = if self.random.permille(500) { 1 } else { self.random.within(2..20) };
                let wire: Vec<u8> = (0..count).flat_map(|_| self.message(200).1.bytes()).collect();
                self.begin_request();
                let plan = Plan { pace: Pace::Stops(0), ..Plan::at_once(wire, Finish::Vanish) };
                // The gateway takes no further requests while the client takes no answers.
                let time = self.random.pause_ms(1..6_000);
                let _ = tokio::time::timeout(time, plan.follow(&Talk::of(self, stream, Vec::new()))).await;
            }
            _ => {
                let (sent, request) = self.wrong_request();
                let plan = Plan::at_once(request.bytes(), Finish::GoOn(1));
                self.follow(stream, vec![sent], &plan).await;
            }
        }
        // Drop closes it in TLS without close_notify.
        match leave {
            Finish::Reset => stream.reset(),
            _ if self.random.permille(500) => stream.close(),
            _ => stream.is_closed.set(true),
        }
    }

    fn wrong_request(&mut self) -> (Sent, Request) {
        let refused: Vec<_> = LADDER.iter().filter(|row| ![Fault::NoHub, Fault::None].contains(&row.0)).collect();
        let (fault, status, _) = self.random.pick(&refused);
        let (sent, request) = self.message(*status);
        let request = match fault {
            Fault::Token if self.random.permille(500) => {
                request.target(&format!("/api/message?token={}", self.world.former_token()))
            }
            _ => fault.put_into(request, MAX_BODY_BYTES),
        };
        (sent, request)
    }

    /// Sends so many requests at once and reads their answers. Returns whether the connection goes on.
    async fn exchange(&mut self, stream: &Stream, count: usize, wanted: u16) -> bool {
        let (sent, requests): (Vec<_>, Vec<_>) = (0..count).map(|_| self.message(wanted)).unzip();
        let plan = Plan::at_once(requests.iter().flat_map(Request::bytes).collect(), Finish::GoOn(count));
        self.follow(stream, sent, &plan).await == Some(true)
    }

    async fn post_and_be_closed(&mut self, stream: &Stream) {
        let (sent, request) = self.message(200);
        let plan = Plan::at_once(request.field("Connection", "close").bytes(), Finish::Wait);
        if self.follow(stream, vec![sent], &plan).await == Some(true) || stream.has_unread() {
            self.world.fail("after the answer to `Connection: close`: no close");
        }
    }

    async fn trickle(&mut self, stream: &Stream) {
        let (sent, request) = self.message(200);
        let (number, wire) = (sent.number, request.bytes());
        let piece = wire.len().div_ceil(self.random.within(3..30));
        let ends = (piece..wire.len()).step_by(piece).chain([wire.len()]);
        let pieces = ends.map(|end| Piece { end, pause: self.random.pause_ms(10..400), ..Piece::default() }).collect();
        let plan = Plan { pieces, ..Plan::at_once(wire, Finish::GoOn(1)) };
        let is_answered = self.follow(stream, vec![sent], &plan).await.is_some();
        // The write that failed may have been that of the last piece.
        if !is_answered && self.pieces + 1 < plan.pieces.len() {
            self.world.account().set(number, Outcome::Incomplete);
        }
    }

    /// Sends a request up to a byte before its end, and finishes so.
    async fn send_a_part(&mut self, stream: &Stream, wanted: u16, finish: Finish) {
        let (sent, request) = self.message(wanted);
        let mut wire = request.bytes();
        wire.truncate(if self.random.permille(500) { wire.len() - 1 } else { self.random.within(1..wire.len()) });
        self.world.account().set(sent.number, Outcome::Incomplete);
        let plan = Plan::at_once(wire, finish);
        match finish {
            Finish::Wait => _ = self.follow(stream, vec![sent], &plan).await,
            _ => {
                self.begin_request();
                let talk = Talk::of(self, stream, vec![sent]);
                let _ = bounded(&self.world, "the end of a part", async { Ok(plan.follow(&talk).await) }).await;
            }
        }
    }

    /// Waits after an answer until the gateway closes the connection.
    async fn stay_idle(&mut self, stream: &Stream) {
        if !self.exchange(stream, 1, 200).await {
            return;
        }
        let (world, plan) = (Arc::clone(&self.world), Plan::at_once(Vec::new(), Finish::Wait));
        let talk = Talk::of(self, stream, Vec::new());
        let close = bounded(&world, "close of an idle connection", async { Ok(plan.follow(&talk).await) });
        tokio::select! {
            () = world.pause(PATIENCE) => {}
            closed = close => {
                self.previous = self.latest;
                if closed.is_err() || stream.has_unread() || !self.may_have_ended() {
                    self.world.fail("an idle connection ended early, or with an answer");
                }
            }
        }
    }

    /// Returns the next message and its request, whose answer should have this status.
    fn message(&mut self, wanted: u16) -> (Sent, Request) {
        let at = self.world.changes.now();
        let token = self.world.token();
        let number = self.world.account().next_number(self.connection);
        let body = message(self.connection, number);
        (Sent { number, at, wanted }, Request::post(&format!("/api/message?token={token}"), body))
    }

    fn begin_request(&mut self) {
        if self.requests > 0 {
            (self.previous, self.latest) = (self.latest, Instant::now());
        }
        self.requests += 1;
    }

    /// Follows a plan with these requests, each of which must be answered. Returns whether the connection goes on, and
    /// none if it has ended before an answer, which is a failure if nothing explains that.
    async fn follow(&mut self, stream: &Stream, sent: Vec<Sent>, plan: &Plan) -> Option<bool> {
        self.begin_request();
        let (talk, pieces) = (Talk::of(self, stream, sent), Cell::new(0));
        let follow = async {
            pieces.set(plan.follow(&talk).await);
            // The gateway reads nothing behind a request whose answer says that it is the last.
            match (talk.error.take(), talk.is_last.get()) {
                (_, true) => Ok(false),
                (_, false) if talk.sent.borrow().is_empty() => Ok(true),
                (error, false) => Err(error.unwrap_or(ErrorKind::UnexpectedEof.into())),
            }
        };
        let goes_on = self.explained("answer", follow).await;
        self.pieces = pieces.get();
        goes_on
    }

    /// Enters an answer into the account. It is a failure if nothing explains its status.
    fn judge(&self, sent: &Sent, answer: &Answer) {
        let (changes, wanted) = (&self.world.changes, sent.wanted);
        let explained = match (answer.status, answer.kind.as_str()) {
            (408, _) => self.latest.elapsed() >= HEAD_TIMEOUT,
            (status, _) if status == wanted => true,
            (503, "queue-full" | "subscriber-stalled" | "buffers-full") => true,
            (503, "bus-not-connected") => changes.has_changed(Change::Hub, sent.at),
            (503, "disabled") => changes.has_changed(Change::Switch, self.begun),
            (401, _) => changes.has_changed(Change::Token, sent.at),
            _ => false,
        };
        let mut account = self.world.account();
        account.count_answer(answer.status, &answer.kind);
        account.set(sent.number, if answer.status == 200 { Outcome::Accepted } else { Outcome::Refused });
        if !explained {
            let what = format!("message {}: {} {} instead of {wanted}", sent.number, answer.status, answer.kind);
            account.fail(&what);
        }
    }

    /// Connects. A handshake may fail while the certificate changes.
    async fn connect(&self, speaks_tls: bool) -> Option<Stream> {
        let connect = async {
            match Stream::connect(&self.world, self.way, speaks_tls).await {
                Err(_) if self.world.changes.has_changed(Change::Certificate, self.begun) => Ok(None),
                connected => connected.map(Some),
            }
        };
        self.explained("connect", connect).await?
    }

    /// Waits for something of a connection. It is a failure if the connection ends and nothing explains that.
    async fn explained<T>(&self, what: &str, wait: impl Future<Output = io::Result<T>>) -> Option<T> {
        let error = match bounded(&self.world, what, wait).await {
            Ok(done) => return Some(done),
            Err(error) => error,
        };
        let explained = match error.kind() {
            // The backlog of a Unix socket is full, or the machine has no port left.
            ErrorKind::WouldBlock | ErrorKind::AddrNotAvailable => true,
            // `bounded` has reported it.
            ErrorKind::TimedOut => true,
            _ => self.may_have_ended(),
        };
        if !explained {
            self.world.fail(&format!("{what} of connection {}: {error} ({:?})", self.connection, error.kind()));
        }
        None
    }

    /// Returns whether the gateway may have ended the connection.
    fn may_have_ended(&self) -> bool {
        self.world.changes.has_changed(Change::Switch, self.begun)
            || self.latest.elapsed() >= HEAD_TIMEOUT
            || self.previous.elapsed() >= IDLE_TIMEOUT
    }
}

/// What a client says and hears on its connection while it follows a plan.
struct Talk<'t> {
    client: &'t Client,
    stream: &'t Stream,
    /// The requests that are not answered.
    sent: RefCell<VecDeque<Sent>>,
    answers: Cell<usize>,
    /// Whether an answer said that it is the last.
    is_last: Cell<bool>,
    error: Cell<Option<io::Error>>,
}

impl<'t> Talk<'t> {
    fn of(client: &'t Client, stream: &'t Stream, sent: Vec<Sent>) -> Self {
        let (answers, is_last, error) = (Cell::default(), Cell::default(), Cell::default());
        Self { client, stream, sent: RefCell::new(sent.into()), answers, is_last, error }
    }

    /// Reads once, and judges the answers that are whole.
    async fn hear(&self) -> io::Result<usize> {
        let bytes = self.stream.read().await?;
        while let Some(answer) = self.stream.take_answer()? {
            let Some(sent) = self.sent.borrow_mut().pop_front() else {
                self.client.world.fail("an answer without a request");
                return Ok(0);
            };
            self.client.judge(&sent, &answer);
            self.answers.set(self.answers.get() + 1);
            self.is_last.set(answer.closes());
        }
        Ok(bytes)
    }
}

impl ClientEnd for Talk<'_> {
    fn is_ready(&self) -> bool {
        true
    }

    async fn send(&self, bytes: &[u8]) -> bool {
        bytes.is_empty() || self.stream.write(bytes).await.is_ok()
    }

    async fn receive(&self, _most: usize) -> usize {
        if self.stream.is_closed.get() {
            return 0;
        }
        self.hear().await.unwrap_or_else(|error| {
            self.error.set(Some(error));
            0
        })
    }

    fn answered(&self) -> [usize; 2] {
        [self.answers.get(); 2]
    }

    async fn end(&self) {
        self.stream.half_close();
    }

    fn close(&self) {
        self.stream.close();
    }

    fn reset(&self) {
        self.stream.reset();
    }
}

/// Waits for something that must happen, however slow the machine is.
async fn bounded<T>(world: &World, what: &str, wait: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| {
        world.fail(&format!("{what}: nothing came for {PATIENCE:?}"));
        Err(ErrorKind::TimedOut.into())
    })
}
