//! axum's router on hyper set up for pipelines, with the gateway's bus: the same stack at its best.

use peers::Outcome;
use peers::good_bus::GoodBus;
use peers::hyper_server::{accept, attend};
use peers::router::router;
use peers::start::{Arguments, announce, token};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments = Arguments::of_process();
    let router = router(token()?, GoodBus::connect(arguments.hub()?)?);
    let socket = arguments.listen()?;
    announce("http", &socket)?;
    let listener = TcpListener::from_std(socket)?;
    loop {
        tokio::spawn(attend(accept(&listener).await?, router.clone()));
    }
}
