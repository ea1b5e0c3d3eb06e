//! End to end: the gateway and its peers as processes, under the same load, in turns.
//!
//! `cargo bench --bench end_to_end -- --help` tells how. The server has one core, the load and the subscriber another;
//! every answer is checked, every message is counted at the subscriber, and what is compared stood side by side.

mod connection;
mod cores;
mod handshakes;
mod load;
mod measure;
mod plot;
mod process;
mod report;
mod request;
mod rounds;
mod servers;
mod stats;
mod subscriber;
mod works;

use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use argh::FromArgs;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use cores::Cores;
use measure::Bench;
use servers::Programs;
use subscriber::Subscriber;
use works::WORKS;

/// Whatever keeps the bench from a figure.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures the gateway beside its peers.
#[derive(FromArgs)]
struct Arguments {
    /// only loads whose name contains this
    #[argh(option)]
    only: Option<String>,
    /// only servers whose name contains this
    #[argh(option)]
    server: Option<String>,
    /// rounds of each load (5)
    #[argh(option, default = "5")]
    rounds: usize,
    /// seconds of each measurement (2)
    #[argh(option, default = "2.0")]
    seconds: f64,
    /// write the tables into benches/README.md, and the plot beside it
    #[argh(switch)]
    write: bool,
    /// as cargo has it
    #[argh(switch)]
    #[allow(dead_code, reason = "cargo passes it to every bench")]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&argh::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let cores = Cores::choose()?;
    // Ten thousand connections on this side.
    let descriptors = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: descriptors.maximum, maximum: descriptors.maximum })?;
    // An open loop is as exact as its sleeps.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let programs = Programs::build(arguments.server.as_deref().unwrap_or_default())?;
    cores.enter_load()?;
    let start = Instant::now();
    let subscriber = Subscriber::bind(start)?;
    let duration = Duration::from_secs_f64(arguments.seconds);
    let bench = Bench { programs, cores, start, subscriber, duration };
    let mut measured = Vec::new();
    let mut tables = String::new();
    for work in WORKS {
        if arguments.only.as_ref().is_some_and(|part| !work.name.contains(part.as_str())) {
            continue;
        }
        let results = rounds::run(&bench, work, arguments.rounds)?;
        let table = report::figures(work, &results);
        println!("{table}");
        tables += &format!("{table}\n");
        measured.push((work, results));
    }
    let targets = report::targets(&measured);
    println!("{targets}");
    if arguments.write {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
        fs::write(directory.join("end_to_end.svg"), plot::draw(&measured))?;
        write_tables(&directory.join("README.md"), &format!("{targets}\n{tables}"))?;
    }
    Ok(())
}

/// Puts the tables between their marks.
fn write_tables(readme: &Path, tables: &str) -> Result<(), Failure> {
    const MARK: &str = "<!-- written by the bench -->\n";
    let text = fs::read_to_string(readme)?;
    let mut parts = text.split(MARK);
    let (Some(before), Some(_), Some(after), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err("benches/README.md has not two marks".into());
    };
    Ok(fs::write(readme, format!("{before}{MARK}\n{tables}{MARK}{after}"))?)
}
