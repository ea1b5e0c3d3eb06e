//! axum as most programs use it, with a channel to a thread that publishes.

use peers::channel_bus::ChannelBus;
use peers::router::router;
use peers::start::{Arguments, token};
use peers::{Outcome, axum_server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments = Arguments::from_command_line();
    let router = router(token()?, ChannelBus::connect(arguments.hub()?)?);
    axum_server::serve(&arguments, router).await
}
