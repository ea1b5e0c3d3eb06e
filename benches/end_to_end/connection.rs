//! A connection of the load, which counts its answers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::{ClientConfig, HandshakeKind};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::request::Answers;
use crate::support::connection::Connection;

/// How long a server may take to accept a connection, and for each step of the handshake of TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that are read at once, into a buffer that all connections share.
pub(crate) const READ_BYTES: usize = 64 * 1024;

pub(crate) struct LoadConnection {
    connection: Connection,
    /// Requests that have not been answered yet.
    pub(crate) unanswered: usize,
}

impl LoadConnection {
    /// Connects, and completes a handshake if a configuration of TLS is given. A reset will close the connection,
    /// because otherwise many ports would be in TIME_WAIT.
    pub(crate) fn open(address: &SockAddr, tls: Option<&Arc<ClientConfig>>) -> Self {
        let mut this = Self::begin(address, None, tls);
        this.socket().set_linger(Some(Duration::ZERO)).unwrap();
        this.flush();
        while this.connection.is_handshaking() {
            let timeout = Timespec::try_from(CONNECT_TIMEOUT).unwrap();
            let ready = poll(&mut [PollFd::new(this.socket(), PollFlags::IN)], Some(&timeout));
            assert_eq!(ready, Ok(1), "the server does not answer the handshake in time");
            assert_ne!(this.connection.receive(&mut [0; READ_BYTES]).expect("a handshake"), 0, "the server closed");
            this.flush();
        }
        this
    }

    /// Connects, from the address `source` if it is given. If a configuration of TLS is given, the handshake begins
    /// with the first request.
    pub(crate) fn begin(address: &SockAddr, source: Option<Ipv4Addr>, tls: Option<&Arc<ClientConfig>>) -> Self {
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

    pub(crate) fn socket(&self) -> &Socket {
        self.connection.socket()
    }

    /// Ends the connection as most clients do, and without a reset.
    pub(crate) fn close(mut self) {
        self.connection.close().expect("the server takes the end");
    }

    pub(crate) fn handshake_kind(&mut self) -> Option<HandshakeKind> {
        self.connection.session()?.handshake_kind()
    }

    /// Sends a pipeline of requests, as far as the socket takes them now.
    pub(crate) fn send(&mut self, requests: &[u8], pipelined: usize) {
        self.unanswered += pipelined;
        self.connection.send(requests).expect("the server takes requests");
    }

    /// Sends what has not been sent yet, as far as the socket takes it now.
    pub(crate) fn flush(&mut self) {
        self.connection.flush().expect("the server takes requests");
    }

    /// Reads all bytes that have come. Returns the number of answers that are complete now.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], answers: &mut Answers) -> usize {
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
