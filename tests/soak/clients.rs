//! The clients. Each has one connection at a time, and judges each answer by what it sent and by what was changing.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::account::{Outcome, message};
use crate::rude;
use crate::stream::{Stream, Way};
use crate::support::{Answer, Random, Request};
use crate::world::{Change, HEAD_TIMEOUT, IDLE_TIMEOUT, Moment, World};

/// How long a client waits for anything. It bounds a run in which something hangs, and measures nothing.
const PATIENCE: Duration = Duration::from_secs(180);

/// The most requests that a client sends at once.
const PIPELINE: usize = 8;

/// How many milliseconds a client may think between two requests. Some think for longer than the gateway waits for
/// them.
const THINKING_MS: Range<usize> = 0..24_000;

/// How many milliseconds a client waits before it connects again.
const AWAY_MS: Range<usize> = 500..8_000;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    KeepAlive,
    Pipelined,
    ConnectionEach,
    Slow,
    Rude,
}

/// The kinds, with their share of all clients in percent.
const SHARES: [(Kind, usize); 5] =
    [(Kind::KeepAlive, 55), (Kind::Pipelined, 15), (Kind::ConnectionEach, 10), (Kind::Slow, 10), (Kind::Rude, 10)];

pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) way: Way,
    pub(crate) random: Random,
    connection: u32,
    /// When it began to connect.
    begun: Moment,
    /// When its last request but one began. The time without a request is not longer.
    previous: Instant,
    /// When its last request began. The first one begins with the connection.
    latest: Instant,
    requests: u32,
}

/// A request that is being sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) number: u32,
    pub(crate) at: Moment,
}

/// Runs the client of this number until the load is over.
pub(crate) async fn run(world: Arc<World>, seed: u64, number: usize) {
    let mut random = Random::for_user(seed, number as u64);
    // 100 clients have each kind as often as its share says. Half of each kind connect by TCP.
    let mut rank = (number / 2) % 100;
    let kind = SHARES.iter().find(|(_, share)| rank.checked_sub(*share).map(|rest| rank = rest).is_none());
    let kind = kind.map_or(Kind::KeepAlive, |(kind, _)| *kind);
    let way = if number.is_multiple_of(2) { Way::Tcp } else { Way::Unix };
    world.pause(random.pause_ms(AWAY_MS)).await;
    while !world.is_over() {
        let mut client = Client::new(&world, way, random.fork());
        match kind {
            Kind::Rude => rude::live(&mut client).await,
            _ => client.live(kind).await,
        }
        world.pause(random.pause_ms(AWAY_MS)).await;
    }
}

impl Client {
    fn new(world: &Arc<World>, way: Way, random: Random) -> Self {
        let (begun, now) = (world.changes.now(), Instant::now());
        let connection = world.account().open_connection();
        Self { world: Arc::clone(world), way, random, connection, begun, previous: now, latest: now, requests: 0 }
    }

    async fn live(&mut self, kind: Kind) {
        let Some(mut stream) = self.connect().await else { return };
        match kind {
            Kind::ConnectionEach => self.post_once(&mut stream).await,
            Kind::Slow => match self.random.within(0..10) {
                0..6 => self.trickle(&mut stream).await,
                6..8 => self.stall(&mut stream).await,
                _ => self.stay_idle(&mut stream).await,
            },
            _ => {
                let most = if matches!(kind, Kind::Pipelined) { PIPELINE } else { 1 };
                for _ in 0..self.random.within(1..40) {
                    let count = self.random.within(1..most + 1);
                    if !self.exchange(&mut stream, count).await || self.world.is_over() {
                        break;
                    }
                    self.world.pause(self.random.pause_ms(THINKING_MS)).await;
                }
            }
        }
        stream.close();
    }

    /// Sends so many requests at once and reads their answers. Returns whether the connection goes on.
    async fn exchange(&mut self, stream: &mut Stream, count: usize) -> bool {
        let (sent, requests): (Vec<_>, Vec<_>) = (0..count).map(|_| self.message()).unzip();
        let bytes: Vec<u8> = requests.iter().flat_map(Request::bytes).collect();
        self.begin_request();
        // If the gateway does not take all, the answers tell why.
        let _ = bounded(&self.world, "write", stream.write(&bytes)).await;
        for sent in sent {
            match self.read(stream, sent, 200).await {
                Some(answer) if !answer.closes() => {}
                _ => return false,
            }
        }
        true
    }

