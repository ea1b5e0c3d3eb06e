//! The load generator. In a closed loop, each answer is followed by the next request; an open loop has its own rate. Some
//! clients open a connection for each request, as scripts without a session do. Every answer is checked.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustls::client::Resumption;
use rustls::{ClientConfig, HandshakeKind};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::support;
use crate::support::answer::Answer;
use crate::support::connection::Connection;

/// How long a server may take for its next answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Load {
    connections: Vec<LoadConnection>,
    /// The clients, where a request that was answered ends its connection.
    clients: Vec<Client>,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    answers: Answers,
}

pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) elapsed: Duration,
    /// The time from each request (in an open loop: from when it was due) to its answer, if the load measures it.
    pub(crate) delays_ns: Vec<u64>,
}

impl Load {
    pub(crate) fn connect(address: &SockAddr, tls: Option<&Arc<ClientConfig>>, count: usize) -> Self {
        Self::of((0..count).map(|_| LoadConnection::open(address, tls)).collect(), Vec::new())
    }

    /// Connects clients for which an answer ends the connection. In TLS, each resumes the session of its last connection if
    /// `resumes` is set.
    pub(crate) fn of_clients(address: &SockAddr, tls: Option<&Arc<ClientConfig>>, count: u32, resumes: bool) -> Self {
        let clients: Vec<_> = (0..count).map(|index| Client::new(address, tls, index, resumes)).collect();
        Self::of(clients.iter().map(Client::connect).collect(), clients)
    }

    fn of(connections: Vec<LoadConnection>, clients: Vec<Client>) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        for (index, connection) in connections.iter().enumerate() {
            register(&epoll, index, connection, !clients.is_empty());
        }
        // At most 256 connections are handled between two readings of the clock.
        let (events, buffer) = (Vec::with_capacity(256), vec![0; READ_BYTES]);
        Self { connections, clients, epoll, events, buffer, answers: Answers::default() }
    }

    /// Sends the next request on each connection when it has been answered, for `duration`. Puts a timestamp into each
    /// request if `stamps_from` is given, from which they are counted. Calls `pace` before it sends, with the number of
    /// requests that were sent.
    pub(crate) fn closed_loop(
        &mut self,
        request: &mut Request,
        duration: Duration,
        stamps_from: Option<Instant>,
        pace: impl Fn(u64),
    ) -> Outcome {
        let start = Instant::now();
        let mut sent_ns = vec![0; self.connections.len()];
        let mut delays_ns = Vec::new();
        let mut requests = 0;
        let mut send = |connection: &mut LoadConnection, sent_ns: &mut u64| {
            pace(requests);
            if let Some(from) = stamps_from {
                *sent_ns = since_ns(from);
                request.stamp(*sent_ns);
            }
            requests += request.pipelined as u64;
            connection.send(&request.bytes, request.pipelined);
        };
        for (connection, sent_ns) in self.connections.iter_mut().zip(&mut sent_ns) {
            send(connection, sent_ns);
        }
        let mut busy = self.connections.len();
        while busy > 0 {
            self.wait(ANSWER_TIMEOUT);
            let over = start.elapsed() >= duration;
            for event in &self.events {
                let index = event.data.u64() as usize;
                let connection = &mut self.connections[index];
                let answered = connection.receive(&mut self.buffer, &mut self.answers);
                if answered == 0 || connection.unanswered > 0 {
                    continue;
                }
                if let Some(from) = stamps_from {
                    delays_ns.push(since_ns(from) - sent_ns[index]);
                }
                if let Some(client) = self.clients.get_mut(index) {
                    client.reconnect(connection);
                    register(&self.epoll, index, connection, true);
                }
                match over {
                    true => busy -= 1,
                    false => send(connection, &mut sent_ns[index]),
                }
            }
        }
        Outcome { requests, elapsed: start.elapsed(), delays_ns }
    }

    /// Sends requests at this rate, each on the connection that has been idle longest. A request for which no
    /// connection is idle waits, and its delay counts from when it was due.
    pub(crate) fn open_loop(&mut self, request: &mut Request, rate_hz: f64, time: Duration, from: Instant) -> Outcome {
        let (start, start_ns) = (Instant::now(), since_ns(from));
        let mut due_ns = vec![0; self.connections.len()];
        let mut delays_ns = Vec::with_capacity((rate_hz * time.as_secs_f64()) as usize);
        let mut idle: VecDeque<usize> = (0..self.connections.len()).collect();
        let total = (rate_hz * time.as_secs_f64()) as u64;
        let due = |nth: u64| start_ns + (nth as f64 * 1e9 / rate_hz) as u64;
        let mut sent = 0;
        while (delays_ns.len() as u64) < total {
            let mut now = since_ns(from);
            while sent < total && due(sent) <= now {
                let Some(index) = idle.pop_front() else { break };
                due_ns[index] = due(sent);
                request.stamp(due(sent));
                self.connections[index].send(&request.bytes, request.pipelined);
                sent += 1;
                now = since_ns(from);
            }
            let until_next = Duration::from_nanos(due(sent).saturating_sub(now));
            self.wait(if sent < total && !idle.is_empty() { until_next } else { ANSWER_TIMEOUT });
            for event in &self.events {
                let index = event.data.u64() as usize;
                let connection = &mut self.connections[index];
                if connection.receive(&mut self.buffer, &mut self.answers) > 0 {
                    delays_ns.push(since_ns(from) - due_ns[index]);
                    idle.push_back(index);
                }
            }
        }
        Outcome { requests: total, elapsed: start.elapsed(), delays_ns }
    }

    /// Waits for events. One must come within [`ANSWER_TIMEOUT`].
    fn wait(&mut self, timeout: Duration) {
        self.events.clear();
        let mut timespec = Timespec::try_from(timeout).unwrap();
        if timeout < ANSWER_TIMEOUT {
            // epoll_wait(2) rounds its time up to milliseconds, and ppoll(2) takes nanoseconds.
            poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timespec)).unwrap();
            timespec = Timespec::default();
        }
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timespec)) {
            Ok(0) if timeout == ANSWER_TIMEOUT => panic!("the server did not answer in time"),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("cannot wait: {error}"),
        }
    }
}

