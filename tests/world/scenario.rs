//! The course of a world: its workers, its bus, its clients, and what the gateway asks of the workers meanwhile.

use std::cell::RefCell;
use std::net::TcpListener;
use std::num::NonZero;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use adapter_gateway::http::Context;
use adapter_gateway::http::policy::Policy;
use adapter_gateway::http::problem::Status;
use adapter_gateway::server::counters::WorkerCounters;
use adapter_gateway::server::listener::{BoundAddress, ListenTarget, Listening, ListeningSocket};
use adapter_gateway::server::shared::{Mode, Opened, Shared, WorkerContext, WorkerPublisher};
use adapter_gateway::server::transport::Transport;
use adapter_gateway::server::worker;
use adapter_gateway::terms::limits::Timeouts;
use adapter_gateway::terms::token::Token;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout_at};

use crate::ledger::Ledger;
use crate::socket::{End, Socket, acceptor};
use crate::support::Random;
use crate::support::ladder::Fault;
use crate::support::planned::{Author, origin};
use crate::transport::{Backlog, Simulated};
use crate::world::{Limits, Outcome, SLACK, World, check, note};

/// What connections that outlive the drain get to end.
const ABORT: Duration = Duration::from_millis(100);
/// The tokens that are in force one after the other.
const TOKENS: [&str; 3] = ["first-token", "second-token", "third-token"];
const HEAD_BYTES: usize = 2048;
const BODY_BYTES: usize = 300_000;
/// The faults that no request can have within these limits.
const EXCLUDED: &[Fault] = &[Fault::LongTarget, Fault::NoHub, Fault::None];

pub(crate) fn run(seed: u64, is_traced: bool) -> Outcome {
    let event_loop = Simulated::new().unwrap();
    let lives = event_loop.block_on(async {
        let mut random = Random(seed);
        let limits = limits(&mut random);
        let world = World::new(limits, random.fork(), is_traced);
        let lives = random.within(1..151) as u32;
        note!(0, "begin", "{lives} lives, {:?}", world.limits);
        let gateway = Gateway::start(&world);
        spawn_local(take_messages(Rc::clone(&world), random.fork()));
        let clients = spawn_local(connect_clients(Rc::clone(&world), Rc::clone(&gateway), lives, random.fork()));
        gateway.run(&mut random).await;
        clients.abort();
        gateway.check_end().await;
        u64::from(lives)
    });
    // The tasks of the clients that have vanished end here.
    drop(event_loop);
    World::end(lives)
}

fn limits(random: &mut Random) -> Limits {
    let mut seconds = |values: &[u64]| Duration::from_millis(random.pick(values));
    let timeouts = Timeouts {
        head: seconds(&[200, 1_000, 10_000]),
        body: seconds(&[200, 2_000, 30_000]),
        idle: seconds(&[100, 3_000, 75_000]),
    };
    Limits {
        timeouts,
        workers: random.within(1..4),
        connections: random.pick(&[1, 3, 20, 20, 1_000]),
        descriptors: random.pick(&[2, 10, 1_000, 1_000]),
        buffered_bytes: random.pick(&[10_000, 250_000, 64 << 20, 64 << 20]),
        queue_messages: random.pick(&[1, 4, 1_000, 1_000].map(|messages| NonZero::new(messages).unwrap())),
        queue_bytes: random.pick(&[1_000, 200_000, 64 << 20, 64 << 20]),
        fault_ppm: random.pick(&[0, 0, 300, 5_000]),
        is_tls: random.permille(60),
    }
}

/// Stands for the gateway around the workers.
struct Gateway {
    world: Rc<World>,
    /// One for each worker, since a channel wakes several receivers in an order of its own.
    modes: Vec<watch::Sender<Mode>>,
    /// What waits at a socket that other processes share.
    inherited: Rc<Backlog>,
    /// Where clients can connect to.
    open: RefCell<Vec<Rc<Backlog>>>,
    /// Where clients could connect to until the last stop or switch-off.
    closing: RefCell<Vec<Rc<Backlog>>>,
    listening: RefCell<Option<Arc<Listening>>>,
    workers: RefCell<Vec<JoinHandle<()>>>,
}

