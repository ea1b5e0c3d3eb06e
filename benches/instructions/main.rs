//! How many instructions the core takes for a request, part by part. Unlike seconds, they are the same on a busy
//! machine: `.ci/instructions` compares them with those of the file `baseline`.
//!
//! Whatever is counted was done once before, and its result was checked: the first call also pays for what it finds out
//! about the processor, and for memory that later calls use again.

#![allow(clippy::unwrap_used, reason = "a wrong result is to stop the benchmark")]
#![allow(missing_docs, reason = "by what the macros write")]

mod bus;
mod http;
mod message;

use bus::{exchanges, hand_offs, matches, peers};
use gungraun::{Callgrind, LibraryBenchmarkConfig, main};
use http::{connections, heads};
use message::messages;

main!(
    // Caches are not simulated: their sizes would be those of one machine.
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = [heads, messages, connections, hand_offs, peers, matches, exchanges]
);
