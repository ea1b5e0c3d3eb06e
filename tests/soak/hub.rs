//! The hub: a process of its own, which passes each message on with the number of the hub.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::process::Signal;

use crate::director::HOSTILE_TOPIC;
use crate::support::task::POLL_INTERVAL_MS;
use crate::support::{Process, Task};
use crate::world::World;

/// The first argument of a process that runs a hub.
pub(crate) const HUB: &str = "hub";
/// Messages that a hub receives before it passes them on.
const HUB_MESSAGES: i32 = 256;
/// The environment variable that names a fault of every hub, to see that the account notices it.
const PLANT_VARIABLE: &str = "SOAK_PLANT";

/// How the hub and the gateway find each other.
pub(crate) struct Bus {
    /// Where the hub binds, or where it connects to the gateway.
    pub(crate) endpoint: String,
    /// Whether the gateway connects to the hub. A hub that connects must not end: a message for it would be lost.
    pub(crate) is_dialled: bool,
    /// Where publishers connect to the gateway, if that runs a hub of its own between them.
    pub(crate) publishers: Option<String>,
}

/// All hubs of a run, one after the other, and the thread that takes what they deliver.
pub(crate) struct Hubs {
    pub(crate) bus: Bus,
    deliveries: PathBuf,
    pub(crate) count: u16,
    running: Option<Process>,
    _receiving: Task<()>,
}

impl Hubs {
    pub(crate) fn start(world: &Arc<World>, bus: Bus, directory: &Path) -> Self {
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
        let mut hubs = Self { bus, deliveries, count: 0, running: None, _receiving: receiving };
        hubs.start_next();
        hubs
    }

    /// Starts the next hub and waits until it is there.
    pub(crate) fn start_next(&mut self) {
        self.count += 1;
        let mut command = Command::new(std::env::current_exe().unwrap());
        let how = if self.bus.is_dialled { "bind" } else { "connect" };
        command.args([HUB, how, &self.bus.endpoint]).arg(&self.deliveries).arg(self.count.to_string());
        // The hub ends when its stdin ends, so that none outlives the run.
        let hub = Process::spawn(command.stdin(Stdio::piped()));
        hub.next_line().expect("the hub says that it is there");
        self.running = Some(hub);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.running.as_ref().expect("a running hub").signal(signal);
    }

    /// Kills the hub with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }
}

pub(crate) fn run(arguments: &[String]) {
    let [how, endpoint, deliveries, generation] = arguments else { panic!("{arguments:?}") };
    let context = zmq::Context::new();
    let downstream = context.socket(zmq::PUSH).unwrap();
    downstream.connect(&format!("ipc://{deliveries}")).unwrap();
    let upstream = context.socket(zmq::XSUB).unwrap();
    upstream.set_rcvhwm(HUB_MESSAGES).unwrap();
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