impl Gateway {
    fn start(world: &Rc<World>) -> Rc<Self> {
        let (inherited, shared_socket) = (Rc::<Backlog>::default(), TcpListener::bind("127.0.0.1:0").unwrap());
        let port = shared_socket.local_addr().unwrap().port();
        world.backlogs.borrow_mut().insert(port, Rc::clone(&inherited));
        let shared_socket = ListeningSocket::inherited(shared_socket.as_raw_fd()).unwrap();
        let mode = Mode { accepts_inherited: true, ..Mode::default() };
        let modes: Vec<_> = world.counters.iter().map(|_| watch::Sender::new(mode.clone())).collect();
        let mut policy = Policy::default();
        (policy.limits.head_bytes, policy.limits.body_bytes) = (HEAD_BYTES, BODY_BYTES as u64);
        let shared = |mode: &watch::Sender<_>| Shared {
            timeouts: world.limits.timeouts,
            permits: Arc::clone(&world.permits),
            mode: mode.subscribe(),
            inherited: vec![Arc::clone(&shared_socket)],
            refused: Arc::default(),
        };
        let context = |(counters, mode): (&Arc<WorkerCounters>, _)| {
            let publisher = WorkerPublisher::new(Arc::clone(&world.bus.inbox), Arc::new(|_topic| {}));
            let core = Context::new(policy.clone(), Arc::clone(&world.budget), Arc::clone(&counters.http), publisher);
            WorkerContext::new(core, Arc::clone(counters), shared(mode))
        };
        let contexts: Vec<_> = world.counters.iter().zip(&modes).map(context).collect();
        // The tasks of a worker end with the worker.
        let run = |context| {
            spawn_local(async {
                let tasks = LocalSet::new();
                tasks.run_until(worker::serve::<Simulated>(context)).await;
                // Tasks are dropped in an order that differs from run to run.
                let world = World::current();
                world.is_silent.set(true);
                drop(tasks);
                world.is_silent.set(false);
            })
        };
        let (world, workers) = (Rc::clone(world), RefCell::new(contexts.into_iter().map(run).collect()));
        let (open, closing, listening) = Default::default();
        Rc::new(Self { world, modes, inherited, open, closing, listening, workers })
    }

    /// Opens, closes and changes things for as long as the world lasts, and then stops the workers.
    async fn run(&self, random: &mut Random) {
        let end = Instant::now() + random.pause_ms(1..60_001);
        let longest_pause_ms = random.pick(&[50, 1_000, 20_000]);
        if random.permille(950) {
            self.open(random);
        }
        while Instant::now() < end {
            sleep(random.pause_ms(1..longest_pause_ms + 1)).await;
            self.world.check_memory();
            self.world.ledgers.borrow().iter().for_each(|ledger| ledger.borrow().check_place());
            match random.below(100) {
                0..20 => self.open(random),
                20..30 => self.close(random).await,
                30..45 => self.set_connected(!self.world.moment().is_connected),
                45..50 => self.world.bus.inbox.give_back(0, 0, random.permille(500)),
                _ => self.set_connected(true),
            }
        }
        self.stop(random).await;
    }

    fn set_connected(&self, is_connected: bool) {
        self.world.change(|moment| moment.is_connected = is_connected);
        self.world.bus.set_connected(is_connected);
    }

    /// Puts a token into force, and listens unless the gateway listens already.
    fn open(&self, random: &mut Random) {
        let token = random.below(TOKENS.len());
        // What is bound again is closed first.
        self.closing.take().iter().for_each(|backlog| backlog.close());
        let listening = self.listening.borrow_mut().get_or_insert_with(|| self.listen(random.within(1..3))).clone();
        self.world.change(|moment| moment.token = Some(token));
        for mode in &self.modes {
            let tls = self.world.limits.is_tls.then(acceptor);
            let token = Token::new(TOKENS[token]).unwrap();
            let opened = Opened { listening: Arc::clone(&listening), token, tls };
            mode.send_modify(|mode| mode.opened = Some(opened));
        }
    }

