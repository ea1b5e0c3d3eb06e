//! A peer of the bus that sends any bytes, and can speak ZMTP 3.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::support::PATIENCE;

/// Another frame of the same message follows.
pub(crate) const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

pub(crate) struct RawPeer {
    socket: Socket,
}

/// A frame that a peer received.
struct Frame {
    flags: u8,
    body: Vec<u8>,
}

/// How a subscription is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// As a message: ZMTP 3.0.
    Message,
    /// As a command: ZMTP 3.1.
    Command,
}

/// Returns a frame with these flags. The length has eight bytes if it must.
pub(crate) fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = frame_head(flags, body.len());
    bytes.extend_from_slice(body);
    bytes
}

/// Returns the head of a frame, whose body may never come.
pub(crate) fn frame_head(flags: u8, body_bytes: usize) -> Vec<u8> {
    match u8::try_from(body_bytes) {
        Ok(length) => vec![flags, length],
        Err(_) => [&[flags | LONG][..], &(body_bytes as u64).to_be_bytes()].concat(),
    }
}

/// Returns the frames of a message.
pub(crate) fn message(frames: &[&[u8]]) -> Vec<u8> {
    let last = frames.len() - 1;
    frames.iter().enumerate().flat_map(|(at, body)| frame(if at == last { 0 } else { MORE }, body)).collect()
}

/// Returns a subscription to what begins with `prefix`.
pub(crate) fn subscribe(form: Form, prefix: &[u8]) -> Vec<u8> {
    match form {
        Form::Message => frame(0, &[b"\x01", prefix].concat()),
        Form::Command => frame(COMMAND, &[b"\x09SUBSCRIBE", prefix].concat()),
    }
}

/// Returns the greeting of ZMTP 3.1 and the READY of a socket of this type.
pub(crate) fn handshake(socket_type: &str) -> [Vec<u8>; 2] {
    let mut greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".to_vec();
    greeting.resize(64, 0);
    let length = u8::try_from(socket_type.len()).unwrap();
    let ready = [b"\x05READY\x0bSocket-Type\0\0\0", &[length][..], socket_type.as_bytes()].concat();
    [greeting, frame(COMMAND, &ready)]
}

impl RawPeer {
    /// Connects to an endpoint of the bus.
    pub(crate) fn connect(endpoint: &str) -> Self {
        let socket: Socket = match endpoint.strip_prefix("ipc://") {
            Some(path) => UnixStream::connect(path).unwrap().into(),
            None => TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).unwrap().into(),
        };
        Self::from(socket)
    }

    /// Connects to an endpoint of the bus and shakes hands as a socket of this type.
    pub(crate) fn speaking(endpoint: &str, socket_type: &str) -> Self {
        Self::connect(endpoint).shaking_hands(socket_type)
    }

    /// Shakes hands as a socket of this type, and waits for the other side.
    pub(crate) fn shaking_hands(mut self, socket_type: &str) -> Self {
        let [greeting, ready] = handshake(socket_type);
        self.send_all(&greeting);
        self.socket.read_exact(&mut [0; 64]).unwrap();
        self.send_all(&ready);
        let frame = self.receive();
        assert!(frame.flags & COMMAND != 0 && frame.body.starts_with(b"\x05READY"));
        self
    }

    /// Lets writes fail after this time.
    pub(crate) fn give_up_after(&mut self, timeout: Duration) {
        self.socket.set_write_timeout(Some(timeout)).unwrap();
    }

    /// Sends what the other side takes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // The other side may end the connection at any byte.
        let _ = self.socket.write_all(bytes);
    }

    /// Sends bytes. Returns whether the other side takes them: it has not ended the connection.
    pub(crate) fn takes(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    pub(crate) fn send_all(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Sends a heartbeat and waits for the answer. The other side has then read all that was sent before.
    pub(crate) fn round_trip(&mut self) {
        self.send_all(&frame(COMMAND, b"\x04PING\0\0"));
        while !self.receive().body.starts_with(b"\x04PONG") {}
    }

    /// Returns the body of the next frame that is no command.
    pub(crate) fn receive_body(&mut self) -> Vec<u8> {
        loop {
            let frame = self.receive();
            if frame.flags & COMMAND == 0 {
                return frame.body;
            }
        }
    }

    fn receive(&mut self) -> Frame {
        let mut flags = [0];
        self.socket.read_exact(&mut flags).unwrap();
        let mut length = [0; 8];
        let length_at = if flags[0] & LONG == 0 { 7 } else { 0 };
        self.socket.read_exact(&mut length[length_at..]).unwrap();
        let mut body = vec![0; usize::try_from(u64::from_be_bytes(length)).unwrap()];
        self.socket.read_exact(&mut body).unwrap();
        Frame { flags: flags[0], body }
    }

    /// Returns all that arrives until the other side ends the connection, which it must.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        let (mut all, mut part) = (Vec::new(), [0; 4_096]);
        loop {
            assert!(Instant::now() < deadline, "the connection does not end");
            match self.socket.read(&mut part) {
                Ok(0) => return all,
                Ok(length) => all.extend_from_slice(&part[..length]),
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => return all,
                Err(error) => panic!("the connection does not end: {error}"),
            }
        }
    }
}

impl From<Socket> for RawPeer {
    fn from(socket: Socket) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { socket }
    }
}
