//! The clients. Each has one connection at a time, by TCP, by TCP and TLS, or by a Unix socket, and judges each answer by what
//! it sent and by what was changing.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::account::Outcome;
use crate::support::connection::Connection;
use crate::support::plan::{ClientEnd, Finish, Pace, Plan};
use crate::support::planned::{Author, Dialogue, Kind, Planned};
use crate::support::{Answer, Random};
use crate::world::{Change, Since, TIMEOUTS, World};

/// How long a client waits for anything. It bounds a run in which something hangs, and measures nothing.
const PATIENCE: Duration = Duration::from_secs(180);
/// The most requests that a client which keeps its connection sends at once.
const PIPELINE: usize = 8;

/// How many milliseconds a client may think between two requests: some for longer than the gateway waits for them.
const THINKING_MS: Range<usize> = 0..24_000;
/// How many milliseconds a client waits before it connects again.
const AWAY_MS: Range<usize> = 500..8_000;

struct Client {
    world: Arc<World>,
    way: Way,
    random: Random,
    connection: u32,
    /// Whether it speaks http to a port that speaks https.
    is_plain: bool,
    begun: Since,
    /// When its last request but one began. The time without a request is not longer.
    previous: Instant,
    /// When its last request began.
    latest: Instant,
    has_asked: bool,
}

/// Runs the client of this number until the load is over.
pub(crate) async fn run(world: Arc<World>, seed: u64, number: usize) {
    let mut random = Random::for_user(seed, number as u64);
    let way = if number.is_multiple_of(2) { Way::Tcp } else { Way::Unix };
    world.pause(random.pause_ms(AWAY_MS)).await;
    while !world.is_over() {
        // Half of each kind connect by TCP.
        Client::new(&world, way, random.fork()).live((number / 2) % 100).await;
        world.pause(random.pause_ms(AWAY_MS)).await;
    }
}

impl Client {
    fn new(world: &Arc<World>, way: Way, random: Random) -> Self {
        let (begun, latest) = (world.changes.now(), Instant::now());
        let connection = world.account().open_connection();
        let (world, previous, has_asked, is_plain) = (Arc::clone(world), latest, false, false);
        Self { world, way, random, connection, is_plain, begun, previous, latest, has_asked }
    }

    /// Lives one connection. Of 100 clients, 70 keep it and think between their requests, 15 of them with several requests
    /// at once. The others do on it what a random plan says.
    async fn live(&mut self, kind: usize) {
        let by_https = self.way == Way::Tcp && self.world.tls().is_some();
        self.is_plain = by_https && kind >= 90 && self.random.permille(100);
        let Some(stream) = self.connect().await else { return };
        let (rounds, most) = match kind {
            0..55 => (self.random.within(1..40), 1),
            55..70 => (self.random.within(1..40), PIPELINE),
            _ if self.is_plain => (1, 1),
            _ => (self.random.below(2), 1),
        };
        let mut goes_on = true;
        for _ in 0..rounds {
            goes_on = self.follow(&stream, |author, random| author.right(random.within(1..most + 1), random)).await;
            if !goes_on || self.world.is_over() {
                break;
            }
            self.world.pause(self.random.pause_ms(THINKING_MS)).await;
        }
        if kind >= 70 && goes_on && !self.world.is_over() {
            self.follow(&stream, |author, random| author.plan(random)).await;
        }
        // Drop closes it in TLS without close_notify.
        if kind < 90 || !self.random.permille(500) {
            stream.close();
        }
    }

