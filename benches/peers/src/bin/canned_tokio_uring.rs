//! One constant answer on tokio-uring, with the waits, reads and writes of the gateway.

use adapter_gateway::server::transport::uring::Uring;
use peers::start::Arguments;
use peers::{Outcome, canned};

fn main() -> Outcome {
    canned::serve::<Uring>(&Arguments::from_command_line())
}
