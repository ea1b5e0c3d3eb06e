//! The servers that the gateway is compared with. Each is a program, and all have the same command line:
//!
//! ```text
//! PEER_TOKEN=... PEER --hub tcp://127.0.0.1:PORT [--listen 127.0.0.1:0 | --listen unix:PATH] [--cert PEM --key PEM]
//! ```
//!
//! When messages reach the hub, a peer prints `{"event":"listening","url":"http://127.0.0.1:PORT/api/message"}`, and
//! serves until it is killed. The hub must receive by then, because libzmq subscribes in the thread that receives.
//! Every peer serves on one thread. Beside it there are the thread of the bus and that of libzmq.
//!
//! | program | HTTP | bus |
//! |---|---|---|
//! | `axum_mpsc` | `axum::serve` | a channel to a thread that sends |
//! | `axum_gateway_bus` | `axum::serve` | that of the gateway |
//! | `hyper_pipeline` | the router of axum on hyper, which answers a pipeline with one write | that of the gateway |
//! | `hyper_mpsc` | as `hyper_pipeline` | a channel to a thread that sends |
//! | `hyper_tls` | as `hyper_pipeline`, with rustls | that of the gateway |
//! | `canned_tokio_uring` | one constant answer to all requests, with the waits of the gateway by io_uring | none |
//! | `canned_tcp_stream` | one constant answer to all requests, with the streams of tokio-uring | none |
//!
//! `aiohttp_pyzmq.py`, beside the manifest of this package, is a server as adapters have it. It needs the packages of
//! `requirements.txt`.

use std::error::Error;

pub mod axum_server;
pub mod canned;
pub mod channel_bus;
pub mod gateway_bus;
pub mod hyper_server;
pub mod requests;
pub mod router;
pub mod start;
pub mod tls;

/// What a peer's `main` returns.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;
