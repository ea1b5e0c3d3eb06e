//! A connection in memory, as the kernel would have it: two queues of bytes, ends, resets, and errors on demand; and the
//! client's end of it, which follows a random plan, with TLS in some worlds.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use adapter_gateway::tls::session::Acceptor;
use adapter_gateway::tls::source::{CertificateSource, Occasion};
use rustix::io::Errno;
use rustls::client::Resumption;
use rustls::{ALL_VERSIONS, ClientConfig};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::ledger::Ledger;
use crate::support::plan::ClientEnd;
use crate::support::planned::pause;
use crate::support::tls::{TlsClient, trusting};
use crate::support::{Pair, Random};
use crate::world::{World, check, note};

/// Bytes that the gateway may have unread before the client must wait.
const WINDOW_BYTES: usize = 256 * 1024;
/// Errors of recv(2) and send(2) that say nothing of the client.
const LOCAL_ERRORS: [Errno; 4] = [Errno::NOBUFS, Errno::NOMEM, Errno::INTR, Errno::IO];
/// Errors that end the connection.
const REMOTE_ERRORS: [Errno; 4] = [Errno::CONNRESET, Errno::TIMEDOUT, Errno::HOSTUNREACH, Errno::NETUNREACH];

pub(crate) struct Socket {
    pub(crate) life: u32,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    state: RefCell<State>,
    random: RefCell<Random>,
    /// Who waits for bytes or for room, at either end.
    reader: Notify,
    writer: Notify,
    client_reader: Notify,
    client_writer: Notify,
}

#[derive(Default)]
struct State {
    to_gateway: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// Bytes for the client that the kernel holds, at most.
    send_bytes: usize,
    client_ended: bool,
    client_closed: bool,
    gateway_ended: bool,
    /// Both sides were shut down, or the gateway has closed its end.
    gateway_gone: bool,
    /// What the next call of the gateway fails with.
    error: Option<Errno>,
    /// The next wait for a write ends at once, although a write has found no room.
    has_room_again: bool,
}

/// The gateway's end.
impl Socket {
    pub(crate) fn new(life: u32, ledger: Rc<RefCell<Ledger>>, mut random: Random) -> Rc<Self> {
        let send_bytes = random.pick(&[1, 100, 4_000, 65_536, 1_000_000]);
        let send_bytes = if random.permille(700) { 65_536 } else { send_bytes };
        let state = RefCell::new(State { send_bytes, ..State::default() });
        let (reader, writer, client_reader, client_writer) = Default::default();
        let random = RefCell::new(random);
        Rc::new(Self { life, ledger, state, random, reader, writer, client_reader, client_writer })
    }

    /// Returns whether this call fails for no reason of the client.
    fn fault(&self) -> io::Result<()> {
        let local_error = || {
            let mut random = self.random.borrow_mut();
            (random.below(1_000_000) < World::current().limits.fault_ppm).then(|| random.pick(&LOCAL_ERRORS))
        };
        let error = self.state.borrow_mut().error.take().or_else(local_error);
        error.map_or(Ok(()), |error| self.breaks(error))
    }

    fn breaks<T>(&self, error: Errno) -> io::Result<T> {
        self.ledger.borrow_mut().broke(error);
        Err(error.into())
    }

    fn wake_all(&self) {
        let all = [&self.reader, &self.writer, &self.client_reader, &self.client_writer];
        all.into_iter().for_each(Notify::notify_waiters);
    }

    pub(crate) async fn readable(&self) {
        let is_ready = || {
            let state = self.state.borrow();
            !state.to_gateway.is_empty() || state.client_ended || state.gateway_gone || state.error.is_some()
        };
        while !is_ready() {
            self.reader.notified().await;
        }
    }

    pub(crate) async fn writable(&self) {
        let is_ready = || {
            let mut state = self.state.borrow_mut();
            let has_room = state.to_client.len() < state.send_bytes || std::mem::take(&mut state.has_room_again);
            has_room || state.client_closed || state.gateway_gone || state.error.is_some()
        };
        while !is_ready() {
            self.writer.notified().await;
        }
    }

