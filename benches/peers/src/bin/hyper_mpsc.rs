//! axum's router on hyper set up for pipelines, with a channel to a thread that publishes.

use peers::Outcome;
use peers::channel_bus::ChannelBus;
use peers::hyper_server::serve;
use peers::router::router;
use peers::start::{Arguments, token};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments = Arguments::of_process();
    let router = router(token()?, ChannelBus::connect(arguments.hub()?)?);
    serve(&arguments, router).await
}
