//! A ring of io_uring that reports which sockets are ready, by one multishot poll for each of them. A poll stays in the
//! kernel until its socket is removed. So a wait for all sockets is one system call, and so is the wait for the same
//! sockets again.
//!
//! A poll reports changes, as epoll does with `EPOLLET`. So the ring keeps what a socket is ready for until a read or an
//! accept has found nothing more ([`Ring::clear`]).
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll, Waker};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use slab::Slab;

/// Entries of the submission queue: polls that begin or end in one turn of the event loop. What does not fit is submitted
/// in the next turn.
const SUBMISSIONS: u32 = 256;

/// Entries of the completion queue: sockets that become ready in one turn. The kernel ends the polls whose completions do
/// not fit, and they begin again.
const COMPLETIONS: u32 = 2048;

/// Marks the completions of entries that end a poll.
const END_OF_POLL: u64 = u64::MAX;

/// What ends a wait for input: input, the end of the peer's side, or of both sides.
pub(super) const INPUT: PollFlags = PollFlags::IN.union(PollFlags::RDHUP).union(PollFlags::HUP);

/// What a call uses up. The ends of the two sides of a connection last.
const ONCE: PollFlags = PollFlags::IN.union(PollFlags::OUT);

/// A ring, and the sockets that it polls.
pub(super) struct Ring {
    uring: RefCell<IoUring>,
    sockets: RefCell<Slab<PolledSocket>>,
    /// What the next [`Ring::wait`] submits.
    unsubmitted: RefCell<VecDeque<squeue::Entry>>,
}

struct PolledSocket {
    descriptor: RawFd,
    interest: PollFlags,
    ready: PollFlags,
    poll: PollState,
    /// The task that waits.
    waiting: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollState {
    /// There is none. It begins when a task must wait.
    None,
    Active,
    Failed(Errno),
    /// The socket was removed, and the last completion has yet to come.
    Ending,
}

impl Ring {
    pub(super) fn new() -> io::Result<Self> {
        Self::with_entries(SUBMISSIONS, COMPLETIONS)
    }

    fn with_entries(submissions: u32, completions: u32) -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_cqsize(completions)
            // One thread submits and waits, so the kernel, from 6.1 on, need not interrupt it when a socket is ready.
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(submissions)?;
        Ok(Self { uring: RefCell::new(uring), sockets: RefCell::default(), unsubmitted: RefCell::default() })
    }

    /// Adds a socket, which counts as ready until a call finds that it is not. It must stay open until it is removed.
    /// Returns its key.
    pub(super) fn add(&self, socket: BorrowedFd<'_>, interest: PollFlags) -> usize {
        let descriptor = socket.as_raw_fd();
        let ready = interest & ONCE;
        let socket = PolledSocket { descriptor, interest, ready, poll: PollState::None, waiting: None };
        self.sockets.borrow_mut().insert(socket)
    }

