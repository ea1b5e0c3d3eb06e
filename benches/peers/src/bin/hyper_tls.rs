//! `hyper_pipeline` in TLS.

use peers::good_bus::GoodBus;
use peers::hyper_server::{accept, attend};
use peers::router::router;
use peers::start::{Arguments, announce, token};
use peers::{Outcome, tls};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments = Arguments::of_process();
    let acceptor = tls::acceptor(arguments.certificate()?)?;
    let router = router(token()?, GoodBus::connect(arguments.hub()?)?);
    let socket = arguments.listen()?;
    announce("https", &socket)?;
    let listener = TcpListener::from_std(socket)?;
    loop {
        let handshake = acceptor.accept(accept(&listener).await?);
        let router = router.clone();
        tokio::spawn(async move {
            if let Ok(stream) = handshake.await {
                attend(stream, router).await;
            }
        });
    }
}
