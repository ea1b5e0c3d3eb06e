//! Compares the gateway with its peers: each runs as a process, and all get the same load in turn.
//!
//! `cargo bench --bench end_to_end -- --help` lists the options. The server has one core, the load generator and the
//! subscriber another. Every answer is checked, and every message is counted at the subscriber. Only servers that ran
//! at the same time are compared.

mod clients;
mod connection;
mod cores;
mod load;
mod measure;
mod plot;
mod process;
mod report;
mod request;
mod results;
mod servers;
mod subscriber;
mod workloads;

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argh::FromArgs;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use cores::Cores;
use measure::{Bench, Scenario};
use results::Results;
use servers::Programs;
use subscriber::Subscriber;
use workloads::WORKLOADS;

/// Any error because of which there is no result.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Compares the gateway with its peers.
#[derive(FromArgs)]
struct Arguments {
    /// measure only workloads whose name contains this
    #[argh(option)]
    only: Option<String>,
    /// measure only servers whose name contains this
    #[argh(option)]
    server: Option<String>,
    /// path of another build of the gateway, to be compared with this one
    #[argh(option)]
    against: Option<PathBuf>,
    /// how often each server is measured under each workload (5)
    #[argh(option, default = "5")]
    rounds: usize,
    /// seconds of one measurement (2)
    #[argh(option, default = "2.0")]
    seconds: f64,
    /// write the tables into benches/README.md, and the plot into benches/end_to_end.svg
    #[argh(switch)]
    write: bool,
}

impl Arguments {
    /// Parses the command line without `--bench`. Cargo adds it for every bench, and argh accepts nothing after `--help`.
    /// Ends the process where the command line asks for help or is wrong.
    fn from_command_line() -> Self {
        let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        Self::from_args(&["cargo bench --bench end_to_end --"], &arguments).unwrap_or_else(|exit| {
            println!("{}", exit.output);
            std::process::exit(i32::from(exit.status.is_err()))
        })
    }
}

fn main() -> ExitCode {
    match run(&Arguments::from_command_line()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let cores = Cores::choose()?;
    // This process opens up to ten thousand connections.
    let descriptors = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: descriptors.maximum, maximum: descriptors.maximum })?;
    // The open loop sends requests as exactly in time as its sleeps end.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let programs = Programs::build(arguments.server.as_deref().unwrap_or_default(), arguments.against.clone())?;
    cores.run_on_load_core()?;
    let start = Instant::now();
    let subscriber = Subscriber::bind(start)?;
    let duration = Duration::from_secs_f64(arguments.seconds);
    let bench = Bench { programs, cores, start, subscriber, duration };
    let mut measured = Vec::new();
    let mut tables = String::new();
    for workload in WORKLOADS {
        if arguments.only.as_ref().is_some_and(|part| !workload.name.contains(part.as_str())) {
            continue;
        }
        if let Scenario::HalfLoad { of } = workload.scenario
            && !bench.programs.has(of)
        {
            eprintln!("skipped: {}, because {} gives its rate", workload.name, of.name());
            continue;
        }
        let results = Results::measure(&bench, workload, arguments.rounds)?;
        let table = report::medians(workload, &results);
        println!("{table}");
        tables += &format!("{table}\n");
        measured.push((workload, results));
    }
    let aims = report::aims(&measured);
    println!("{aims}");
    if arguments.write {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
        fs::write(directory.join("end_to_end.svg"), plot::draw(&measured))?;
        report::write(&directory.join("README.md"), &format!("{aims}\n{tables}"))?;
    }
    Ok(())
}
