//! Clients that open a connection for each request, as scripts without a session do.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustls::client::Resumption;
use rustls::{ClientConfig, HandshakeKind};
use socket2::SockAddr;

use crate::Failure;
use crate::connection::{Connection, READ_BYTES};
use crate::load::{ANSWER_TIMEOUT, EVENTS, Outcome, wait};
use crate::request::{Answers, Request};

/// The tickets that a client keeps, as many as rustls keeps for one server.
const TICKETS: usize = 8;

/// The address of the first client. The others have those that follow: all of 127.0.0.0/8 is loopback.
const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// Clients of one server. Each has one connection at a time.
pub(crate) struct Clients {
    address: SockAddr,
    clients: Vec<Client>,
    /// The handshake of every connection but the first of each client.
    handshake: Option<HandshakeKind>,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    answers: Answers,
}

struct Client {
    /// The loopback address from which this client alone connects. A port stays in TIME_WAIT for a minute after its
    /// connection, so one address runs out of ports within seconds.
    source: Ipv4Addr,
    tls: Option<Arc<ClientConfig>>,
    connection: Option<Connection>,
    /// Whether a connection has ended, so that there is a session to resume.
    has_session: bool,
}

impl Clients {
    /// Creates this number of clients. In TLS, each resumes the session of its last connection if `resumed` is set.
    pub(crate) fn new(
        address: &SockAddr,
        tls: Option<&Arc<ClientConfig>>,
        count: u32,
        resumed: bool,
    ) -> Result<Self, Failure> {
        let client = |index| {
            let tls = tls.map(|config| {
                let mut config = ClientConfig::clone(config);
                config.resumption =
                    if resumed { Resumption::in_memory_sessions(TICKETS) } else { Resumption::disabled() };
                Arc::new(config)
            });
            let source = Ipv4Addr::from_bits(FIRST_SOURCE.to_bits() + index);
            Client { source, tls, connection: None, has_session: false }
        };
        let handshake = if resumed { HandshakeKind::Resumed } else { HandshakeKind::Full };
        Ok(Self {
            address: address.clone(),
            clients: (0..count).map(client).collect(),
            handshake: tls.map(|_| handshake),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; READ_BYTES],
            answers: Answers::default(),
        })
    }

    /// Lets each client connect, send a request, read the answer and close the connection, again and again for
    /// `duration`.
    pub(crate) fn run(&mut self, request: &Request, duration: Duration) -> Result<Outcome, Failure> {
        let start = Instant::now();
        let mut requests = 0;
        for (index, client) in self.clients.iter_mut().enumerate() {
            client.begin(&self.address, &self.epoll, index, request)?;
        }
        let mut busy = self.clients.len();
        while busy > 0 {
            wait(&self.epoll, &mut self.events, ANSWER_TIMEOUT)?;
            let over = start.elapsed() >= duration;
            for event in &self.events {
                let index = event.data.u64() as usize;
                let client = self.clients.get_mut(index).ok_or("an event of an unknown client")?;
                if !client.receive(&mut self.buffer, &mut self.answers, self.handshake)? {
                    continue;
                }
                requests += 1;
                match over {
                    true => busy -= 1,
                    false => client.begin(&self.address, &self.epoll, index, request)?,
                }
            }
        }
        Ok(Outcome { requests, elapsed: start.elapsed(), delays_ns: Vec::new() })
    }
}

impl Client {
    fn begin(&mut self, address: &SockAddr, epoll: &OwnedFd, index: usize, request: &Request) -> Result<(), Failure> {
        let mut connection = Connection::begin(address, Some(self.source), self.tls.as_ref())?;
        // A socket that is new takes everything that is sent here, so nothing waits for it to take more.
        let interest = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(epoll, &connection.socket, epoll::EventData::new_u64(index as u64), interest)?;
        connection.send(&request.bytes, request.pipelined)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Reads what has come. Returns whether that was the answer. The connection is closed then.
    fn receive(
        &mut self,
        buffer: &mut [u8],
        answers: &mut Answers,
        handshake: Option<HandshakeKind>,
    ) -> Result<bool, Failure> {
        let connection = self.connection.as_mut().ok_or("an event of a closed connection")?;
        if connection.receive(buffer, answers)? == 0 {
            return Ok(false);
        }
        let wanted = if self.has_session { handshake } else { handshake.map(|_| HandshakeKind::Full) };
        if connection.handshake_kind() != wanted {
            return Err(format!("a handshake was {:?}, not {wanted:?}", connection.handshake_kind()).into());
        }
        self.has_session = true;
        self.connection.take().map_or(Ok(()), Connection::close)?;
        Ok(true)
    }
}
