//! Compares the gateway with its peers: each runs as a process, and all get the same load in turn.
//!
//! `cargo bench --bench end_to_end -- --help` lists the options. The server has one core, the load generator and the
//! subscriber another. Every answer is checked, and every message is counted at the subscriber. Only servers that ran
//! at the same time are compared.

// A bench that finds something unexpected must stop at that place, and has no result.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod bus;
mod comparison;
mod load;
mod measure;
mod results;
mod servers;
#[allow(dead_code, unused_imports, reason = "shared with the tests, which use all of it")]
#[path = "../../tests/support/mod.rs"]
mod support;

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argh::{EarlyExit, FromArgs};

use bus::Subscriber;
use measure::{Bench, Scenario};
use results::{Results, WORKLOADS, Workload};
use servers::Programs;
use support::usage::raise_descriptors;

/// Compares the gateway with its peers.
#[derive(FromArgs)]
struct Arguments {
    /// measure only workloads whose name contains this
    #[argh(option, default = "String::new()")]
    only: String,
    /// measure only servers whose name contains this
    #[argh(option, default = "String::new()")]
    server: String,
    /// path of another build of the gateway, to be compared with this one
    #[argh(option)]
    against: Option<PathBuf>,
    /// end with status 1 if this build is slower than the other one by more than this factor in any row, for example
    /// 1.10
    #[argh(option, from_str_fn(factor))]
    fail_above: Option<f64>,
    /// measure this build and the other one alone, with the shorter workloads, in at most two minutes
    #[argh(switch)]
    quick: bool,
    /// write every figure with its rounds into this file, as JSON
    #[argh(option)]
    json: Option<PathBuf>,
    /// how often each server is measured under each workload (5)
    #[argh(option, default = "5")]
    rounds: usize,
    /// seconds of one measurement (2, and 0.3 with --quick)
    #[argh(option)]
    seconds: Option<f64>,
    /// write the tables into benches/README.md, and the plot into benches/end_to_end.svg
    #[argh(switch)]
    write: bool,
}

/// The status of a process that has no result, as when it panics. Status 1 says that this build is slower.
const NO_RESULT: u8 = 2;
/// The fewest rounds that show how much a figure differs from round to round.
const MIN_ROUNDS: usize = 3;
/// How long `--quick` begins with another workload. A workload takes up to ten seconds on a slow machine.
const QUICK_LIMIT: Duration = Duration::from_secs(110);

fn factor(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|&factor| factor >= 1.0).ok_or_else(|| "must be a number of at least 1".to_owned())
}

impl Arguments {
    /// Parses the command line without `--bench`. Cargo adds it for every bench, and argh accepts nothing after
    /// `--help`. Ends the process where the command line asks for help or is wrong.
    fn from_command_line() -> Self {
        let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let parsed = Self::from_args(&["cargo bench --bench end_to_end --"], &arguments).and_then(Self::checked);
        parsed.unwrap_or_else(|exit| {
            println!("{}", exit.output);
            std::process::exit(if exit.status.is_ok() { 0 } else { NO_RESULT.into() })
        })
    }

    fn checked(self) -> Result<Self, EarlyExit> {
        match self.fail_above {
            Some(_) if self.against.is_none() => {
                Err("--fail-above needs --against, the build to compare with".to_owned())?
            }
            Some(_) if self.rounds < MIN_ROUNDS => Err(format!("--fail-above needs at least {MIN_ROUNDS} rounds"))?,
            _ => Ok(self),
        }
    }
}

fn main() -> ExitCode {
    std::panic::catch_unwind(|| run(&Arguments::from_command_line())).unwrap_or(ExitCode::from(NO_RESULT))
}

fn run(arguments: &Arguments) -> ExitCode {
    let cores = servers::cores();
    // This process opens up to ten thousand connections.
    raise_descriptors();
    // The open loop sends requests as exactly in time as its sleeps end.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).unwrap();
    // `--quick` compares the builds alone.
    let server = if arguments.quick { "" } else { &arguments.server };
    let programs = Programs::build(server, arguments.quick, arguments.against.clone());
    servers::run_on(&cores[1..]);
    let start = Instant::now();
    let subscriber = Subscriber::bind(start);
    let duration = Duration::from_secs_f64(arguments.seconds.unwrap_or(if arguments.quick { 0.3 } else { 2.0 }));
    let bench = Bench { programs, cores, start, subscriber, duration };
    let measured = measure_all(&bench, arguments);
    let aims = results::aims(&measured);
    if !arguments.quick {
        println!("{aims}");
    }
    if arguments.write {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
        fs::write(directory.join("end_to_end.svg"), results::draw(&measured)).unwrap();
        let tables = measured.iter().map(|(workload, results)| results::medians(workload, results) + "\n");
        results::write(&directory.join("README.md"), &format!("{aims}\n{}", tables.collect::<String>()));
    }
    if let Some(file) = &arguments.json {
        fs::write(file, format!("{:#}\n", results::json(&measured, arguments.fail_above))).unwrap();
    }
    let Some(bound) = arguments.fail_above else { return ExitCode::SUCCESS };
    let (tables, is_slower) = results::compared(&measured, bound).expect("a row has figures of both builds");
    println!("{tables}");
    if is_slower { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Measures the workloads that are asked for, and prints the results of each.
fn measure_all(bench: &Bench, arguments: &Arguments) -> Vec<(&'static Workload, Results)> {
    let mut measured = Vec::new();
    for workload in WORKLOADS.iter() {
        if !workload.name.contains(&arguments.only) || arguments.quick && !workload.is_quick() {
            continue;
        }
        if arguments.quick && bench.start.elapsed() > QUICK_LIMIT {
            eprintln!("skipped: {}, because the time of --quick is over", workload.name);
            continue;
        }
        if let Scenario::HalfLoad { of } = workload.scenario
            && !bench.programs.has(of)
        {
            eprintln!("skipped: {}, because {} gives its rate", workload.name, of.name());
            continue;
        }
        let results = Results::measure(bench, workload, arguments.rounds);
        println!("{}", results::medians(workload, &results));
        measured.push((workload, results));
    }
    measured
}
