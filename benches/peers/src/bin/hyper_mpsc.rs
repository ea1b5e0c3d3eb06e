//! The router of axum on hyper, which answers a pipeline with one write, and a channel to a thread that publishes.

use peers::Outcome;
use peers::channel_bus::ChannelBus;
use peers::hyper_server::serve;
use peers::router::router;
use peers::start::{Arguments, token};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments = Arguments::from_command_line();
    let router = router(token()?, ChannelBus::connect(arguments.hub()?)?);
    serve(&arguments, router).await
}