/// Registers a connection once: with edge-triggered events, that never changes. A socket with a single request takes
/// everything that is sent, so nothing waits for it to take more.
fn register(epoll: &OwnedFd, index: usize, connection: &LoadConnection, is_single: bool) {
    let interest = epoll::EventFlags::IN | epoll::EventFlags::ET;
    let interest = if is_single { interest } else { interest | epoll::EventFlags::OUT };
    epoll::add(epoll, connection.connection.socket(), epoll::EventData::new_u64(index as u64), interest).unwrap();
}

/// How long a server may take to accept a connection, and for each step of the handshake of TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that are read at once, into a buffer that all connections share.
const READ_BYTES: usize = 64 * 1024;

struct LoadConnection {
    connection: Connection,
    unanswered: usize,
}

impl LoadConnection {
    /// Connects, and completes a handshake if a configuration of TLS is given. A reset will close the connection,
    /// because otherwise many ports would be in TIME_WAIT.
    fn open(address: &SockAddr, tls: Option<&Arc<ClientConfig>>) -> Self {
        let mut this = Self::begin(address, None, tls);
        this.connection.socket().set_linger(Some(Duration::ZERO)).unwrap();
        this.flush();
        while this.connection.is_handshaking() {
            let timeout = Timespec::try_from(CONNECT_TIMEOUT).unwrap();
            let ready = poll(&mut [PollFd::new(this.connection.socket(), PollFlags::IN)], Some(&timeout));
            assert_eq!(ready, Ok(1), "the server does not answer the handshake in time");
            assert_ne!(this.connection.receive(&mut [0; READ_BYTES]).expect("a handshake"), 0, "the server closed");
            this.flush();
        }
        this
    }

    /// Connects, from the address `source` if it is given. If a configuration of TLS is given, the handshake begins
    /// with the first request.
    fn begin(address: &SockAddr, source: Option<Ipv4Addr>, tls: Option<&Arc<ClientConfig>>) -> Self {
        let socket = Socket::new(address.domain(), Type::STREAM, None).unwrap();
        if let Some(source) = source {
            socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
        }
        if address.domain() != Domain::UNIX {
            socket.set_tcp_nodelay(true).unwrap();
        }
        socket.connect_timeout(address, CONNECT_TIMEOUT).expect("the server accepts connections");
        Self { connection: Connection::over(socket, tls).unwrap(), unanswered: 0 }
    }

    /// Sends a pipeline of requests, as far as the socket takes them now.
    fn send(&mut self, requests: &[u8], pipelined: usize) {
        self.unanswered += pipelined;
        self.connection.send(requests).expect("the server takes requests");
    }

    fn flush(&mut self) {
        self.connection.flush().expect("the server takes requests");
    }

    /// Sends what waits, and reads all bytes that have come. Returns the number of answers that are complete now.
    fn receive(&mut self, buffer: &mut [u8], answers: &mut Answers) -> usize {
        self.flush();
        loop {
            match self.connection.receive(buffer) {
                Ok(0) => panic!("the server closed a connection"),
                Ok(bytes) if bytes == buffer.len() => {}
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("cannot read: {error}"),
            }
        }
        // The last message of a handshake, and the request behind it.
        self.flush();
        let (count, used) = answers.count(&self.connection.unread);
        self.connection.unread.drain(..used);
        self.unanswered = self.unanswered.checked_sub(count).expect("no more answers than requests");
        count
    }
}

