//! The router of a gateway, written with axum, and served by hyper: `axum::serve` would make hyper flush each answer of a
//! pipeline. It publishes to the bus of the gateway, or to the bus of most programs.

use std::borrow::Cow;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;

use adapter_gateway::bus::{Bus, BusConfig, Publisher};
use adapter_gateway::http::admission::ENDPOINT;
use adapter_gateway::message::publish::Publish as _;
use adapter_gateway::terms::limits::Limits;
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
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;

use crate::Outcome;

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

pub(crate) trait Publish: Send + Sync + 'static {
    /// Passes a message to the bus without waiting.
    fn publish(&self, topic: &str, payload: &str) -> Result<(), Busy>;
}

/// The bus has no room or no hub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy;

/// The bus of `adapter-gateway serve --connect HUB`, woken as the gateway wakes it.
pub(crate) struct GatewayBus {
    publisher: Publisher,
    published: Arc<Notify>,
    _running: Bus,
}

impl GatewayBus {
    /// Connects to `hub` and waits until messages reach it. Must be called in the runtime.
    pub(crate) fn connect(hub: &str) -> Outcome<Self> {
        let config = BusConfig { connect: vec![hub.parse()?], ..BusConfig::default() };
        let (events, connected) = std_mpsc::channel();
        // Later events have no receiver.
        let bus = Bus::start(config, move |event| drop(events.send(event)))?;
        connected.recv()?;
        let (publisher, published) = (bus.publisher(), Arc::<Notify>::default());
        tokio::spawn(wake(publisher.clone(), Arc::clone(&published)));
        Ok(Self { publisher, published, _running: bus })
    }
}

/// Wakes the bus once for all messages of one pass of the event loop: this task runs after the tasks that published.
async fn wake(publisher: Publisher, published: Arc<Notify>) {
    loop {
        published.notified().await;
        publisher.wake();
    }
}

impl Publish for GatewayBus {
    fn publish(&self, topic: &str, payload: &str) -> Result<(), Busy> {
        self.publisher.publish(topic, payload.as_bytes().into()).map_err(|_| Busy)?;
        self.published.notify_one();
        Ok(())
    }
}

/// The bus of most programs: a channel to a thread that sends what it receives, topic and payload, which were copied once
/// into the messages of libzmq.
pub(crate) struct ChannelBus(mpsc::Sender<[zmq::Message; 2]>);

impl ChannelBus {
    /// Connects to `hub` and waits until messages reach it.
    pub(crate) fn connect(hub: &str) -> Outcome<Self> {
        let socket = zmq::Context::new().socket(zmq::XPUB)?;
        // Without a limit, libzmq drops nothing. With a limit it would drop messages: the option to block instead has
        // no name in the zmq crate.
        socket.set_sndhwm(0)?;
        socket.connect(hub)?;
        // The first message that an XPUB socket receives is the subscription of the hub.
        socket.recv_bytes(0)?;
        let (sender, mut messages) = mpsc::channel(Limits::DEFAULT.queue_messages.get());
        thread::Builder::new().name("bus".into()).spawn(move || {
            while let Some(frames) = messages.blocking_recv() {
                if let Err(error) = socket.send_multipart::<_, zmq::Message>(frames, 0) {
                    eprintln!("a message is lost: {error}");
                }
            }
        })?;
        Ok(Self(sender))
    }
}

impl Publish for ChannelBus {
    fn publish(&self, topic: &str, payload: &str) -> Result<(), Busy> {
        self.0.try_send([topic.into(), payload.into()]).map_err(|_| Busy)
    }
}