    /// Reads into the spare capacity. Returns the number of bytes.
    pub(crate) fn read(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        self.fault()?;
        let mut state = self.state.borrow_mut();
        let room = into.capacity() - into.len();
        assert!(room > 0, "a read has room");
        if state.to_gateway.is_empty() {
            let has_ended = state.client_ended || state.gateway_gone;
            return if has_ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let mut bytes = room.min(state.to_gateway.len());
        let mut random = self.random.borrow_mut();
        if random.permille(100) {
            // The rest comes right after this call.
            bytes = random.within(1..bytes + 1);
        } else if random.permille(5) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        into.extend(state.to_gateway.drain(..bytes));
        self.client_writer.notify_waiters();
        Ok(bytes)
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.fault()?;
        let mut state = self.state.borrow_mut();
        if state.client_closed || state.gateway_ended {
            return self.breaks(Errno::PIPE);
        }
        let mut random = self.random.borrow_mut();
        let mut room = state.send_bytes.saturating_sub(state.to_client.len()).min(bytes.len());
        if random.permille(20) {
            room = room.min(random.within(0..room + 1));
            state.has_room_again = room == 0;
        }
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.to_client.extend(&bytes[..room]);
        self.client_reader.notify_waiters();
        Ok(room)
    }

    pub(crate) fn has_unread(&self) -> bool {
        !self.state.borrow().to_gateway.is_empty()
    }

    pub(crate) fn end_writing(&self) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        state.gateway_ended = true;
        self.client_reader.notify_waiters();
        if state.error.is_some() { self.breaks(Errno::NOTCONN) } else { Ok(()) }
    }

    pub(crate) fn end_both(&self) {
        let mut state = self.state.borrow_mut();
        (state.gateway_ended, state.gateway_gone) = (true, true);
        self.wake_all();
    }
}

/// The client's end.
impl Socket {
    /// Sends all of these bytes, as the window allows. Returns whether the gateway may still read.
    pub(crate) async fn send(&self, mut bytes: &[u8]) -> bool {
        let some = |bytes: &[u8]| {
            let mut state = self.state.borrow_mut();
            let room = WINDOW_BYTES.saturating_sub(state.to_gateway.len()).min(bytes.len());
            let goes_on = !state.gateway_gone && !state.client_closed;
            state.to_gateway.extend(&bytes[..if goes_on { room } else { 0 }]);
            goes_on.then_some(room)
        };
        while !bytes.is_empty() {
            match some(bytes) {
                None => return false,
                Some(0) => self.client_writer.notified().await,
                Some(sent) => {
                    self.reader.notify_waiters();
                    bytes = &bytes[sent..];
                }
            }
        }
        true
    }

    /// Waits for bytes, and drops as many. Returns how many there were; 0 at the end.
    pub(crate) async fn receive(&self, most: usize, into: &mut Vec<u8>) -> usize {
        let has_none = || {
            let state = self.state.borrow();
            let has_ended = state.client_closed || state.gateway_ended || state.gateway_gone;
            state.to_client.is_empty() && !has_ended
        };
        while has_none() {
            self.client_reader.notified().await;
        }
        let mut state = self.state.borrow_mut();
        let bytes = if state.client_closed { 0 } else { most.min(state.to_client.len()) };
        into.extend(state.to_client.drain(..bytes));
        self.writer.notify_waiters();
        bytes
    }

    pub(crate) fn end(&self) {
        let mut state = self.state.borrow_mut();
        state.client_ended = true;
        self.reader.notify_waiters();
        self.client_writer.notify_waiters();
        note!(self.life, "fin", "");
    }

    /// Closes: what was not read, and what comes later, resets the connection.
    pub(crate) fn close(&self) {
        let mut state = self.state.borrow_mut();
        if state.client_closed {
            return;
        }
        note!(self.life, "closed", "{} unread", state.to_client.len());
        (state.client_closed, state.client_ended) = (true, true);
        if !state.to_client.is_empty() && state.error.is_none() {
            state.error = Some(Errno::CONNRESET);
        }
        self.wake_all();
    }

    /// Breaks the connection: the gateway's next call fails.
    pub(crate) fn reset(&self) {
        let error = self.random.borrow_mut().pick(&REMOTE_ERRORS);
        let mut state = self.state.borrow_mut();
        note!(self.life, "reset", "{error:?}");
        (state.client_closed, state.client_ended) = (true, true);
        if !state.gateway_gone {
            state.error = Some(error);
        }
        self.wake_all();
    }
}

