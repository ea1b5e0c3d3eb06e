//! The floor of tokio-uring.

use adapter_gateway::server::transport::uring::Uring;
use peers::start::Arguments;
use peers::{Outcome, canned};

fn main() -> Outcome {
    canned::serve::<Uring>(&Arguments::of_process())
}
