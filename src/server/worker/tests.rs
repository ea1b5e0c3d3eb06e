//! Tests of what a worker does with its connections.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::RawFd;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::task::{self, Wake};

use tokio::io::unix::AsyncFd;
use tokio::sync::{Semaphore, watch};

use super::*;
use crate::bus::{Bus, BusConfig};
use crate::http::Context;
use crate::http::policy::Policy;
use crate::server::counters::WorkerCounters;
use crate::server::listener::{BoundAddress, ListenTarget, Listening};
use crate::server::shared::{Shared, WorkerPublisher};
use crate::server::transport::epoll::Epoll;
use crate::server::transport::uring::Uring;
use crate::sync::budget::Budget;
use crate::terms::limits::Timeouts;
use crate::terms::token::Token;

const BUDGET_BYTES: usize = 100_000;

const PATIENCE: Duration = Duration::from_secs(30);

/// The most that the task of a connection may take, in bytes, on 64-bit machines, by io_uring and by epoll. Each of
/// 10,000 idle connections pays for what a branch of its future keeps across a wait: tokio adds 104 bytes and
/// rounds up to 128, so these make 640 and 768.
const TASK_BYTES: [usize; 2] = [536, 664];

fn size_of_output<A, B, C, D, F>(_function: impl FnOnce(A, B, C, D) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn the_task_of_a_connection_stays_small() {
    let sizes = [
        size_of_output(Worker::<<Uring as Transport>::Stream>::serve),
        size_of_output(Worker::<<Epoll as Transport>::Stream>::serve),
    ];
    println!("a connection's task: {sizes:?} bytes (uring, epoll)");
    assert!(sizes.iter().zip(TASK_BYTES).all(|(&bytes, most)| bytes <= most), "{sizes:?}");
}

/// Notes when it is woken how many connections count as open, and whether the whole budget is free.
struct StateWhenWoken {
    counters: Arc<WorkerCounters>,
    budget: Arc<Budget>,
    noted: OnceLock<(u64, bool)>,
}

impl StateWhenWoken {
    fn new() -> Arc<Self> {
        Arc::new(Self { counters: Arc::default(), budget: Budget::new(BUDGET_BYTES), noted: OnceLock::new() })
    }
}

impl Wake for StateWhenWoken {
    fn wake(self: Arc<Self>) {
        let open = self.counters.connections();
        let _ = self.noted.set((open, self.budget.hold(BUDGET_BYTES).is_some()));
    }
}

fn bus() -> Bus {
    let bind = vec!["ipc://*".parse().unwrap()];
    Bus::start(BusConfig { bind, ..BusConfig::default() }, |_| {}).unwrap()
}

/// Returns a worker whose budget is one body, and that bounds its connections with `permits`.
fn worker(
    bus: &Bus,
    state: &StateWhenWoken,
    permits: &Arc<Semaphore>,
    mode: &watch::Sender<Mode>,
) -> Rc<Worker<<Epoll as Transport>::Stream>> {
    let publisher = WorkerPublisher::new(bus.publisher(), Arc::new(|_topic| {}));
    let core = Context::new(Policy::default(), Arc::clone(&state.budget), Arc::clone(&state.counters.http), publisher);
    let shared = Shared {
        timeouts: Timeouts { head: PATIENCE, body: PATIENCE, idle: PATIENCE },
        permits: Arc::clone(permits),
        mode: mode.subscribe(),
        inherited: Vec::new(),
        refused: Arc::default(),
    };
    Rc::new(Worker::new(WorkerContext::new(core, Arc::clone(&state.counters), shared)))
}

fn opened(token: &str, listening: Arc<Listening>) -> Opened {
    Opened { listening, token: Token::new(token).unwrap(), tls: None }
}

/// Returns the mode of workers that drain, with a token and no sockets of their own.
fn draining() -> Mode {
    let mut mode = Mode { opened: Some(opened("t", Arc::default())), ..Mode::default() };
    mode.drain(Instant::now() + PATIENCE);
    mode
}

fn listening_socket(inherited: Option<RawFd>) -> ListeningSocket {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = BoundAddress::Tcp(socket.local_addr().unwrap());
    ListeningSocket { socket: socket.into(), address, inherited, is_lost: AtomicBool::new(false) }
}

/// Returns a connection and its client, who has sent nothing.
fn connected() -> (TcpStream, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    (client, socket.into())
}

/// Accepts a connection whose client has announced a body as large as the budget, and has sent nothing of it.
fn announced_body() -> (TcpStream, OwnedFd) {
    let (mut client, socket) = connected();
    let head = "POST /api/message?token=t HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n";
    write!(client, "{head}Content-Length: {BUDGET_BYTES}\r\n\r\n").unwrap();
    (client, socket)
}

/// A person or a test that reads that no connection is open relies on it. The permit is given back last, and wakes
/// who waits for it.
#[test]
fn a_connection_counts_as_open_until_it_has_given_everything_back() {
    let (bus, state) = (bus(), StateWhenWoken::new());
    let permits = Arc::new(Semaphore::new(1));
    let worker = worker(&bus, &state, &permits, &watch::Sender::new(draining()));
    Epoll::new().unwrap().block_on(async {
        let (client, socket) = announced_body();
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        let mut next_permit = pin!(Arc::clone(&permits).acquire_owned());
        let waker = task::Waker::from(Arc::clone(&state));
        assert!(next_permit.as_mut().poll(&mut task::Context::from_waker(&waker)).is_pending());
        worker.open::<Epoll>(Some(&opened("t", Arc::default())));
        worker.spawn::<Epoll>(socket, &listening_socket(None), permit).unwrap();
        let held = async {
            while state.budget.hold(BUDGET_BYTES).is_some() {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, held).await.expect("the body is held");
        drop(client);
        timeout(PATIENCE, worker.wait_until_empty()).await.expect("the connection ends");
    });
    assert_eq!(state.noted.get(), Some(&(1, true)));
}

/// Whoever accepts next from an inherited socket cannot serve a connection that this process has accepted.
#[test]
fn an_inherited_connection_that_came_as_the_drain_began_is_answered() {
    let (bus, state) = (bus(), StateWhenWoken::new());
    let permits = Arc::new(Semaphore::new(1));
    let worker = worker(&bus, &state, &permits, &watch::Sender::new(draining()));
    Epoll::new().unwrap().block_on(async {
        let (mut client, socket) = connected();
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        worker.spawn::<Epoll>(socket, &listening_socket(Some(3)), permit).unwrap();
        // The task sees that the worker drains before the client sends.
        tokio::task::yield_now().await;
        write!(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        timeout(PATIENCE, worker.wait_until_empty()).await.expect("the connection ends");
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    });
}

/// What is closed may be closed again, and no connection may last longer for it.
#[test]
fn the_first_close_decides_until_when_connections_may_go_on() {
    let mut mode = Mode { opened: Some(opened("t", Arc::default())), ..Mode::default() };
    let opened_at = mode.ending_since - PATIENCE;
    mode.ending_since = opened_at;
    mode.close();
    assert!(mode.opened.is_none() && mode.ending_since > opened_at);
    mode.ending_since = opened_at;
    mode.close();
    assert_eq!(mode.ending_since, opened_at);
}

/// A client that sends in a row notices nothing of an API that was off for a moment.
#[test]
fn a_request_on_a_connection_from_before_a_short_switch_off_is_answered_by_what_is_in_force() {
    for is_seen in [true, false] {
        let (bus, state) = (bus(), StateWhenWoken::new());
        let listening = || {
            Arc::new(Listening::bind(&[ListenTarget::Addresses(vec!["127.0.0.1:0".parse().unwrap()])], |_| {}).unwrap())
        };
        let mode = watch::Sender::new(Mode::default());
        mode.send_modify(|mode| mode.opened = Some(opened("before", listening())));
        let worker = worker(&bus, &state, &Arc::new(Semaphore::new(1)), &mode);
        let post = |token: &str, body: &str| {
            let target = format!("/api/message?token={token}");
            let head = format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n");
            format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
        };
        let message = r#"{"topic":"t","payload":{}}"#;
        Epoll::new().unwrap().block_on(async {
            spawn_local(Rc::clone(&worker).run::<Epoll>());
            let address = current_of(&mode).addresses().next().unwrap().to_string();
            let mut client = TcpStream::connect(address).unwrap();
            client.set_nonblocking(true).unwrap();
            client.write_all(post("before", message).as_bytes()).unwrap();
            assert!(answer(&mut client).await.starts_with("HTTP/1.1 200 "));
            mode.send_modify(|mode| {
                mode.close();
                // The client may begin a request until long after this test.
                mode.ending_since += PATIENCE;
            });
            if is_seen {
                while !worker.connections.borrow().iter().all(|(_, handle)| handle.is_ending.get()) {
                    yield_now().await;
                }
            }
            mode.send_modify(|mode| mode.opened = Some(opened("after", listening())));
            while !worker
                .open
                .borrow()
                .as_ref()
                .is_some_and(|(open, _)| Arc::ptr_eq(&open.listening, &current_of(&mode)))
            {
                yield_now().await;
            }
            client.write_all(post("after", message).as_bytes()).unwrap();
            let answer = answer(&mut client).await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\r\nConnection: close\r\n"), "{answer}");
        });
    }
}

fn current_of(mode: &watch::Sender<Mode>) -> Arc<Listening> {
    Arc::clone(&mode.borrow().opened.as_ref().unwrap().listening)
}

/// Returns what a client gets next: an answer, or nothing at the end of the connection.
async fn answer(client: &mut TcpStream) -> String {
    let mut buffer = [0; 1024];
    let read = async {
        loop {
            match client.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => yield_now().await,
                read => return read.unwrap(),
            }
        }
    };
    let bytes = timeout(PATIENCE, read).await.expect("an answer comes");
    String::from_utf8_lossy(&buffer[..bytes]).into_owned()
}

/// The event loop has no room for the listener at first.
struct LateListener(AsyncFd<OwnedFd>);

thread_local!(static REFUSALS: Cell<u32> = const { Cell::new(2) });

impl TransportListener for LateListener {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        match REFUSALS.replace(REFUSALS.get().saturating_sub(1)) {
            0 => TransportListener::new(socket).map(Self),
            _ => Err(Errno::NOSPC.into()),
        }
    }

    fn acceptable(&self) -> impl Future<Output = io::Result<()>> {
        self.0.acceptable()
    }

    fn is_acceptable(&self) -> bool {
        self.0.is_acceptable()
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        self.0.accept()
    }
}

struct LateEpoll(Epoll);

impl Transport for LateEpoll {
    type Stream = <Epoll as Transport>::Stream;
    type Listener = LateListener;

    fn new() -> io::Result<Self> {
        Epoll::new().map(Self)
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}

#[test]
fn a_socket_that_cannot_be_waited_for_is_tried_again() {
    let (bus, state) = (bus(), StateWhenWoken::new());
    let worker = worker(&bus, &state, &Arc::new(Semaphore::new(1)), &watch::Sender::new(Mode::default()));
    let target = ListenTarget::Addresses(vec!["127.0.0.1:0".parse().unwrap()]);
    let listening = Listening::bind(&[target], |_| {}).unwrap();
    let address = listening.addresses().next().unwrap().to_string();
    LateEpoll::new().unwrap().block_on(async {
        worker.open::<LateEpoll>(Some(&opened("t", Arc::new(listening))));
        let _client = TcpStream::connect(address).unwrap();
        let accepted = async {
            while worker.connections.borrow().is_empty() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, accepted).await.expect("the connection is accepted");
        worker.open.take();
    });
}
