//! What happens to the gateway while it serves: hubs end, the settings change, certificates are replaced, and peers of a bound
//! endpoint mean harm. The kinds come in a random order, each once before any comes again. A hub is a process of its own,
//! which passes each message on with its number.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::pair::{PairFiles, replace};
use crate::support::peer::message;
use crate::support::task::POLL_INTERVAL_MS;
use crate::support::{
    Form, Gateway, Pair, Process, Random, RawPeer, Task, disabled, enabled, frame, refuses, subscribe,
};
use crate::world::{Change, World, nth_token};

/// What can happen: whether it can with this gateway, its name, and what to do.
type Disturbance = (bool, &'static str, fn(&mut Director));

/// The certificate of a gateway that serves https.
pub(crate) struct Certificate {
    pub(crate) files: PairFiles,
    pub(crate) pair: Pair,
}

pub(crate) struct Director {
    pub(crate) world: Arc<World>,
    pub(crate) gateway: Gateway,
    pub(crate) hubs: Hubs,
    pub(crate) certificate: Option<Certificate>,
    pub(crate) random: Random,
}

impl Director {
    pub(crate) fn run(&mut self, duration: Duration) {
        let begun = Instant::now();
        let end = begun + duration;
        // In a long run, there is time for all clients to connect between two things.
        let longest_pause = (duration / 180).max(Duration::from_secs(5)).as_millis() as usize;
        let mut kinds = self.disturbances();
        kinds.retain(|(is_possible, ..)| *is_possible);
        loop {
            self.random.shuffle(&mut kinds);
            for (_, what, disturb) in &kinds {
                let pause = self.random.pause_ms(500..longest_pause);
                sleep(pause.min(end.saturating_duration_since(Instant::now())));
                if Instant::now() >= end {
                    return;
                }
                println!("{:>7.1} s: {what}", begun.elapsed().as_secs_f64());
                disturb(self);
            }
        }
    }

    fn disturbances(&self) -> Vec<Disturbance> {
        let (is_dialled, has_certificate) = (self.hubs.is_dialled, self.certificate.is_some());
        let (is_bound, has_publishers) = (!is_dialled, self.hubs.publishers.is_some());
        vec![
            (is_dialled, "kill the hub", Self::replace_hub),
            (true, "stop the hub", |it| {
                it.stop_hub();
                it.hubs.signal(Signal::CONT);
            }),
            (is_dialled, "kill the stopped hub", |it| {
                it.stop_hub();
                it.replace_hub();
            }),
            (true, "switch off", Self::switch_off),
            (true, "new token", Self::new_token),
            (true, "broken settings", |it| {
                it.gateway.settings.write("OPEN_REST_API = (\n");
                it.gateway.wait_settings("rejected");
                it.new_token();
            }),
            (true, "same settings", |it| {
                it.gateway.settings.write(&enabled(&it.world.token()));
                it.gateway.wait_settings("unchanged");
            }),
            (true, "hangup", |it| {
                it.gateway.signal(Signal::HUP);
                it.gateway.wait_settings("unchanged");
            }),
            (has_certificate, "new certificate", Self::new_certificate),
            (has_certificate, "broken certificate", |it| {
                let certificate = it.certificate.as_ref().expect("a certificate");
                replace(&certificate.files.certificate, "no certificate\n");
                it.gateway.wait_state("certificate", "rejected");
                it.new_certificate();
            }),
            (is_bound, "peers that leave", |it| subscribe_and_leave(&it.hubs.endpoint, &mut it.random)),
            (is_bound, "a peer that changes its mind", |it| change_the_mind(&it.hubs.endpoint)),
            (is_bound, "silent peers", |it| be_silent(&it.hubs.endpoint, it.random.pause_ms(100..6_000))),
            (is_bound, "a peer that does not read", |it| {
                let _staller = subscribe_and_not_read(&it.hubs.endpoint);
                sleep(it.random.pause_ms(100..6_000));
            }),
            (has_publishers, "publishers that leave", |it| {
                let _staller = it.random.permille(500).then(|| subscribe_and_not_read(&it.hubs.endpoint));
                publish_and_leave(it.hubs.publishers.as_ref().expect("a hub"), &mut it.random);
            }),
        ]
    }

    fn stop_hub(&mut self) {
        self.hubs.signal(Signal::STOP);
        sleep(self.random.pause_ms(500..6_000));
        if self.random.permille(300) {
            self.new_token();
        }
    }

    fn replace_hub(&mut self) {
        self.world.changes.begin(Change::Hub);
        // It is killed with SIGKILL.
        self.hubs.running = None;
        sleep(self.random.pause_ms(0..2_000));
        self.hubs.start_next();
        self.gateway.wait_connected();
        self.world.changes.complete(Change::Hub);
    }

    fn switch_off(&mut self) {
        self.world.changes.begin(Change::Switch);
        self.gateway.settings.write(disabled());
        self.gateway.wait_event("disabled");
        self.gateway.wait_settings("reloaded");
        if !refuses(self.world.tcp) || self.world.unix.exists() {
            self.world.fail("the API is off, and something listens");
        }
        sleep(self.random.pause_ms(0..2_000));
        self.gateway.settings.write(&enabled(&self.world.token()));
        self.gateway.wait_listening();
        self.gateway.wait_listening();
        self.gateway.wait_settings("reloaded");
        self.world.changes.complete(Change::Switch);
    }

    fn new_token(&mut self) {
        self.world.changes.begin(Change::Token);
        self.gateway.settings.write(&enabled(&nth_token(self.world.token_number() + 1)));
        self.gateway.wait_settings("reloaded");
        self.world.changes.complete(Change::Token);
    }

    fn new_certificate(&mut self) {
        let certificate = self.certificate.as_mut().expect("a certificate");
        let pair = Pair::ec();
        self.world.changes.begin(Change::Certificate);
        self.world.trust([certificate.pair.leaf(), pair.leaf()]);
        certificate.files.replace(&pair);
        self.world.trust([certificate.pair.leaf(), pair.leaf()]);
        certificate.pair = pair.clone();
        self.gateway.wait_state("certificate", "replaced");
        self.world.trust([pair.leaf()]);
        self.world.changes.complete(Change::Certificate);
    }
}

/// The topic of what hostile publishers send, which does not count.
pub(crate) const HOSTILE_TOPIC: &[u8] = b"hostile";
/// Changes of a subscription by one peer, far beyond the bound.
const CHANGES: usize = 50_000;

/// Peers subscribe to much, each with prefixes of its own, and leave.
pub(crate) fn subscribe_and_leave(endpoint: &str, random: &mut Random) {
    for peer_number in 0..100 {
        let mut peer = RawPeer::speaking(endpoint, "SUB");
        let prefix_bytes = random.within(8..1_000);
        let subscriptions = (0..random.within(1..300)).flat_map(|number| {
            let mut prefix = format!("\u{1}{number} of {peer_number}").into_bytes();
            prefix.resize(prefix.len().max(prefix_bytes), b'x');
            subscribe(Form::Message, &prefix)
        });
        peer.send(&subscriptions.collect::<Vec<_>>());
        if random.permille(500) {
            sleep(random.pause_ms(0..20));
        }
    }
}

/// A peer subscribes and cancels until it is disconnected.
pub(crate) fn change_the_mind(endpoint: &str) {
    let mut peer = RawPeer::speaking(endpoint, "SUB");
    let change = [subscribe(Form::Message, b"\x01"), frame(0, b"\x00\x01")].concat();
    peer.send(&change.repeat(CHANGES));
}

/// Returns a subscriber to everything. It reads nothing for as long as it lives.
pub(crate) fn subscribe_and_not_read(endpoint: &str) -> RawPeer {
    let mut peer = RawPeer::speaking(endpoint, "SUB");
    peer.send(&subscribe(Form::Message, b""));
    peer
}

/// Publishers send messages of all sizes, as long as these are taken, and leave. The last message may be incomplete.
pub(crate) fn publish_and_leave(endpoint: &str, random: &mut Random) {
    for _ in 0..10 {
        let mut peer = RawPeer::hasty_publisher(endpoint, Duration::from_millis(100));
        let sent = message(&[HOSTILE_TOPIC, &vec![b' '; random.within(0..200_000)]]);
        let _taken = (0..random.within(1..20)).take_while(|_| peer.send(&sent)).count();
        peer.send(&sent[..random.within(0..sent.len())]);
    }
}

/// Connections are open for a while, and send nothing.
pub(crate) fn be_silent(endpoint: &str, time: Duration) {
    let address = endpoint.strip_prefix("tcp://").expect("a tcp endpoint");
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(address)).collect();
    sleep(time);
    drop(silent);
}

