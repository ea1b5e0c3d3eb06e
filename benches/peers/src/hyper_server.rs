//! The router of axum on hyper. `axum::serve` would make hyper flush each answer of a pipeline.

use std::io;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::Outcome;
use crate::start::{Arguments, announce};

/// Serves http until the process ends.
///
/// # Errors
/// A system call fails.
pub async fn serve(arguments: &Arguments, router: Router) -> Outcome {
    let socket = arguments.listen()?;
    announce("http", &socket)?;
    let listener = TcpListener::from_std(socket.into())?;
    loop {
        tokio::spawn(serve_connection(accept(&listener).await?, router.clone()));
    }
}

/// Accepts the next connection.
///
/// # Errors
/// A system call fails.
pub async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Serves a connection to its end.
pub async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin>(stream: S, router: Router) {
    let mut http = http1::Builder::new();
    http.pipeline_flush(true);
    // An error ends this connection alone.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}