pub(crate) struct End {
    pub(crate) socket: Rc<Socket>,
    session: Option<RefCell<TlsClient>>,
    /// How long the client waits before it begins the handshake, and before it completes it.
    pauses: [Duration; 2],
    sent: Cell<usize>,
}

impl End {
    /// Where TLS is spoken, some clients speak http.
    pub(crate) fn new(socket: Rc<Socket>, world: &World, random: &mut Random) -> Self {
        let session =
            (world.limits.is_tls && random.permille(900)).then(|| RefCell::new(TlsClient::new(&SHARED.1, "localhost")));
        let longest_ms = random.pick(&[0, 0, 20, 500]);
        let pauses = [(); 2].map(|()| {
            if session.is_some() { pause(&world.limits.timeouts, longest_ms, random) } else { Duration::ZERO }
        });
        socket.ledger.borrow_mut().is_secure = session.is_some();
        Self { socket, session, pauses, sent: Cell::new(0) }
    }
}

impl ClientEnd for End {
    fn is_ready(&self) -> bool {
        self.session.as_ref().is_none_or(|session| !session.borrow_mut().connection().is_handshaking())
    }

    /// Sends records in two parts, with a pause between them.
    async fn send(&self, bytes: &[u8]) -> bool {
        let Some(session) = &self.session else { return self.socket.send(bytes).await };
        if !self.is_ready() {
            sleep(self.pauses[0]).await;
        }
        let records = session.borrow_mut().write(bytes).unwrap();
        self.sent.set(self.sent.get() + records.len());
        let (first, second) = records.split_at(records.len() / 3);
        if !self.socket.send(first).await {
            return false;
        }
        sleep(Duration::from_millis(7)).await;
        self.socket.send(second).await
    }

    async fn receive(&self, most: usize) -> usize {
        let (mut bytes, mut plaintext) = (Vec::new(), Vec::new());
        let received = self.socket.receive(most, &mut bytes).await;
        if let Some(session) = &self.session {
            let was_ready = self.is_ready();
            if !was_ready {
                sleep(self.pauses[1]).await;
            }
            let read = session.borrow_mut().read(&bytes, &mut plaintext);
            check!(self.socket.life, read.is_ok(), "the gateway speaks no TLS");
            self.socket.ledger.borrow_mut().take_answers(&plaintext);
            let records = session.borrow_mut().records().unwrap();
            if !was_ready && self.is_ready() {
                self.sent.set(self.sent.get() + records.len());
                self.socket.ledger.borrow_mut().handshake_end = Some(self.sent.get());
            }
            self.socket.send(&records).await;
        }
        received
    }

    fn answered(&self) -> [usize; 2] {
        self.socket.ledger.borrow().dialogue.answered()
    }

    async fn end(&self) {
        self.socket.ledger.borrow_mut().is_end_sent = true;
        if let Some(session) = &self.session {
            let records = session.borrow_mut().close().unwrap();
            self.socket.send(&records).await;
        }
        self.socket.end();
    }

    fn close(&self) {
        self.socket.ledger.borrow_mut().is_end_sent = true;
        self.socket.close();
    }

    fn reset(&self) {
        self.socket.ledger.borrow_mut().is_end_sent = true;
        self.socket.reset();
    }
}

/// What begins the sessions of all gateways and of all clients. The signatures of the key have one length, so that a
/// seed decides on the lengths of all records.
static SHARED: LazyLock<(Arc<Acceptor>, Arc<ClientConfig>)> = LazyLock::new(|| {
    let (_, pair) = Pair::kinds().into_iter().find(|(kind, _)| *kind == "Ed25519").unwrap();
    let files = pair.in_files();
    let source = CertificateSource::Files { certificate: files.certificate.clone(), key: files.key.clone() };
    let mut client = trusting([pair.leaf()], ALL_VERSIONS);
    client.resumption = Resumption::disabled();
    let identity = source.load(SystemTime::now(), Occasion::Start).unwrap().identity;
    (Arc::new(Acceptor::new(identity).unwrap()), Arc::new(client))
});

pub(crate) fn acceptor() -> Arc<Acceptor> {
    Arc::clone(&SHARED.0)
}
