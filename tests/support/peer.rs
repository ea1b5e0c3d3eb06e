//! A peer of the bus that sends any bytes, and can speak ZMTP 3.

use std::io::IoSlice;
use std::mem::MaybeUninit;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::*;

pub(crate) struct RawPeer {
    socket: Socket,
}

struct Frame {
    flags: u8,
    body: Vec<u8>,
}

impl Frame {
    fn read(mut from: impl Read) -> io::Result<Self> {
        let (mut flags, mut length) = ([0], [0; 8]);
        from.read_exact(&mut flags)?;
        let length_at = if flags[0] & LONG == 0 { 7 } else { 0 };
        from.read_exact(&mut length[length_at..])?;
        let mut body = vec![0; usize::try_from(u64::from_be_bytes(length)).unwrap()];
        from.read_exact(&mut body)?;
        Ok(Self { flags: flags[0], body })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// As a message: ZMTP 3.0.
    Message,
    /// As a command: ZMTP 3.1.
    Command,
}

pub(crate) fn message(frames: &[&[u8]]) -> Vec<u8> {
    let last = frames.len() - 1;
    let frames = frames.iter().enumerate().map(|(at, body)| frame(if at == last { 0 } else { MORE }, body));
    frames.collect::<Vec<_>>().concat()
}

pub(crate) fn subscribe(form: Form, prefix: &[u8]) -> Vec<u8> {
    match form {
        Form::Message => frame(0, &[b"\x01", prefix].concat()),
        Form::Command => frame(COMMAND, &[b"\x09SUBSCRIBE", prefix].concat()),
    }
}

/// Returns the end of a subscription to what begins with `prefix`.
pub(crate) fn cancel(form: Form, prefix: &[u8]) -> Vec<u8> {
    match form {
        Form::Message => frame(0, &[b"\x00", prefix].concat()),
        Form::Command => frame(COMMAND, &[b"\x06CANCEL", prefix].concat()),
    }
}

/// Returns a PING without a time to live. The answer has the same context of at most 16 bytes.
pub(crate) fn ping(context: &[u8]) -> Vec<u8> {
    frame(COMMAND, &[b"\x04PING\0\0", context].concat())
}

/// Returns how many whole messages of two frames these bytes hold, which were received after a handshake.
pub(crate) fn whole_messages(mut bytes: &[u8]) -> usize {
    let frames = std::iter::from_fn(|| Frame::read(&mut bytes).ok());
    frames.filter(|frame| frame.flags & (MORE | COMMAND) == 0).count()
}

fn address(endpoint: &str) -> SockAddr {
    match endpoint.strip_prefix("ipc://") {
        Some(path) => SockAddr::unix(path).unwrap(),
        None => endpoint.strip_prefix("tcp://").unwrap().parse::<SocketAddr>().unwrap().into(),
    }
}

impl RawPeer {
    pub(crate) fn connect(endpoint: &str) -> Self {
        Self::try_connect(endpoint).unwrap()
    }

    pub(crate) fn try_connect(endpoint: &str) -> io::Result<Self> {
        Ok(Self { socket: connect(&address(endpoint))? })
    }

    /// Returns how the gateway names this peer: its address or, over ipc, this process.
    pub(crate) fn name(&self) -> String {
        let address = self.socket.local_addr().unwrap().as_socket();
        address.map_or_else(|| format!("process {}", std::process::id()), |address| address.to_string())
    }

    /// Connects with a receive buffer of this size, for which the kernel takes twice as much memory.
    pub(crate) fn connect_with_receive_buffer(endpoint: &str, bytes: usize) -> Self {
        let socket = connect_after(&address(endpoint), |socket| socket.set_recv_buffer_size(bytes));
        Self { socket: socket.unwrap() }
    }

    /// Connects to an endpoint of the bus and shakes hands as a socket of this type.
    pub(crate) fn speaking(endpoint: &str, socket_type: &str) -> Self {
        Self::connect(endpoint).shaking_hands(socket_type)
    }

    /// Connects as a publisher that waits for nothing, may be refused, and whose writes fail after this time.
    pub(crate) fn hasty_publisher(endpoint: &str, timeout: Duration) -> Self {
        let mut peer = Self::connect(endpoint);
        peer.give_up_after(timeout);
        for part in handshake("PUB") {
            peer.send(&part);
        }
        peer
    }

