//! The router of axum on the server of axum.

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use crate::Outcome;
use crate::start::{Arguments, announce};

/// Serves until the process ends.
///
/// # Errors
/// A system call fails.
pub async fn serve(arguments: &Arguments, router: Router) -> Outcome {
    let socket = arguments.listen()?;
    announce("http", &socket)?;
    let listener = TcpListener::from_std(socket.into())?.tap_io(|stream| {
        // The gateway does this too. Without it, this server would only be slower.
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}