    fn listen(&self, sockets: usize) -> Arc<Listening> {
        let targets = vec![ListenTarget::Addresses(vec![([127, 0, 0, 1], 0).into(); sockets])];
        let listening = Listening::bind(&targets, |_| {}).unwrap();
        for address in listening.addresses() {
            let BoundAddress::Tcp(address) = address else { unreachable!("only addresses of TCP are bound") };
            let backlog = Rc::<Backlog>::default();
            self.world.backlogs.borrow_mut().insert(address.port(), Rc::clone(&backlog));
            self.open.borrow_mut().push(backlog);
        }
        Arc::new(listening)
    }

    async fn close(&self, random: &mut Random) {
        if self.listening.take().is_none() {
            return;
        }
        self.end_connections("off");
        self.world.change(|moment| moment.token = None);
        self.modes.iter().for_each(|mode| mode.send_modify(Mode::close));
        *self.closing.borrow_mut() = self.open.take();
        sleep(random.pause_ms(0..2_000)).await;
    }

    async fn stop(&self, random: &mut Random) {
        // What listened before a switch-off has had its time, and may have been closed with connections in it.
        self.closing.replace(self.open.take()).iter().for_each(|backlog| backlog.close());
        self.end_connections("drain");
        let mut deadline = Instant::now() + Duration::from_millis(random.pick(&[0, 500, 5_000, 100_000]));
        self.drain(deadline);
        sleep(random.pause_ms(0..10)).await;
        if random.permille(200) {
            sleep(random.pause_ms(0..1_000)).await;
            deadline = deadline.min(Instant::now());
            self.drain(deadline);
        }
        let began = Instant::now();
        for worker in self.workers.take() {
            match timeout_at(deadline.max(began) + ABORT + SLACK, worker).await {
                Ok(ended) => ended.unwrap(),
                Err(_) => check!(0, false, "a worker has not ended"),
            }
        }
        for backlog in self.closing.take() {
            check!(0, backlog.is_empty() || Instant::now() >= deadline, "connections that had come were not accepted");
            backlog.close();
        }
    }

    fn drain(&self, deadline: Instant) {
        self.world.drain_deadline.set(Some(World::now() + deadline.saturating_duration_since(Instant::now())));
        self.modes.iter().for_each(|mode| mode.send_modify(|mode| mode.drain(deadline)));
    }

    fn end_connections(&self, why: &'static str) {
        note!(0, why, "");
        self.world.endings.borrow_mut().push(World::now());
    }

    /// Checks that nothing is left, and that each message is accounted for.
    async fn check_end(&self) {
        let world = &self.world;
        // Nobody accepts what waits at the shared socket.
        self.inherited.close();
        sleep(Duration::from_millis(1)).await;
        world.bus.inbox.close(Instant::now().into());
        // The task that takes messages was at rest, or takes the rest now.
        while let Some(message) = world.bus.take() {
            world.take(&message);
        }
        let sums = WorkerCounters::sum(&world.counters);
        let counters = world.bus.inbox.counters();
        let left = [
            ("connections", sums.connections() as usize),
            ("streams", world.streams.get()),
            ("listeners", world.listeners.get()),
            ("permits", world.limits.connections - world.permits.available_permits()),
            ("bytes of bodies", world.budget.held_bytes()),
            ("messages", counters.queue_depth as usize),
            ("bytes of messages", counters.queue_bytes),
            ("holders of the budget", Arc::strong_count(&world.budget) - 1),
            ("holders of permits", Arc::strong_count(&world.permits) - 1),
        ];
        for (what, count) in left {
            check!(0, count == 0, "{count} {what} are left");
        }
        let answered = sums.http.answers.of(Status::Ok).get();
        let accepted = counters.accepted;
        check!(0, answered == accepted, "{answered} answers 200, and {accepted} messages accepted");
        for ledger in world.ledgers.borrow().iter() {
            ledger.borrow().check_published();
        }
    }
}

