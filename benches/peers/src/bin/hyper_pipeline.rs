//! axum's router on hyper set up for pipelines, with the gateway's bus: the same stack at its best.

use peers::Outcome;
use peers::good_bus::GoodBus;
use peers::hyper_server::serve;
use peers::router::router;
use peers::start::{Arguments, token};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments = Arguments::of_process();
    let router = router(token()?, GoodBus::connect(arguments.hub()?)?);
    serve(&arguments, router).await
}