    async fn post_once(&mut self, stream: &mut Stream) {
        if self.random.permille(500) {
            self.exchange(stream, 1).await;
            return;
        }
        let (sent, request) = self.message();
        let request = request.field("Connection", "close");
        self.begin_request();
        let _ = bounded(&self.world, "write", stream.write(&request.bytes())).await;
        if let Some(answer) = self.read(stream, sent, 200).await {
            let silent = bounded(&self.world, "close", async { Ok(stream.ends_silently().await) }).await;
            if !answer.closes() || silent.is_ok_and(|silent| !silent) {
                self.world.fail(&format!("after the answer {} to `Connection: close`: no close", answer.status));
            }
        }
    }

    async fn trickle(&mut self, stream: &mut Stream) {
        let (sent, request) = self.message();
        let bytes = request.bytes();
        let piece = bytes.len().div_ceil(self.random.within(3..30));
        self.begin_request();
        let mut left = bytes.len();
        for piece in bytes.chunks(piece) {
            if bounded(&self.world, "write", stream.write(piece)).await.is_err() {
                break;
            }
            left -= piece.len();
            self.world.pause(self.random.pause_ms(10..400)).await;
        }
        // The failed write may have been that of the last piece.
        if left > piece {
            self.world.account().set(sent.number, Outcome::Incomplete);
        }
        self.read(stream, sent, 200).await;
    }

    /// Sends a part of a request and waits until the gateway gives up.
    async fn stall(&mut self, stream: &mut Stream) {
        let (sent, request) = self.message();
        let bytes = request.bytes();
        self.world.account().set(sent.number, Outcome::Incomplete);
        self.begin_request();
        let _ = bounded(&self.world, "write", stream.write(&bytes[..self.random.within(1..bytes.len())])).await;
        self.read(stream, sent, 408).await;
    }

    /// Waits after an answer until the gateway closes the connection.
    async fn stay_idle(&mut self, stream: &mut Stream) {
        if !self.exchange(stream, 1).await {
            return;
        }
        let world = Arc::clone(&self.world);
        let close = bounded(&world, "close of an idle connection", async { Ok(stream.ends_silently().await) });
        tokio::select! {
            () = world.pause(PATIENCE) => {}
            silent = close => {
                self.previous = self.latest;
                if !matches!(silent, Ok(true)) || !self.may_have_ended() {
                    self.world.fail("an idle connection ended early, or with an answer");
                }
            }
        }
    }

    pub(crate) fn message(&mut self) -> (Sent, Request) {
        let at = self.world.changes.now();
        let token = self.world.token();
        let number = self.world.account().next_number(self.connection);
        let body = message(self.connection, number);
        (Sent { number, at }, Request::post(&format!("/api/message?token={token}"), body))
    }

    pub(crate) fn begin_request(&mut self) {
        if self.requests > 0 {
            (self.previous, self.latest) = (self.latest, Instant::now());
        }
        self.requests += 1;
    }

    /// Reads the answer to a request, which should have this status.
    pub(crate) async fn read(&mut self, stream: &mut Stream, sent: Sent, status: u16) -> Option<Answer> {
        let answer = self.explained("answer", stream.answer()).await?;
        self.judge(sent, &answer, status);
        Some(answer)
    }

    /// Enters an answer into the account. It is a failure if nothing explains its status.
    fn judge(&self, sent: Sent, answer: &Answer, wanted: u16) {
        let changes = &self.world.changes;
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
    pub(crate) async fn connect(&self) -> Option<Stream> {
        let connect = async {
            match Stream::connect(&self.world, self.way, true).await {
                Err(_) if self.world.changes.has_changed(Change::Certificate, self.begun) => Ok(None),
                connected => connected.map(Some),
            }
        };
        self.explained("connect", connect).await?
    }

    /// Waits for something of a connection. It is a failure if the connection ends and nothing explains that.
    pub(crate) async fn explained<T>(&self, what: &str, wait: impl Future<Output = io::Result<T>>) -> Option<T> {
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

/// Waits for something that must happen, however slow the machine is.
pub(crate) async fn bounded<T>(world: &World, what: &str, wait: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| {
        world.fail(&format!("{what}: nothing came for {PATIENCE:?}"));
        Err(ErrorKind::TimedOut.into())
    })
}