impl World {
    /// Checks what is held of bodies, while no task runs.
    fn check_memory(&self) {
        let (mut bytes, mut bodies) = (0, 0);
        for ledger in self.ledgers.borrow().iter() {
            let (kept_bytes, is_kept) = ledger.borrow().kept();
            bytes += kept_bytes;
            bodies += usize::from(is_kept);
        }
        let held = self.budget.held_bytes();
        check!(0, held <= self.limits.buffered_bytes, "{held} bytes of bodies are held");
        check!(0, held >= bytes, "{bytes} bytes of bodies have come, and {held} are held");
        check!(0, held == 0 || bodies > 0, "{held} bytes are held of no body");
        let open = WorkerCounters::sum(&self.counters).connections();
        check!(0, open <= self.limits.connections as u64, "{open} connections are open");
        let depth = self.bus.inbox.counters().queue_depth;
        check!(0, depth <= self.limits.queue_messages.get() as u64, "{depth} messages are queued");
    }

    /// Gives a message that was taken from the queue to the life that it came from.
    fn take(&self, (topic, payload): &(Vec<u8>, Vec<u8>)) {
        let ledgers = self.ledgers.borrow();
        match origin(payload).and_then(|(life, _)| ledgers.get(life as usize - 1)) {
            Some(ledger) => ledger.borrow_mut().was_published(topic, payload),
            None => check!(0, false, "a message that no client has sent"),
        }
    }
}

/// Takes the messages from the queue as the bus thread does: when it is woken, and sometimes late.
async fn take_messages(world: Rc<World>, mut random: Random) {
    loop {
        if world.bus.park() {
            world.accepted.notified().await;
            sleep(Duration::from_millis(1)).await;
            let is_late = world.bus.inbox.counters().queue_depth > 0
                && rustix::io::read(&world.bus.inbox.waker, &mut [0; 8]).is_err();
            check!(0, !is_late, "messages are queued, and the bus was not woken");
        }
        let pause_ms = random.pick(&[0, 1, 20, 20, 3_000]);
        sleep(Duration::from_millis(pause_ms)).await;
        let most = random.within(1..101);
        for _ in 0..most {
            let Some(message) = world.bus.take() else { break };
            world.take(&message);
        }
    }
}

async fn connect_clients(world: Rc<World>, gateway: Rc<Gateway>, lives: u32, mut random: Random) {
    let longest_ms = random.pick(&[0, 5, 200, 1_000]);
    for life in 1..=lives {
        let ledger = Rc::new(RefCell::new(Ledger::new(life)));
        world.ledgers.borrow_mut().push(Rc::clone(&ledger));
        let mut random = random.fork();
        sleep(random.pause_ms(0..longest_ms + 1)).await;
        let token = match world.moment().token {
            Some(token) if random.permille(950) => token,
            _ => random.below(TOKENS.len()),
        };
        let mut numbers = 0..;
        let (plan, requests) = Author {
            client: life,
            next_number: &mut || numbers.next().expect("there are many numbers"),
            token: (token, TOKENS[token].to_owned()),
            max_body_bytes: BODY_BYTES,
            timeouts: world.limits.timeouts,
            excluded: EXCLUDED,
        }
        .plan(&mut random);
        ledger.borrow_mut().dialogue.requests = requests;
        ledger.borrow_mut().is_tls = world.limits.is_tls;
        let end = End::new(Socket::new(life, ledger, random.fork()), &world, &mut random);
        let gateway = Rc::clone(&gateway);
        spawn_local(async move {
            if gateway.connect(&end.socket, &mut random) {
                plan.follow(&end).await;
            } else {
                note!(life, "refused", "");
            }
        });
    }
    std::future::pending().await
}

impl Gateway {
    /// Connects a client, sometimes to the socket that other processes share. Returns `false` where nobody listens.
    fn connect(&self, socket: &Rc<Socket>, random: &mut Random) -> bool {
        if random.permille(100) {
            note!(socket.life, "inherit", "");
            socket.ledger.borrow_mut().is_inherited = true;
            return self.inherited.connect(socket);
        }
        let open = self.open.borrow();
        let Some(last) = open.len().checked_sub(1) else { return false };
        note!(socket.life, "connect", "");
        open[random.below(last + 1)].connect(socket)
    }
}