    /// Shakes hands as a socket of this type. Minor version and mechanism come behind the other side's whole greeting.
    pub(crate) fn shaking_hands(mut self, socket_type: &str) -> Self {
        let [greeting, ready] = handshake(socket_type);
        let (major_version, rest) = greeting.split_at(11);
        self.send_all(major_version);
        self.receive_greeting();
        self.send_all(&[rest, &ready].concat());
        let frame = self.receive();
        assert!(frame.flags & COMMAND != 0 && frame.body.starts_with(b"\x05READY"));
        self
    }

    pub(crate) fn receive_greeting(&mut self) {
        self.socket.read_exact(&mut [0; 64]).unwrap();
    }

    /// Lets the kernel hold few bytes that are not sent yet, so that the other side is soon through with all of them.
    pub(crate) fn hold_little(&self) {
        self.socket.set_send_buffer_size(16 * 1024).unwrap();
    }

    /// Lets writes fail after this time.
    pub(crate) fn give_up_after(&mut self, timeout: Duration) {
        self.socket.set_write_timeout(Some(timeout)).unwrap();
    }

    /// Sends bytes. Returns whether the other side takes them: it may end the connection at any byte.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    pub(crate) fn send_all(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Sends these bytes and nothing more, and waits until the other side ends the connection, too.
    pub(crate) fn leave_after(mut self, bytes: &[u8]) {
        self.send_all(bytes);
        self.socket.shutdown(Shutdown::Write).unwrap();
        self.read_to_end();
    }

    pub(crate) fn send_with_descriptor(&mut self, bytes: &[u8]) {
        let descriptors = [self.socket.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        assert!(attached.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let sent = sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut attached, SendFlags::empty());
        assert_eq!(sent, Ok(bytes.len()));
    }

    /// Sends a heartbeat and waits for the answer. The other side has then read all that was sent before.
    pub(crate) fn round_trip(&mut self) {
        self.send_all(&ping(b""));
        self.receive_pong();
    }

    /// Sends what the other side takes before the time of [`Self::give_up_after`] is over. Returns how many bytes.
    pub(crate) fn send_some(&mut self, bytes: &[u8]) -> usize {
        match self.socket.write(bytes) {
            Ok(sent) => sent,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(error) => panic!("the other side has ended the connection: {error}"),
        }
    }

    /// Returns at most so many bytes that have arrived, and none if the other side has ended the connection.
    pub(crate) fn read_some(&mut self, most: usize) -> Vec<u8> {
        let mut part = vec![0; most];
        match self.socket.read(&mut part) {
            Ok(length) => part.truncate(length),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => part.clear(),
            Err(error) => panic!("nothing arrives: {error}"),
        }
        part
    }

    /// Returns whether something arrives, or the other side ends the connection, within this time.
    pub(crate) fn is_readable_within(&self, timeout: Duration) -> bool {
        is_readable_within(&self.socket, timeout)
    }

    /// Drops what arrives up to these bytes, wherever they stand.
    pub(crate) fn read_until(&mut self, end: &[u8]) {
        let mut unread = Vec::new();
        while !unread.windows(end.len()).any(|part| part == end) {
            unread.drain(..unread.len().saturating_sub(end.len()));
            let part = self.read_some(65_536);
            assert!(!part.is_empty(), "the other side has ended the connection");
            unread.extend(part);
        }
    }

    /// Drops what has arrived. Returns whether the other side has ended the connection.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let end = io::copy(&mut self.socket, &mut io::sink());
        self.socket.set_nonblocking(false).unwrap();
        end.map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true)
    }

    pub(crate) fn receive_pong(&mut self) -> Vec<u8> {
        loop {
            let frame = self.receive();
            if let Some(context) = frame.body.strip_prefix(b"\x04PONG").filter(|_| frame.flags & COMMAND != 0) {
                return context.to_vec();
            }
        }
    }

    /// Returns the topic and the payload of the next message.
    pub(crate) fn receive_message(&mut self) -> [Vec<u8>; 2] {
        let mut frames = std::iter::repeat_with(|| self.receive()).filter(|frame| frame.flags & COMMAND == 0);
        [(); 2].map(|()| frames.next().unwrap().body)
    }

    /// Returns the body of the next frame, of whatever kind.
    pub(crate) fn receive_body(&mut self) -> Vec<u8> {
        self.receive().body
    }

    fn receive(&mut self) -> Frame {
        Frame::read(&mut self.socket).expect("a frame arrives")
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
