//! A connection in memory, as the kernel would have it: two queues of bytes, ends, resets, and errors on demand.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustix::io::Errno;

use crate::ledger::Ledger;
use crate::support::Random;
use crate::world::{World, note};

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
    reader: Option<Waker>,
    writer: Option<Waker>,
    client_reader: Option<Waker>,
    client_writer: Option<Waker>,
}

impl State {
    fn wake_all(&mut self) {
        let Self { reader, writer, client_reader, client_writer, .. } = self;
        [reader, writer, client_reader, client_writer].into_iter().for_each(wake);
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

fn wait<T>(waker: &mut Option<Waker>, context: &Context<'_>) -> Poll<T> {
    *waker = Some(context.waker().clone());
    Poll::Pending
}

/// The gateway's end.
impl Socket {
    pub(crate) fn new(life: u32, ledger: Rc<RefCell<Ledger>>, mut random: Random) -> Rc<Self> {
        let send_bytes = random.pick(&[1, 100, 4_000, 65_536, 1_000_000]);
        let send_bytes = if random.permille(700) { 65_536 } else { send_bytes };
        let state = RefCell::new(State { send_bytes, ..State::default() });
        Rc::new(Self { life, ledger, state, random: RefCell::new(random) })
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

    pub(crate) fn poll_readable(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state.borrow_mut();
        let is_ready = !state.to_gateway.is_empty() || state.client_ended || state.gateway_gone;
        if is_ready || state.error.is_some() {
            return Poll::Ready(Ok(()));
        }
        wait(&mut state.reader, context)
    }

    pub(crate) fn poll_writable(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        let has_room = state.to_client.len() < state.send_bytes || std::mem::take(&mut state.has_room_again);
        if has_room || state.client_closed || state.gateway_gone || state.error.is_some() {
            return Poll::Ready(());
        }
        wait(&mut state.writer, context)
    }

    /// Reads into the spare capacity. Returns the number of bytes, and whether they filled it.
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
        wake(&mut state.client_writer);
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
        wake(&mut state.client_reader);
        Ok(room)
    }

    pub(crate) fn has_unread(&self) -> bool {
        !self.state.borrow().to_gateway.is_empty()
    }

    pub(crate) fn end_writing(&self) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        state.gateway_ended = true;
        wake(&mut state.client_reader);
        if state.error.is_some() { self.breaks(Errno::NOTCONN) } else { Ok(()) }
    }

    pub(crate) fn end_both(&self) {
        let mut state = self.state.borrow_mut();
        state.gateway_ended = true;
        state.gateway_gone = true;
        state.wake_all();
    }
}

/// The client's end.
impl Socket {
    /// Sends all of these bytes, as the window allows. Returns whether the gateway may still read.
    pub(crate) async fn send(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let sent = poll_fn(|context| {
                let mut state = self.state.borrow_mut();
                if state.gateway_gone || state.client_closed {
                    return Poll::Ready(0);
                }
                let room = WINDOW_BYTES.saturating_sub(state.to_gateway.len()).min(bytes.len());
                if room == 0 {
                    return wait(&mut state.client_writer, context);
                }
                state.to_gateway.extend(&bytes[..room]);
                wake(&mut state.reader);
                Poll::Ready(room)
            });
            let sent = sent.await;
            if sent == 0 {
                return false;
            }
            bytes = &bytes[sent..];
        }
        true
    }

    /// Waits for bytes, and drops as many. Returns how many there were; 0 at the end.
    pub(crate) fn receive(&self, most: usize, into: &mut Vec<u8>) -> impl Future<Output = usize> {
        poll_fn(move |context| {
            let mut state = self.state.borrow_mut();
            if state.client_closed {
                return Poll::Ready(0);
            }
            if state.to_client.is_empty() {
                let has_ended = state.gateway_ended || state.gateway_gone;
                return if has_ended { Poll::Ready(0) } else { wait(&mut state.client_reader, context) };
            }
            let bytes = most.min(state.to_client.len());
            into.extend(state.to_client.drain(..bytes));
            wake(&mut state.writer);
            Poll::Ready(bytes)
        })
    }

    pub(crate) fn end(&self) {
        let mut state = self.state.borrow_mut();
        state.client_ended = true;
        wake(&mut state.reader);
        wake(&mut state.client_writer);
        note!(self.life, "fin", "");
    }

    /// Closes: what was not read, and what comes later, resets the connection.
    pub(crate) fn close(&self) {
        let mut state = self.state.borrow_mut();
        if state.client_closed {
            return;
        }
        note!(self.life, "closed", "{} unread", state.to_client.len());
        state.client_closed = true;
        state.client_ended = true;
        if !state.to_client.is_empty() && state.error.is_none() {
            state.error = Some(Errno::CONNRESET);
        }
        state.wake_all();
    }

    /// Breaks the connection: the gateway's next call fails.
    pub(crate) fn reset(&self) {
        let error = self.random.borrow_mut().pick(&REMOTE_ERRORS);
        let mut state = self.state.borrow_mut();
        note!(self.life, "reset", "{error:?}");
        state.client_closed = true;
        state.client_ended = true;
        if !state.gateway_gone {
            state.error = Some(error);
        }
        state.wake_all();
    }
}
