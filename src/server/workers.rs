//! The worker threads: how they wait for sockets, what they are told, when they have ended.

use std::sync::Arc;
use std::time::Instant;
use std::{fmt, io};

use tokio::sync::{mpsc, watch};

use crate::log::log;
use crate::server::counters::Counters;
use crate::server::transport::Transport;
use crate::server::transport::epoll::Epoll;
use crate::server::transport::uring::Uring;
use crate::server::worker::{self, Service, Shared};

/// How sockets are waited for (`--io`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// io_uring where it is available, else epoll.
    Auto,
    /// io_uring, or exit status 5.
    Uring,
    /// epoll.
    Epoll,
}

/// How the workers wait for sockets, once they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoBackend {
    /// All of them by io_uring.
    Uring,
    /// At least one of them by epoll, the slower of the two.
    Epoll,
}

impl fmt::Display for IoBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring => Uring::NAME,
            Self::Epoll => Epoll::NAME,
        })
    }
}

/// Why the workers did not start.
#[derive(Debug)]
pub enum StartError {
    /// `--io uring` was asked for, and io_uring is not available.
    Uring(io::Error),
    /// The system gives no event loop.
    EventLoop(io::Error),
    /// The system gives no thread.
    Thread(io::Error),
}

/// The running worker threads.
pub(crate) struct Workers {
    io: IoBackend,
    counters: Vec<Arc<Counters>>,
    service: watch::Sender<Service>,
    /// Closed when the last worker has ended.
    running: mpsc::Receiver<()>,
}

impl Workers {
    /// Starts so many threads, which wait to be told to serve.
    pub(crate) fn start(io: Io, count: usize, shared: Shared) -> Result<Self, StartError> {
        let shared = Arc::new(shared);
        let counters: Vec<_> = std::iter::repeat_with(Arc::<Counters>::default).take(count).collect();
        let (service, follow) = watch::channel(Service::Closed);
        let (alive, running) = mpsc::channel(1);
        let (ready, readiness) = std::sync::mpsc::channel();
        for counters in &counters {
            let worker = Start { shared: Arc::clone(&shared), counters: Arc::clone(counters), service: follow.clone() };
            let (alive, ready) = (alive.clone(), ready.clone());
            let body = move || {
                let _alive_until_the_end = alive;
                worker.run(io, &ready);
            };
            let spawned = std::thread::Builder::new().name("worker".into()).spawn(body);
            spawned.map_err(StartError::Thread)?;
        }
        let ways: io::Result<Vec<_>> = readiness.iter().take(count).collect();
        let ways = ways.map_err(|error| match io {
            Io::Uring => StartError::Uring(error),
            Io::Auto | Io::Epoll => StartError::EventLoop(error),
        })?;
        if let Some(error) = ways.iter().find_map(|way| way.refused.as_ref()) {
            log(format_args!("io_uring is not available ({error}); waiting by epoll"));
        }
        let is_uring = ways.iter().all(|way| way.name == Uring::NAME);
        let io = if is_uring { IoBackend::Uring } else { IoBackend::Epoll };
        Ok(Self { io, counters, service, running })
    }

    /// Tells them what to do; in force when this returns.
    pub(crate) fn direct(&self, service: Service) {
        self.service.send_replace(service);
    }

    /// Tells them to end by `deadline`, and waits for it.
    pub(crate) async fn drain(&mut self, deadline: Instant) {
        self.service.send_modify(|service| {
            let token = match service {
                Service::Open { token, .. } => Some(token.clone()),
                Service::Draining { token, .. } => token.take(),
                Service::Closed => None,
            };
            *service = Service::Draining { deadline: deadline.into(), token };
        });
        let _ = self.running.recv().await;
    }

    /// How they wait for sockets.
    pub(crate) fn io(&self) -> IoBackend {
        self.io
    }

    /// The counters of each.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Arc<Counters>> {
        self.counters.iter()
    }
}

/// What a worker thread starts with.
struct Start {
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    service: watch::Receiver<Service>,
}

/// How a worker waits.
struct Way {
    name: &'static str,
    /// Why not by io_uring, where it asked for that.
    refused: Option<io::Error>,
}

/// Who is told once how a worker waits, or why it cannot.
type Ready = std::sync::mpsc::Sender<io::Result<Way>>;

impl Start {
    fn run(self, io: Io, ready: &Ready) {
        match io {
            Io::Uring => self.run_on(Uring::new(), None, ready),
            Io::Epoll => self.run_on(Epoll::new(), None, ready),
            Io::Auto => match Uring::new() {
                Ok(event_loop) => self.run_on(Ok(event_loop), None, ready),
                Err(error) => self.run_on(Epoll::new(), Some(error), ready),
            },
        }
    }

    fn run_on<T: Transport>(self, event_loop: io::Result<T>, refused: Option<io::Error>, ready: &Ready) {
        match event_loop {
            Ok(event_loop) => {
                let _ = ready.send(Ok(Way { name: T::NAME, refused }));
                worker::run(&event_loop, self.shared, self.counters, self.service);
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        }
    }
}
