//! The floor of tokio's own reactor.

use adapter_gateway::transport::epoll::Epoll;
use peers::start::Arguments;
use peers::{Outcome, canned};

fn main() -> Outcome {
    canned::serve::<Epoll>(&Arguments::of_process())
}
