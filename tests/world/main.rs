//! The workers in a simulated world: the shell around the core, as it is shipped, on a third transport. Sockets are in
//! memory, the clock jumps to the next timer, and a seed decides everything else: what clients send, in which pieces,
//! how they read and end, which calls fail, when the settings change, and when the gateway stops.
//!
//! | file | what it holds |
//! |---|---|
//! | `scenario` | the course of a world: workers, bus, clients, and what the gateway asks of the workers |
//! | `socket` | a connection in memory, with its faults, and the client's end of it. `support/planned.rs` has the plans |
//! | `transport` | the event loop, the listeners and the streams, as the workers see them |
//! | `ledger` | what a life has seen, and whether the gateway did right by it |
//! | `world` | the bus without its thread, what is true at each moment, what went wrong, and the trace |
//!
//! `.ci/world SECONDS` runs worlds for so long. A world that goes wrong prints its seed. This replays it, with its
//! trace:
//!
//! ```text
//! WORLD_SEED=4711 cargo test --features world --test world a_seed -- --nocapture
//! ```

// Clippy applies `clippy.toml` to what is compiled for tests alone.
#![cfg(test)]

mod ledger;
mod scenario;
mod socket;
#[allow(dead_code, unused_imports, reason = "shared with other tests, each of which uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod transport;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use support::compare::assert_same;

/// How long a world may take. The slowest takes a second.
const STUCK_AFTER: Duration = Duration::from_secs(300);

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Runs a world. Returns what was found wrong, a panic included.
fn run(seed: u64, is_traced: bool) -> world::Outcome {
    catch_unwind(AssertUnwindSafe(|| scenario::run(seed, is_traced))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let mut outcome = world::World::end(0);
        outcome.violations.push(format!("a panic: {}", text.unwrap_or_default()));
        outcome
    })
}

/// Runs worlds for `WORLD_SECONDS`, until `WORLD_LIVES` were lived, or a few; from `WORLD_FIRST` on.
#[test]
fn worlds() {
    let [first, seconds, most_lives] = ["WORLD_FIRST", "WORLD_SECONDS", "WORLD_LIVES"].map(variable);
    let first = first.unwrap_or(1);
    let most_worlds = if seconds.or(most_lives).is_some() { u64::MAX } else { 200 };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (next, stop, began) = (AtomicU64::new(first), AtomicBool::new(false), Instant::now());
    let (sender, outcomes) = mpsc::channel();
    let (mut lives, mut failures, mut answers) = (0, Vec::new(), BTreeMap::<u16, u64>::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            let seeds = seeds.take_while(move |seed| !stop.load(Ordering::Relaxed) && seed - first < most_worlds);
            scope.spawn(move || seeds.map(|seed| (seed, run(seed, false))).try_for_each(|it| sender.send(it)));
        }
        drop(sender);
        let receive = || match outcomes.recv_timeout(STUCK_AFTER) {
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let next = next.load(Ordering::Relaxed);
                println!("a world does not end; it is one of the {threads} before {next}");
                std::process::exit(1);
            }
            received => received.ok(),
        };
        for (seed, outcome) in std::iter::from_fn(receive) {
            lives += outcome.lives;
            outcome.answers.iter().for_each(|status| *answers.entry(*status).or_default() += 1);
            if !outcome.violations.is_empty() {
                println!("WORLD_SEED={seed}: {}", outcome.violations.join("\n    "));
                failures.push(seed);
            }
            let is_over = seconds.is_some_and(|seconds| began.elapsed().as_secs() >= seconds)
                || most_lives.is_some_and(|most| lives >= most);
            stop.fetch_or(is_over || failures.len() >= 10, Ordering::Relaxed);
        }
    });
    let (worlds, elapsed) = (next.into_inner() - first, began.elapsed().as_secs_f64());
    println!("{lives} lives in {worlds} worlds in {elapsed:.1} s: {:.0} a second; {answers:?}", lives as f64 / elapsed);
    assert!(failures.is_empty(), "replay with WORLD_SEED={}", failures[0]);
}

/// Replays the world of `WORLD_SEED`, and prints what happens in it.
#[test]
fn a_seed() {
    let Some(seed) = variable("WORLD_SEED") else { return };
    let outcome = run(seed, true);
    println!("{}", outcome.trace.unwrap_or_default());
    assert!(outcome.violations.is_empty(), "WORLD_SEED={seed}: {}", outcome.violations.join("\n    "));
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1..=40 {
        let [first, second] = [run(seed, true), run(seed, true)].map(|outcome| outcome.trace);
        assert_same(format_args!("WORLD_SEED={seed}"), &first, &second);
    }
}
