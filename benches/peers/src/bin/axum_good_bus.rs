//! axum as most programs use it, with the gateway's bus.

use peers::good_bus::GoodBus;
use peers::router::router;
use peers::start::{Arguments, token};
use peers::{Outcome, axum_server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments = Arguments::of_process();
    let router = router(token()?, GoodBus::connect(arguments.hub()?)?);
    axum_server::serve(&arguments, router).await
}