/// The first argument of a process that runs a hub.
pub(crate) const HUB: &str = "hub";
/// The environment variable that names a fault of every hub, to see that the account notices it.
const PLANT_VARIABLE: &str = "SOAK_PLANT";

/// All hubs of a run, one after the other, and the thread that takes what they deliver.
pub(crate) struct Hubs {
    /// Where the hub binds, or where it connects to the gateway.
    endpoint: String,
    /// Whether the gateway connects to the hub. A hub that connects must not end: a message for it would be lost.
    is_dialled: bool,
    /// Where publishers connect to the gateway, if that runs a hub of its own between them.
    publishers: Option<String>,
    deliveries: PathBuf,
    pub(crate) count: u16,
    running: Option<Process>,
    _receiving: Task<()>,
}

impl Hubs {
    /// Starts the first hub for a gateway with such a bus.
    pub(crate) fn start(world: &Arc<World>, bus: &str, [endpoint, publishers]: [String; 2], directory: &Path) -> Self {
        let deliveries = directory.join("deliveries");
        let socket = zmq::Context::new().socket(zmq::PULL).unwrap();
        socket.bind(&format!("ipc://{}", deliveries.display())).unwrap();
        let world = Arc::clone(world);
        let receiving = Task::repeat(move || {
            if socket.poll(zmq::POLLIN, POLL_INTERVAL_MS).unwrap() == 0 {
                return;
            }
            // Then it looks whether the run is over.
            for _ in 0..100 {
                let Ok(frames) = socket.recv_multipart(zmq::DONTWAIT) else { return };
                let [generation, topic, payload] = <[Vec<u8>; 3]>::try_from(frames).expect("three frames");
                let generation = u16::from_le_bytes(generation.try_into().expect("two bytes"));
                world.account().deliver(generation, &topic, &payload);
            }
        });
        let (is_dialled, publishers) = (bus == "connect", (bus == "hub").then_some(publishers));
        let (count, running) = (0, None);
        let mut hubs = Self { endpoint, is_dialled, publishers, deliveries, count, running, _receiving: receiving };
        hubs.start_next();
        hubs
    }

