//! The soak: one gateway, as many connections as the machine allows, and everything that can happen to a gateway,
//! happening again and again. In the end, each message is accounted for by its number, and what the gateway takes of
//! the machine is back where it was. `.ci/soak MINUTES` runs it; it is not a part of `cargo test`.
//!
//! | file | what it holds |
//! |---|---|
//! | `clients` | the clients, and how each judges its answers |
//! | `director` | what happens to the gateway, the hubs that end, and peers that mean harm |
//! | `account` | all messages: what was answered, what was delivered, and what may be lost |
//! | `samples` | what the gateway takes of the machine |

// Clippy applies `clippy.toml` to what is compiled for tests alone.
#![cfg(test)]

mod account;
mod clients;
mod director;
mod samples;
#[allow(dead_code, unused_imports, reason = "shared with other tests, each of which uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use argh::FromArgs;
use rustix::process::{Resource, getrlimit};
use serde_json::Value;

use account::Outcome;
use director::{Certificate, Director, HUB, Hubs};
use samples::{Held, growth};
use support::{
    Client, Gateway, Pair, Random, Request, cpu_ticks_within, dead_endpoint, enabled, free_address, raise_descriptors,
};
use world::{TIMEOUTS, World};

/// About three quarters of the clients are connected at any time.
const CLIENTS: usize = 13_000;
/// How long the gateway may take to become quiet after the load.
const PATIENCE: Duration = Duration::from_secs(180);
/// The memory that the gateway may hold above that of its start, when the load is over: its tables of connections grew.
const REMAINING_KIB: u64 = 32 * 1024;

/// Bodies that are held together after the load, and the length of each. The gateway keeps freed memory for such
/// bodies, and returns it after they are gone.
const HELD: usize = 8;
const HELD_BYTES: usize = 1_000_000;
/// The clock ticks of 10 ms that the gateway may use in two seconds without load.
const IDLE_TICKS: u64 = 10;

/// Runs a gateway under load, and accounts for every message.
#[derive(FromArgs)]
struct Options {
    /// how the gateway waits for sockets: uring or epoll
    #[argh(option)]
    io: String,
    /// whether the gateway connects to a hub that ends again and again (connect), binds (bind), or runs the hub (hub)
    #[argh(option)]
    bus: String,
    /// whether the gateway serves http by TCP, instead of https
    #[argh(switch)]
    plain: bool,
    /// how long the load lasts
    #[argh(option)]
    seconds: u64,
    /// the seed of all random choices
    #[argh(option)]
    seed: u64,
    /// where the output of the gateway is written after a failure
    #[argh(option)]
    output: PathBuf,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(HUB) => director::run_hub(&arguments[2..]),
        _ => std::process::exit(soak(&argh::from_env())),
    }
}

fn soak(options: &Options) -> i32 {
    let name = format!("{} {} {}", options.io, options.bus, if options.plain { "http" } else { "https" });
    raise_descriptors();
    // Some descriptors are left for everything else.
    let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| (limit * 8 / 10) as usize);
    let clients = CLIENTS.min(most);
    println!("{name}: {clients} clients for {} s, seed {}", options.seconds, options.seed);
    std::fs::create_dir_all(&options.output).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut director = start(options, directory.path());
    let world = Arc::clone(&director.world);
    let lost_at_the_start = subscribe(&world);

    let before = Held::by(director.gateway.id());
    let duration = Duration::from_secs(options.seconds);
    let samples = samples::begin(director.gateway.id(), duration);
    let load = begin_load(&world, options.seed, clients);
    director.run(duration);
    let samples = samples.finish();
    world.over.send_replace(true);
    load.join().unwrap();

    let stats = wait_quiet(&mut director, before);
    let Director { mut gateway, hubs, .. } = director;
    gateway.terminate();
    growth(&samples).into_iter().for_each(|what| world.fail(&what));
    let mut account = world.account();
    let totals = account.close(hubs.count.into());
    account.compare(&stats, &totals, lost_at_the_start);
    account.print(&stats, &totals, hubs.count);
    let failed = account.failed;
    if failed > 0 {
        let output = gateway.end();
        std::fs::write(options.output.join("events"), output.stdout).unwrap();
        std::fs::write(options.output.join("log"), output.stderr).unwrap();
        println!("{name}: {failed} failures with seed {}; the output is in {}", options.seed, options.output.display());
        return 1;
    }
    println!("{name}: every message is accounted for");
    0
}

