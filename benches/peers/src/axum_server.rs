//! axum's router on axum's own server.

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use crate::Outcome;
use crate::start::{Arguments, announce};

/// Serves until the process ends.
///
/// # Errors
/// Of the system.
pub async fn serve(arguments: &Arguments, router: Router) -> Outcome {
    let socket = arguments.listen()?;
    announce("http", &socket)?;
    let listener = TcpListener::from_std(socket)?.tap_io(|stream| {
        // As the gateway has it; without, it only would be slower.
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}