/// The address of the first client. The others have those that follow: all of 127.0.0.0/8 is loopback.
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// A client that opens a connection for each request.
struct Client {
    address: SockAddr,
    /// The loopback address from which this client alone connects. A port stays in TIME_WAIT for a minute after its
    /// connection, so one address runs out of ports within seconds.
    source: Ipv4Addr,
    tls: Option<Arc<ClientConfig>>,
    resumes: bool,
    /// Whether a connection has ended, so that there is a session to resume.
    has_session: bool,
}

impl Client {
    fn new(address: &SockAddr, tls: Option<&Arc<ClientConfig>>, index: u32, resumes: bool) -> Self {
        let tls = tls.map(|config| {
            let mut config = ClientConfig::clone(config);
            // rustls keeps as many tickets for one server.
            config.resumption = if resumes { Resumption::in_memory_sessions(8) } else { Resumption::disabled() };
            Arc::new(config)
        });
        let source = Ipv4Addr::from_bits(FIRST_SOURCE.to_bits() + index);
        Self { address: address.clone(), source, tls, resumes, has_session: false }
    }

    fn connect(&self) -> LoadConnection {
        LoadConnection::begin(&self.address, Some(self.source), self.tls.as_ref())
    }

    /// Closes the connection, whose request was answered, as most clients do, and opens the next one.
    fn reconnect(&mut self, connection: &mut LoadConnection) {
        let kind = if self.resumes && self.has_session { HandshakeKind::Resumed } else { HandshakeKind::Full };
        let handshake = connection.connection.session().map(|session| session.handshake_kind());
        assert_eq!(handshake, self.tls.as_ref().map(|_| Some(kind)), "the handshake");
        self.has_session = true;
        let mut last = std::mem::replace(connection, self.connect());
        last.connection.close().expect("the server takes the end");
    }
}

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The body of every answer, without white space behind it, which servers differ in.
const ACCEPTED: &[u8] = br#"{"status":"accepted"}"#;
/// A topic of the public clients, whose messages are checked field by field.
pub(crate) const TOPIC: &str = "adapter/nodes/data";
/// The digits of a timestamp in nanoseconds: as many as the largest `u64` has.
const STAMP_DIGITS: usize = 20;
/// The bytes before the timestamp in a body, and so in a payload.
const BEFORE_STAMP: &[u8] = br#""content":""#;

/// A pipeline of equal requests, or a single one, with room for a timestamp.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) bytes: Vec<u8>,
    pub(crate) pipelined: usize,
    stamp_at: usize,
}

impl Request {
    /// Makes `pipelined` requests with this topic and a body of at least `body_bytes` each.
    pub(crate) fn new(topic: &str, body_bytes: usize, pipelined: usize) -> Self {
        let (before, after) = (format!(r#"{{"topic":"{topic}","payload":{{"node_id":"bench","content":""#), r#""}}"#);
        let filling = body_bytes.saturating_sub(before.len() + STAMP_DIGITS + after.len());
        let body = format!("{before}{:0STAMP_DIGITS$}{}{after}", 0, "x".repeat(filling));
        let request = support::request::Request::post(&format!("/api/message?token={TOKEN}"), body);
        let stamp_at = request.head().len() + before.len();
        Self { bytes: request.bytes().repeat(pipelined), pipelined, stamp_at }
    }

    pub(crate) fn stamp(&mut self, time_ns: u64) {
        let digits = format!("{time_ns:0STAMP_DIGITS$}");
        self.bytes[self.stamp_at..self.stamp_at + STAMP_DIGITS].copy_from_slice(digits.as_bytes());
    }
}

pub(crate) fn stamp_of(payload: &[u8]) -> Option<u64> {
    let at = payload.windows(BEFORE_STAMP.len()).position(|window| window == BEFORE_STAMP)? + BEFORE_STAMP.len();
    std::str::from_utf8(payload.get(at..at + STAMP_DIGITS)?).ok()?.parse().ok()
}

pub(crate) fn since_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Checks answers. The first one is parsed; the others must have the same length, status and body.
#[derive(Default)]
pub(crate) struct Answers {
    bytes: usize,
}

impl Answers {
    /// Returns how many whole answers `input` begins with, and their bytes. The rest begins another answer.
    pub(crate) fn count(&mut self, input: &[u8]) -> (usize, usize) {
        if self.bytes == 0 {
            let Some((answer, bytes)) = Answer::take(input, true).unwrap() else { return (0, 0) };
            assert!(answer.status == 200 && answer.content.trim_ascii_end() == ACCEPTED, "answered {answer:?}");
            self.bytes = bytes;
        }
        let answers = input.chunks_exact(self.bytes);
        let count = answers.len();
        for answer in answers {
            let is_right = answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.trim_ascii_end().ends_with(ACCEPTED);
            assert!(is_right, "an unexpected answer: {}", answer.escape_ascii());
        }
        (count, count * self.bytes)
    }
}