fn start(options: &Options, directory: &Path) -> Director {
    let unix = directory.join("gateway.sock");
    let tcp = free_address();
    let world = Arc::new(World::new(tcp, unix.clone()));
    let io = ["uring", "epoll"].into_iter().find(|io| *io == options.io).expect("--io uring or epoll");
    let seconds = [TIMEOUTS.head, TIMEOUTS.body, TIMEOUTS.idle].map(|timeout| timeout.as_secs().to_string());
    let arguments = ["--head-timeout", &seconds[0], "--body-timeout", &seconds[1], "--idle-timeout", &seconds[2]];
    // A short queue is full soon after a hub stops. Connections that clients have closed may still be open here.
    let limits = ["--queue", "1000", "--max-connections", "15000", "--watch-parent"];
    let mut gateway = Gateway::serve().io(io, io).settings(&enabled(&world.token())).listen(tcp).listen_at(&unix);
    gateway = gateway.arguments(arguments).arguments(limits);
    let certificate = (!options.plain).then(|| {
        let pair = Pair::ec();
        world.trust([pair.leaf()]);
        Certificate { files: pair.in_files(), pair }
    });
    if let Some(certificate) = &certificate {
        gateway = gateway.https().arguments(certificate.files.arguments());
    }
    let [endpoint, publishers] = [dead_endpoint(), dead_endpoint()];
    gateway = match options.bus.as_str() {
        "connect" => gateway.connect(&endpoint),
        "bind" => gateway.bind(&endpoint),
        "hub" => gateway.only_hub(&publishers, &endpoint),
        other => panic!("--bus {other}"),
    };
    let mut gateway = gateway.start();
    gateway.wait_listening();
    let hubs = Hubs::start(&world, &options.bus, [endpoint, publishers], directory);
    if options.bus == "connect" {
        gateway.wait_connected();
    }
    Director { world, gateway, hubs, certificate, random: Random::for_user(options.seed, u64::MAX) }
}

/// Posts messages until one arrives, since a subscriber cannot tell when it is subscribed. Returns how many got lost.
fn subscribe(world: &World) -> u64 {
    let connection = world.account().open_connection();
    let mut posted = 0;
    loop {
        let number = post(world, connection);
        posted += 1;
        let deadline = Instant::now() + Duration::from_millis(100);
        while Instant::now() < deadline {
            let mut account = world.account();
            if account.has_arrived(number) {
                account.set(number, Outcome::Accepted);
                return posted - u64::from(account.arrivals);
            }
            drop(account);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Posts the next message by the Unix socket, outside of the load. Its answer must be a 200.
fn post(world: &World, connection: u32) -> u32 {
    let (plan, requests) = world.planned(connection, false, |author| author.right(1, &mut Random(0)));
    let mut client = Client::connect_to(&world.unix);
    client.send(plan.wire);
    client.response().assert_accepted();
    world.account().count_answer(200, "");
    requests[0].number
}

fn begin_load(world: &Arc<World>, seed: u64, clients: usize) -> JoinHandle<()> {
    let world = Arc::clone(world);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tasks = tokio::task::LocalSet::new();
        let run = |number| tasks.spawn_local(clients::run(Arc::clone(&world), seed, number));
        let running: Vec<_> = (0..clients).map(run).collect();
        tasks.block_on(&runtime, async {
            for client in running {
                client.await.expect("no client panics");
            }
        });
    })
}

/// Waits until the gateway is as quiet as before the load, and until all messages have arrived. Returns its counters.
fn wait_quiet(director: &mut Director, before: Held) -> Value {
    let world = Arc::clone(&director.world);
    wait_until(&world, || {
        let stats = director.gateway.stats();
        let open = stats["connections"] != 0 || stats["queue_depth"] != 0;
        open.then(|| format!("connections or messages are left: {stats}"))
    });
    println!("after the load: {:?}", Held::by(director.gateway.id()));
    // All but the end of some large bodies.
    let body = Request::post(&format!("/api/message?token={}", world.token()), vec![b'x'; HELD_BYTES]).bytes();
    let bodies = [(); HELD].map(|()| {
        let mut client = Client::connect_to(&world.unix);
        client.send(&body[..body.len() - 1]);
        client
    });
    // Whatever was published before arrives before it. The bus thread looks at the memory when it has a message.
    let connection = world.account().open_connection();
    let last = post(&world, connection);
    world.account().set(last, Outcome::Accepted);
    wait_until(&world, || (!world.account().has_arrived(last)).then(|| "the last message does not arrive".to_owned()));
    drop(bodies);
    wait_until(&world, || {
        let after = Held::by(director.gateway.id());
        let more = after.descriptors > before.descriptors
            || after.tasks > before.tasks
            || after.resident_kib > before.resident_kib + REMAINING_KIB;
        more.then(|| format!("the gateway holds {after:?} after the load, and held {before:?} before"))
    });
    println!("before it: {before:?}, at last: {:?}", Held::by(director.gateway.id()));
    let ticks = cpu_ticks_within(Duration::from_secs(2), director.gateway.id(), "without load");
    if ticks > IDLE_TICKS {
        world.fail(&format!("{ticks} clock ticks in two seconds without load"));
    }
    director.gateway.stats()
}

/// Waits until nothing is wrong any more. It is a failure if that takes too long.
fn wait_until(world: &World, mut wrong: impl FnMut() -> Option<String>) {
    let deadline = Instant::now() + PATIENCE;
    while let Some(what) = wrong() {
        if Instant::now() > deadline {
            return world.fail(&what);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
