//! The load generator. In a closed loop, each answer is followed by the next request; an open loop has its own rate.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustls::ClientConfig;
use socket2::SockAddr;

use crate::connection::{Answers, Clients, LoadConnection, READ_BYTES, Request, since_ns};

/// How long a server may take for its next answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The most connections that are handled between two readings of the clock.
const EVENTS: usize = 256;

pub(crate) struct Load {
    connections: Vec<LoadConnection>,
    /// The clients, where a request that was answered ends its connection.
    clients: Option<Clients>,
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
        Self::of((0..count).map(|_| LoadConnection::open(address, tls)).collect(), None)
    }

    /// Takes these connections, each the first one of its client if there are clients.
    pub(crate) fn of(connections: Vec<LoadConnection>, clients: Option<Clients>) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        for (index, connection) in connections.iter().enumerate() {
            register(&epoll, index, connection, clients.is_some());
        }
        let (events, buffer) = (Vec::with_capacity(EVENTS), vec![0; READ_BYTES]);
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
                connection.flush();
                let answered = connection.receive(&mut self.buffer, &mut self.answers);
                if answered == 0 || connection.unanswered > 0 {
                    continue;
                }
                if let Some(from) = stamps_from {
                    delays_ns.push(since_ns(from) - sent_ns[index]);
                }
                if let Some(clients) = &mut self.clients {
                    clients.reconnect(index, connection);
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
                connection.flush();
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
    epoll::add(epoll, connection.socket(), epoll::EventData::new_u64(index as u64), interest).unwrap();
}
