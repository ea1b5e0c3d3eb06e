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
            let end = opcode::PollRemove::new(key as u64).build().user_data(END_OF_POLL);
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
        {
            let mut queue = uring.submission();
            while let Some(entry) = unsubmitted.front() {
                // SAFETY: the entry begins or ends a poll (`poll_ready`, `remove`). It names no memory of this process,
                // only a descriptor and a number, and a wrong one of them is an error and not undefined behaviour.
                if unsafe { queue.push(entry) }.is_err() {
                    break;
                }
                unsubmitted.pop_front();
            }
        }
        let entered = if may_block && unsubmitted.is_empty() {
            uring.submit_and_wait(1)
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
