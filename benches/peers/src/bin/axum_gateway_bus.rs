//! axum as most programs use it, with the bus of the gateway.

use peers::gateway_bus::GatewayBus;
use peers::router::router;
use peers::start::{Arguments, token};
use peers::{Outcome, axum_server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments = Arguments::from_command_line();
    let router = router(token()?, GatewayBus::connect(arguments.hub()?)?);
    axum_server::serve(&arguments, router).await
}
