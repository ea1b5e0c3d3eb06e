//! The router of a gateway, written with axum.

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
use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) trait Publish: Send + Sync + 'static {
    /// Passes a message to the bus without waiting.
    fn publish(&self, topic: &str, payload: &str) -> Result<(), Busy>;
}

/// The bus has no room or no hub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy;

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
