//! One constant answer on the gateway's event loop of io_uring, with its reads and writes.

use adapter_gateway::server::transport::uring::Uring;
use peers::start::Arguments;
use peers::{Outcome, canned};

fn main() -> Outcome {
    canned::serve::<Uring>(&Arguments::from_command_line())
}