    /// Follows a plan. Returns whether the connection goes on. It is a failure if the connection ends and nothing explains
    /// that. What holds no message that is to be published is known, so that one that is published nevertheless is noticed.
    async fn follow(
        &mut self,
        stream: &Stream,
        write: impl FnOnce(&mut Author<'_>, &mut Random) -> (Plan, Vec<Planned>),
    ) -> bool {
        let at = self.world.changes.now();
        let knows_former_token = self.random.permille(20);
        let random = &mut self.random;
        let (plan, requests) = self.world.planned(self.connection, knows_former_token, |author| write(author, random));
        // The gateway takes no further requests while the client takes no answers.
        let leaves = plan.finish == Finish::Vanish || matches!(plan.pace, Pace::Stops(_));
        let time = if leaves { self.random.pause_ms(1..6_000) } else { PATIENCE };
        // The first request begins with the connection.
        if self.has_asked {
            (self.previous, self.latest) = (self.latest, Instant::now());
        }
        self.has_asked = true;
        let (offered, sent, has_left, has_ended, error) = Default::default();
        let dialogue = RefCell::new(Dialogue::of(requests));
        let talk = Talk { client: self, stream, at, dialogue, offered, sent, has_left, has_ended, error };
        let is_done = timeout(time, plan.follow(&talk)).await.is_ok();
        let Talk { dialogue, offered, sent, has_left, has_ended, error, .. } = talk;
        let dialogue = dialogue.into_inner();
        let unanswered = &dialogue.requests[dialogue.answers.len()..];
        for request in unanswered.iter().filter(|request| request.is_message() && request.end > offered.get()) {
            self.world.account().set(request.number, Outcome::Incomplete);
        }
        if !is_done && !leaves {
            self.fail(&format!("neither an answer nor an end came for {PATIENCE:?}"));
        }
        let is_over = dialogue.is_closing() || dialogue.cannot_go_on();
        if !has_ended.get() {
            return !is_over && !has_left.get() && matches!(plan.finish, Finish::GoOn(_));
        }
        let is_answered = plan.finish == Finish::EndSide && !unanswered.iter().any(|it| it.end <= sent.get());
        let is_last = is_over || is_answered;
        // The answer to HEAD has content where the method has not arrived.
        let is_unknown = |last: &Planned| last.kind == Kind::Head && sent.get() < last.start + "HEAD ".len();
        let has_content = dialogue.requests.iter().take(dialogue.answers.len()).next_back().is_some_and(is_unknown);
        let is_whole = is_last && (dialogue.unread.is_empty() || has_content);
        if !is_whole && !has_left.get() && !self.may_have_ended() {
            let (answers, requests, unread) = (dialogue.answers.len(), dialogue.requests.len(), dialogue.unread.len());
            let (finish, sent, wire, error) = (plan.finish, sent.get(), plan.wire.len(), error.take());
            let ended = format!("ended behind {answers} answers to {requests} requests and {unread} bytes");
            self.fail(&format!("{ended}, {sent} bytes sent of {wire}, {finish:?}: {error:?}"));
        }
        false
    }

    fn fail(&self, what: &str) {
        self.world.fail(&format!("connection {}: {what}", self.connection));
    }

    /// Enters an answer into the account. It is a failure if nothing explains it. `is_whole` tells whether all of its
    /// request was sent.
    fn judge(&self, request: &Planned, answer: &Answer, at: Since, is_whole: bool) {
        let changes = &self.world.changes;
        let is_cut = !is_whole && answer.status == 400;
        let is_late = answer.status == 408 && self.latest.elapsed() >= TIMEOUTS.head;
        let is_explained = match answer.status {
            200 if !is_whole => false,
            _ if self.is_plain => answer.kind == "https-only",
            _ => is_cut || is_late || request.may_have(answer, &changes.moments(self.begun, at), [true; 2]),
        };
        let may_end = is_cut || is_late || changes.has_changed(Change::Switch, self.begun);
        let persistence = request.check_persistence(answer, may_end);
        let mut account = self.world.account();
        account.count_answer(answer.status, &answer.kind);
        account.set(request.number, if answer.status == 200 { Outcome::Accepted } else { Outcome::Refused });
        if !is_explained || persistence.is_err() {
            account.fail(&format!("message {}, {:?}: {answer:?}: {persistence:?}", request.number, request.kind));
        }
    }

    /// Connects. A handshake may fail while the certificate changes.
    async fn connect(&self) -> Option<Stream> {
        let connect = timeout(PATIENCE, Stream::connect(&self.world, self.way, !self.is_plain));
        let error = match connect.await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
            Ok(stream) => return Some(stream),
            Err(error) => error,
        };
        let is_explained = match error.kind() {
            // The backlog of a Unix socket is full, or the machine has no port left.
            ErrorKind::WouldBlock | ErrorKind::AddrNotAvailable => true,
            _ => self.may_have_ended() || self.world.changes.has_changed(Change::Certificate, self.begun),
        };
        if !is_explained || error.kind() == ErrorKind::TimedOut {
            self.fail(&format!("it cannot connect: {error} ({:?})", error.kind()));
        }
        None
    }

    fn may_have_ended(&self) -> bool {
        self.world.changes.has_changed(Change::Switch, self.begun)
            || self.latest.elapsed() >= TIMEOUTS.head
            || self.previous.elapsed() >= TIMEOUTS.idle
    }
}

/// What a client says and hears on its connection while it follows a plan.
struct Talk<'t> {
    client: &'t Client,
    stream: &'t Stream,
    at: Since,
    dialogue: RefCell<Dialogue>,
    /// How many bytes the socket was to take, and how many it has taken.
    offered: Cell<usize>,
    sent: Cell<usize>,
    /// Whether the client has left before the gateway ended the connection, and whether that has.
    has_left: Cell<bool>,
    has_ended: Cell<bool>,
    error: Cell<Option<io::Error>>,
}

