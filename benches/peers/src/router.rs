//! The router of a gateway, written with axum, and served by hyper. `axum::serve` would make hyper flush each answer of a
//! pipeline.

use std::borrow::Cow;
use std::sync::Arc;

use adapter_gateway::http::admission::ENDPOINT;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::Outcome;
use crate::bus::{Busy, Publish};

struct App<P> {
    token: String,
    bus: P,
}

#[derive(Deserialize)]
struct Access {
    token: Option<String>,
}

/// The payload keeps its bytes. The topic is copied only if it has escapes.
#[derive(Deserialize)]
struct Message<'b> {
    #[serde(borrow)]
    topic: Cow<'b, str>,
    #[serde(borrow)]
    payload: &'b RawValue,
}

/// Returns a router with the path of the gateway. The limit of bodies is the 2 MiB of axum, because a lower limit would
/// need a layer for each request.
pub(crate) fn router<P: Publish>(token: String, bus: P) -> Router {
    Router::new().route(ENDPOINT, post(message::<P>)).with_state(Arc::new(App { token, bus }))
}

async fn message<P: Publish>(
    State(app): State<Arc<App<P>>>,
    Query(access): Query<Access>,
    body: Bytes,
) -> Result<Response, StatusCode> {
    if access.token.as_ref() != Some(&app.token) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let Message { topic, payload } = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    app.bus.publish(&topic, payload.get()).map_err(|Busy| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(([(CONTENT_TYPE, "application/json")], r#"{"status":"accepted"}"#).into_response())
}

/// Serves by hyper until the process ends, in https if there is an acceptor.
pub(crate) async fn serve(listener: &TcpListener, acceptor: Option<TlsAcceptor>, router: &Router) -> Outcome {
    loop {
        let (stream, _peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let router = router.clone();
        match &acceptor {
            None => drop(tokio::spawn(serve_connection(stream, router))),
            Some(acceptor) => {
                let handshake = acceptor.accept(stream);
                tokio::spawn(async move {
                    if let Ok(stream) = handshake.await {
                        serve_connection(stream, router).await;
                    }
                });
            }
        }
    }
}

async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin>(stream: S, router: Router) {
    let mut http = http1::Builder::new();
    http.pipeline_flush(true);
    // An error ends this connection alone.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}
