//! The server of `hyper_pipeline` with TLS.

use peers::gateway_bus::GatewayBus;
use peers::hyper_server::{accept, serve_connection};
use peers::router::router;
use peers::start::{Arguments, announce, token};
use peers::{Outcome, tls};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments = Arguments::from_command_line();
    let acceptor = tls::acceptor(arguments.certificate()?)?;
    let router = router(token()?, GatewayBus::connect(arguments.hub()?)?);
    let socket = arguments.listen()?;
    announce("https", &socket)?;
    let listener = TcpListener::from_std(socket.into())?;
    loop {
        let handshake = acceptor.accept(accept(&listener).await?);
        let router = router.clone();
        tokio::spawn(async move {
            if let Ok(stream) = handshake.await {
                serve_connection(stream, router).await;
            }
        });
    }
}
