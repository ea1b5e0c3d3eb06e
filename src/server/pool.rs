//! The worker threads: they are started, they follow what the gateway wants of them, and they end.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use tokio::sync::{Notify, Semaphore, watch};

use crate::bus::Publisher;
use crate::http::Context;
use crate::http::policy::Policy;
use crate::server::counters::WorkerCounters;
use crate::server::listener::ListeningSocket;
use crate::server::shared::{Mode, Shared, TopicSink, WorkerContext, WorkerPublisher};
use crate::server::transport::Transport;
use crate::server::transport::epoll::Epoll;
use crate::server::transport::uring::Uring;
use crate::server::worker;
use crate::sync::budget::Budget;
use crate::sys::log::log;
use crate::sys::on_thread;
use crate::terms::Io;
use crate::terms::limits::Timeouts;

/// Why the workers did not start.
pub(crate) enum StartError {
    /// `--io uring` was asked for, and io_uring is not available.
    Uring(io::Error),
    /// The system does not let the gateway do what is named.
    Refused(&'static str, io::Error),
}

/// How the gateway serves requests. All values were checked when the arguments were parsed.
pub(crate) struct ServerConfig {
    pub(crate) io: Io,
    pub(crate) workers: NonZero<usize>,
    pub(crate) policy: Policy,
    pub(crate) timeouts: Timeouts,
    /// The bound on open connections. The limit of descriptors may lower it.
    pub(crate) max_connections: u64,
    pub(crate) inherited: Vec<Arc<ListeningSocket>>,
}

fn no_thread(error: io::Error) -> StartError {
    StartError::Refused("start a worker thread", error)
}

/// Checks whether the workers can wait for sockets as `io` demands.
pub(crate) async fn check_io(io: Io) -> Result<(), StartError> {
    if io != Io::Uring {
        return Ok(());
    }
    // The end of a ring interrupts the system calls of the thread that made it.
    let probe = on_thread("probe", || Uring::new().map(drop)).map_err(no_thread)?;
    probe.await.map_err(io::Error::other).flatten().map_err(StartError::Uring)
}

pub(crate) struct WorkerPool {
    /// The name in the `listening` event: `epoll` if one of the workers uses epoll.
    pub(crate) io: &'static str,
    pub(crate) refused: Arc<Notify>,
    counters: Vec<Arc<WorkerCounters>>,
    /// Each worker has a receiver until it has ended.
    mode: watch::Sender<Mode>,
}

impl WorkerPool {
    /// Starts the threads, which accept nothing until [`WorkerPool::change`] says where.
    pub(crate) fn start(
        config: &ServerConfig,
        publisher: &Publisher,
        unknown_topics: &TopicSink,
    ) -> Result<Self, StartError> {
        let counters: Vec<Arc<WorkerCounters>> = (0..config.workers.get()).map(|_| Arc::default()).collect();
        let budget = Budget::new(config.policy.limits.buffered_bytes);
        let permits = Arc::new(Semaphore::new(usize::try_from(config.max_connections).unwrap_or(usize::MAX)));
        let mode = watch::Sender::new(Mode::default());
        let shared = Shared {
            timeouts: config.timeouts,
            permits,
            mode: mode.subscribe(),
            inherited: config.inherited.clone(),
            refused: Arc::default(),
        };
        let (started, starting) = std::sync::mpsc::channel();
        for counters in &counters {
            let publisher = WorkerPublisher::new(publisher.clone(), Arc::clone(unknown_topics));
            let core = Context::new(config.policy.clone(), Arc::clone(&budget), Arc::clone(&counters.http), publisher);
            let worker = WorkerContext::new(core, Arc::clone(counters), shared.clone());
            let (io, mode, started) = (config.io, shared.mode.clone(), started.clone());
            let body = move || {
                let _held_until_the_end = mode;
                run_worker(io, worker, &started);
            };
            on_thread("worker", body).map_err(no_thread)?;
        }
        let loops: io::Result<Vec<_>> = starting.iter().take(config.workers.get()).collect();
        let refusals = loops.map_err(|error| match config.io {
            Io::Uring => StartError::Uring(error),
            Io::Auto | Io::Epoll => StartError::Refused("create an event loop", error),
        })?;
        let refusal = refusals.into_iter().flatten().next();
        if let Some(error) = &refusal {
            log(format_args!("io_uring is not available ({error}); the gateway uses epoll"));
        }
        let io = if config.io == Io::Epoll || refusal.is_some() { "epoll" } else { "uring" };
        Ok(Self { io, refused: shared.refused, counters, mode })
    }

    /// Returns what the workers are to do. Nobody may change it while this is held.
    pub(crate) fn mode(&self) -> watch::Ref<'_, Mode> {
        self.mode.borrow()
    }

    /// Changes what the workers are to do. A token counts, or counts no more, from when this returns.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Mode)) {
        self.mode.send_modify(change);
    }

    /// Makes the workers end by `deadline`, and waits until they have.
    pub(crate) async fn drain(&self, deadline: Instant) {
        let deadline = deadline.into();
        self.change(|mode| mode.drain(deadline));
        self.mode.closed().await;
    }

    pub(crate) fn counters(&self) -> WorkerCounters {
        WorkerCounters::sum(&self.counters)
    }
}

/// Runs a worker on the event loop that `io` asks for. Sends whether that was created, with why it is not io_uring where
/// that was preferred.
fn run_worker(io: Io, worker: WorkerContext, started: &Sender<io::Result<Option<io::Error>>>) {
    match (io != Io::Epoll).then(Uring::new) {
        Some(Ok(uring)) => {
            let _ = started.send(Ok(None));
            uring.block_on(worker::serve::<Uring>(worker));
        }
        Some(Err(error)) if io == Io::Uring => drop(started.send(Err(error))),
        refused => match Epoll::new() {
            Ok(epoll) => {
                let _ = started.send(Ok(refused.and_then(Result::err)));
                epoll.block_on(worker::serve::<Epoll>(worker));
            }
            Err(error) => drop(started.send(Err(error))),
        },
    }
}