    /// Removes a socket. A poll in the kernel keeps it open until the next [`Ring::wait`].
    pub(super) fn remove(&self, key: usize) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(socket) = sockets.get_mut(key) else { return };
        // The last handle on a task may drop it, and with it another socket, which needs the ring.
        let _dropped_last = socket.waiting.take();
        if socket.poll == PollState::Active {
            socket.poll = PollState::Ending;
            // `PollRemove` would fail where an event has come that the kernel has not reported yet.
            let end = opcode::AsyncCancel::new(key as u64).build().user_data(END_OF_POLL);
            self.unsubmitted.borrow_mut().push_back(end.flags(squeue::Flags::SKIP_SUCCESS));
        } else {
            sockets.remove(key);
        }
        drop(sockets);
    }

    /// Waits until the socket is ready for one of `wanted`, which is for one task at a time.
    ///
    /// # Errors
    /// The kernel refuses the poll.
    pub(super) fn poll_ready(&self, key: usize, wanted: PollFlags, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut sockets = self.sockets.borrow_mut();
        let Some(socket) = sockets.get_mut(key) else { return Poll::Ready(Err(Errno::BADF.into())) };
        if socket.ready.intersects(wanted) {
            return Poll::Ready(Ok(()));
        }
        match socket.poll {
            PollState::Active | PollState::Ending => {}
            PollState::None => {
                let poll = opcode::PollAdd::new(Fd(socket.descriptor), socket.interest.bits().into()).multi(true);
                self.unsubmitted.borrow_mut().push_back(poll.build().user_data(key as u64));
                socket.poll = PollState::Active;
            }
            PollState::Failed(error) => {
                socket.poll = PollState::None;
                return Poll::Ready(Err(error.into()));
            }
        }
        // Nearly always the same task waits again, and its waker is there already.
        if !socket.waiting.as_ref().is_some_and(|waiting| waiting.will_wake(context.waker())) {
            let _dropped_last = socket.waiting.replace(context.waker().clone());
            drop(sockets);
        }
        Poll::Pending
    }

    /// Notes that the socket is ready for none of `missing` any more.
    pub(super) fn clear(&self, key: usize, missing: PollFlags) {
        if let Some(socket) = self.sockets.borrow_mut().get_mut(key) {
            socket.ready.remove(missing);
        }
    }

    /// Submits what there is to submit, and waits for a completion if `may_block`.
    pub(super) fn wait(&self, may_block: bool) {
        let mut uring = self.uring.borrow_mut();
        let mut unsubmitted = self.unsubmitted.borrow_mut();
        let mut ends = 0;
        {
            let mut queue = uring.submission();
            while let Some(entry) = unsubmitted.front() {
                // SAFETY: the entry begins or ends a poll (`poll_ready`, `remove`). It names no memory of this process,
                // only a descriptor and a number, and a wrong one of them is an error and not undefined behaviour.
                if unsafe { queue.push(entry) }.is_err() {
                    break;
                }
                ends += usize::from(entry.get_user_data() == END_OF_POLL);
                unsubmitted.pop_front();
            }
        }
        let entered = if may_block && unsubmitted.is_empty() {
            // A poll that ends has its last completion at once, which is not worth a turn.
            uring.submit_and_wait(1 + ends)
        } else {
            // To look for completions without a time limit of zero would not run what the kernel has deferred.
            uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&Timespec::new()))
        };
        match entered.map_err(|error| Errno::from_io_error(&error)) {
            // There was none, or a signal came, or the kernel is short of memory for now.
            Ok(_) | Err(Some(Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY)) => {}
            #[expect(clippy::panic, reason = "a worker that cannot wait must not run on without its connections")]
            Err(error) => panic!("cannot wait with io_uring: {error:?}"),
        }
    }

    /// Wakes the tasks that wait for a socket that has become ready.
    pub(super) fn dispatch(&self) {
        loop {
            let completion = self.uring.borrow_mut().completion().next();
            let Some(completion) = completion else { return };
            if completion.user_data() == END_OF_POLL {
                continue;
            }
            let waiting = self.complete(completion.user_data() as usize, &completion);
            if let Some(task) = waiting {
                task.wake_by_ref();
            }
        }
    }

    /// Notes what a socket is ready for. Returns the task that waits for it.
    fn complete(&self, key: usize, completion: &cqueue::Entry) -> Option<Waker> {
        let mut sockets = self.sockets.borrow_mut();
        let socket = sockets.get_mut(key)?;
        let goes_on = cqueue::more(completion.flags());
        if socket.poll == PollState::Ending {
            if !goes_on {
                sockets.remove(key);
            }
            return None;
        }
        if !goes_on {
            socket.poll = PollState::None;
        }
        match u16::try_from(completion.result()) {
            Ok(events) => {
                socket.ready |= PollFlags::from_bits_retain(events);
                if socket.ready.contains(PollFlags::ERR) {
                    // The next call returns the error.
                    socket.ready |= socket.interest & ONCE;
                }
            }
            Err(_) => socket.poll = PollState::Failed(Errno::from_raw_os_error(-completion.result())),
        }
        socket.waiting.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;
    use std::time::{Duration, Instant};

    /// Returns a ring with these entries; `None` where the kernel refuses rings and `REQUIRE_URING` is not set.
    fn ring(submissions: u32, completions: u32) -> Option<Ring> {
        match Ring::with_entries(submissions, completions) {
            Ok(ring) => Some(ring),
            Err(error) => {
                assert!(std::env::var_os("REQUIRE_URING").is_none(), "io_uring is refused: {error}");
                None
            }
        }
    }

    #[derive(Default)]
    struct CountingWaker(AtomicU32);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll_in(ring: &Ring, key: usize) -> Poll<io::Result<()>> {
        ring.poll_ready(key, INPUT, &Context::from_waker(Waker::noop()))
    }

    fn turn(ring: &Ring, may_block: bool) {
        ring.wait(may_block);
        ring.dispatch();
    }

    /// Takes turns until `is_done`.
    fn turns_until(ring: &Ring, mut is_done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_done() {
            assert!(Instant::now() < deadline, "the ring has lost an event");
            turn(ring, false);
        }
    }

    #[test]
    fn a_socket_becomes_ready_again_after_it_was_cleared() {
        let Some(ring) = ring(2, 4) else { return };
        let (mut client, server) = UnixStream::pair().unwrap();
        let key = ring.add(server.as_fd(), PollFlags::IN | PollFlags::RDHUP);
        assert!(poll_in(&ring, key).is_ready(), "it counts as ready at first");
        let task = Arc::new(CountingWaker::default());
        for woken in 1..=3 {
            ring.clear(key, PollFlags::IN);
            let waker = Waker::from(Arc::clone(&task));
            assert!(ring.poll_ready(key, PollFlags::IN, &Context::from_waker(&waker)).is_pending());
            turn(&ring, false);
            client.write_all(b"x").unwrap();
            turn(&ring, true);
            assert_eq!(task.0.load(Ordering::Relaxed), woken);
            assert!(poll_in(&ring, key).is_ready());
        }
        ring.remove(key);
    }

    #[test]
    fn the_end_of_a_client_lasts() {
        let Some(ring) = ring(2, 4) else { return };
        let (client, server) = UnixStream::pair().unwrap();
        let key = ring.add(server.as_fd(), PollFlags::IN | PollFlags::RDHUP);
        ring.clear(key, PollFlags::IN);
        assert!(poll_in(&ring, key).is_pending());
        drop(client);
        turn(&ring, true);
        ring.clear(key, PollFlags::IN);
        assert!(poll_in(&ring, key).is_ready());
    }

    #[test]
    fn a_removed_socket_can_be_closed() {
        let Some(ring) = ring(2, 4) else { return };
        for (is_polled, has_event) in [(false, false), (true, false), (true, true)] {
            let (mut client, mut server) = UnixStream::pair().unwrap();
            let key = ring.add(server.as_fd(), PollFlags::IN);
            ring.clear(key, PollFlags::IN);
            assert!(poll_in(&ring, key).is_pending());
            if is_polled {
                turn(&ring, false);
            }
            if has_event {
                client.write_all(b"x").unwrap();
                server.read_exact(&mut [0]).unwrap();
            }
            ring.remove(key);
            drop(server);
            turn(&ring, false);
            assert!(ring.sockets.borrow().is_empty(), "polled: {is_polled}, event: {has_event}");
            client.set_nonblocking(true).unwrap();
            assert_eq!(client.read(&mut [0]).unwrap(), 0, "the poll keeps the socket open");
        }
    }

    #[test]
    fn more_sockets_than_entries_lose_no_event() {
        const SOCKETS: usize = 100;
        let Some(ring) = ring(2, 4) else { return };
        let mut pairs: Vec<_> = std::iter::repeat_with(|| UnixStream::pair().unwrap()).take(SOCKETS).collect();
        let keys: Vec<_> = pairs.iter().map(|(_, server)| ring.add(server.as_fd(), PollFlags::IN)).collect();
        for _ in 0..3 {
            for &key in &keys {
                ring.clear(key, PollFlags::IN);
                assert!(poll_in(&ring, key).is_pending());
            }
            pairs.iter_mut().for_each(|(client, _)| client.write_all(b"x").unwrap());
            let mut waiting = keys.clone();
            turns_until(&ring, || {
                waiting.retain(|&key| poll_in(&ring, key).is_pending());
                waiting.is_empty()
            });
        }
        keys.into_iter().for_each(|key| ring.remove(key));
        turns_until(&ring, || ring.sockets.borrow().is_empty());
    }

    #[test]
    fn a_refused_poll_is_an_error_and_is_tried_again() {
        let Some(ring) = ring(2, 4) else { return };
        let (_client, server) = UnixStream::pair().unwrap();
        let key = ring.add(server.as_fd(), PollFlags::IN);
        ring.clear(key, PollFlags::IN);
        ring.sockets.borrow_mut().get_mut(key).unwrap().descriptor = RawFd::MAX;
        for _ in 0..2 {
            assert!(poll_in(&ring, key).is_pending());
            turn(&ring, true);
            let Poll::Ready(Err(error)) = poll_in(&ring, key) else { panic!("a poll of a closed descriptor") };
            assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
        }
    }
}
