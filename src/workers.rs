//! The worker threads: how they wait for sockets, what they are told, when they have ended.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};

use crate::cli::Io;
use crate::counters::Counters;
use crate::events::log;
use crate::exit::Failure;
use crate::transport::Transport;
use crate::transport::epoll::Epoll;
use crate::transport::uring::Uring;
use crate::worker::{self, Service, Shared};

/// The running worker threads.
pub(crate) struct Workers {
    io: &'static str,
    counters: Vec<Arc<Counters>>,
    service: watch::Sender<Service>,
    /// Closed when the last worker has ended.
    running: mpsc::Receiver<()>,
}

impl Workers {
    /// Starts so many threads, which wait to be told to serve.
    pub(crate) fn start(io: Io, count: usize, shared: Shared) -> Result<Self, Failure> {
        let start = match io {
            Io::Epoll => Self::start_on::<Epoll>,
            Io::Uring => {
                probe().map_err(|error| Failure::NoUring(error.to_string()))?;
                Self::start_on::<Uring>
            }
            Io::Auto => match probe() {
                Ok(()) => Self::start_on::<Uring>,
                Err(error) => {
                    log(format_args!("io_uring is not available ({error}); waiting by epoll"));
                    Self::start_on::<Epoll>
                }
            },
        };
        start(count, Arc::new(shared))
    }

    fn start_on<T: Transport>(count: usize, shared: Arc<Shared>) -> Result<Self, Failure> {
        let counters: Vec<_> = std::iter::repeat_with(Arc::<Counters>::default).take(count).collect();
        let (service, follow) = watch::channel(Service::Closed);
        let (alive, running) = mpsc::channel(1);
        let (ready, readiness) = std::sync::mpsc::channel();
        for counters in &counters {
            let (shared, counters, follow) = (Arc::clone(&shared), Arc::clone(counters), follow.clone());
            let (alive, ready) = (alive.clone(), ready.clone());
            let body = move || {
                let _alive = alive;
                match T::new() {
                    Ok(event_loop) => {
                        let _ = ready.send(Ok(()));
                        worker::run(&event_loop, shared, counters, follow);
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            };
            let spawned = std::thread::Builder::new().name("worker".into()).spawn(body);
            spawned.map_err(|error| Failure::Configuration(format!("no worker thread: {error}")))?;
        }
        drop(ready);
        for ready in readiness {
            ready.map_err(|error| Failure::NoUring(error.to_string()))?;
        }
        Ok(Self { io: T::NAME, counters, service, running })
    }

    /// Tells them what to do; in force when this returns.
    pub(crate) fn direct(&self, service: Service) {
        self.service.send_replace(service);
    }

    /// Tells them to end by `deadline`, and waits for it.
    pub(crate) async fn drain(&mut self, deadline: Instant) {
        self.direct(Service::Draining { deadline: deadline.into() });
        let _ = self.running.recv().await;
    }

    /// How they wait for sockets.
    pub(crate) fn io(&self) -> &'static str {
        self.io
    }

    /// The counters of each.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &Arc<Counters>> {
        self.counters.iter()
    }
}

/// Whether the kernel gives this process a ring.
fn probe() -> io::Result<()> {
    Uring::new().map(drop)
}