impl ClientEnd for Talk<'_> {
    fn is_ready(&self) -> bool {
        true
    }

    async fn send(&self, bytes: &[u8]) -> bool {
        self.offered.set(self.offered.get() + bytes.len());
        let is_taken = !bytes.is_empty() && self.stream.with(|connection| connection.send(bytes)).is_ok();
        let is_sent = bytes.is_empty() || is_taken && self.stream.flush().await.is_ok();
        self.sent.set(if is_sent { self.offered.get() } else { self.sent.get() });
        is_sent
    }

    /// Reads once, and judges the answers that are whole.
    async fn receive(&self, _most: usize) -> usize {
        if self.stream.is_closed.get() {
            return 0;
        }
        let bytes = self.stream.read().await.unwrap_or_else(|error| {
            self.error.set(Some(error));
            0
        });
        let mut dialogue = self.dialogue.borrow_mut();
        dialogue.unread.append(&mut self.stream.connection.borrow_mut().unread);
        let bytes = loop {
            match dialogue.next() {
                Ok(None) => break bytes,
                Ok(Some((request, answer))) => {
                    self.client.judge(request, answer, self.at, request.end <= self.offered.get());
                }
                Err(fault) => {
                    self.client.fail(&format!("an answer has {fault}"));
                    break 0;
                }
            }
        };
        self.has_ended.set(bytes == 0);
        bytes
    }

    fn answered(&self) -> [usize; 2] {
        self.dialogue.borrow().answered()
    }

    async fn end(&self) {
        let _ = self.stream.with(|connection| connection.socket().shutdown(Shutdown::Write));
    }

    fn close(&self) {
        self.has_left.set(!self.has_ended.get());
        self.stream.close();
    }

    fn reset(&self) {
        self.has_left.set(!self.has_ended.get());
        // It lets the drop close the connection by TCP with a reset. By a Unix socket it fails, and if the connection is gone.
        let _ = self.stream.with(|connection| connection.socket().set_linger(Some(Duration::ZERO)));
        self.stream.is_closed.set(true);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Tcp,
    Unix,
}

pub(crate) struct Stream {
    /// It is dropped before its descriptor is closed.
    readiness: AsyncFd<RawFd>,
    /// Its two directions are used at the same time.
    connection: RefCell<Connection>,
    /// Whether the client has closed or reset it.
    pub(crate) is_closed: Cell<bool>,
}

impl Stream {
    /// Connects, with a handshake if the gateway serves https by this way and `speaks_tls` is set.
    #[allow(deprecated, reason = "its unsafe successor asks for a promise that every owned descriptor keeps")]
    pub(crate) async fn connect(world: &World, way: Way, speaks_tls: bool) -> io::Result<Self> {
        let config = world.tls().filter(|_| way == Way::Tcp && speaks_tls);
        let socket = match way {
            Way::Tcp => Socket::from(TcpStream::connect(world.tcp).await?.into_std()?),
            Way::Unix => Socket::from(UnixStream::connect(&world.unix).await?.into_std()?),
        };
        let readiness = AsyncFd::new(socket.as_raw_fd())?;
        let connection = RefCell::new(Connection::over(socket, config.as_ref())?);
        let stream = Self { readiness, connection, is_closed: Cell::default() };
        stream.flush().await?;
        while stream.with(Connection::is_handshaking) {
            if stream.read().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            stream.flush().await?;
        }
        Ok(stream)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Connection) -> T) -> T {
        act(&mut self.connection.borrow_mut())
    }

    /// Ends the connection as most clients do.
    pub(crate) fn close(&self) {
        if !self.is_closed.replace(true) {
            let _ = self.with(Connection::close);
        }
    }

    /// Waits until the socket has taken all that was to be sent.
    async fn flush(&self) -> io::Result<()> {
        let flush = |connection: &mut Connection| {
            connection.flush()?;
            if connection.is_sent() { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
        };
        self.readiness.async_io(Interest::WRITABLE, |_| self.with(flush)).await
    }

    /// Returns how many bytes were read from the socket, 0 at its end. The buffer is not a part of the future of a
    /// client, of which there are thousands.
    pub(crate) async fn read(&self) -> io::Result<usize> {
        let read = |connection: &mut Connection| connection.receive(&mut [0; 16 * 1024]);
        self.readiness.async_io(Interest::READABLE, |_| self.with(read)).await
    }
}