    /// Starts the next hub and waits until it is there.
    pub(crate) fn start_next(&mut self) {
        self.count += 1;
        let mut command = Command::new(std::env::current_exe().unwrap());
        let how = if self.is_dialled { "bind" } else { "connect" };
        command.args([HUB, how, &self.endpoint]).arg(&self.deliveries).arg(self.count.to_string());
        // The hub ends when its stdin ends, so that none outlives the run.
        let hub = Process::spawn(command.stdin(Stdio::piped()));
        hub.next_line().expect("the hub says that it is there");
        self.running = Some(hub);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.running.as_ref().expect("a running hub").signal(signal);
    }
}

pub(crate) fn run_hub(arguments: &[String]) {
    let [how, endpoint, deliveries, generation] = arguments else { panic!("{arguments:?}") };
    let context = zmq::Context::new();
    let downstream = context.socket(zmq::PUSH).unwrap();
    downstream.connect(&format!("ipc://{deliveries}")).unwrap();
    let upstream = context.socket(zmq::XSUB).unwrap();
    // So many messages are received before they are passed on.
    upstream.set_rcvhwm(256).unwrap();
    upstream.send(&b"\x01"[..], 0).unwrap();
    match how.as_str() {
        "bind" => upstream.bind(endpoint).unwrap(),
        _ => upstream.connect(endpoint).unwrap(),
    }
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    println!("the hub is there");
    std::io::stdout().flush().unwrap();

    let generation = generation.parse::<u16>().unwrap().to_le_bytes();
    let plant = std::env::var(PLANT_VARIABLE).unwrap_or_default();
    let deliver = |message: &[Vec<u8>]| {
        let frames = std::iter::once(&generation[..]).chain(message.iter().map(Vec::as_slice));
        downstream.send_multipart(frames, 0).unwrap();
    };
    for count in 1_u64.. {
        let message = upstream.recv_multipart(0).unwrap();
        if message[0] == HOSTILE_TOPIC {
            continue;
        }
        let planted = if count.is_multiple_of(1_000) { plant.as_str() } else { "" };
        match planted {
            "drop" => {}
            "duplicate" => [&message, &message].into_iter().for_each(|message| deliver(message)),
            "swap" => [upstream.recv_multipart(0).unwrap(), message].iter().for_each(|message| deliver(message)),
            "change" => deliver(&[message[0].clone(), [&message[1][..], b" "].concat()]),
            _ => deliver(&message),
        }
    }
}
