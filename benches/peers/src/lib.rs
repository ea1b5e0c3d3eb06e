//! The servers that the gateway is measured beside, one program each, all with one command line:
//!
//! ```text
//! PEER_TOKEN=... PEER --hub tcp://127.0.0.1:PORT [--listen 127.0.0.1:0] [--cert PEM --key PEM]
//! ```
//!
//! Once messages reach the hub it prints `{"event":"listening","url":"http://127.0.0.1:PORT/api/message"}`, and it
//! serves until it is killed. The hub must be receiving by then: libzmq subscribes in the thread that does.
//! All serve on one thread, beside which there is that of a bus and libzmq's own.
//!
//! | program | HTTP | bus |
//! |---|---|---|
//! | `axum_mpsc` | `axum::serve` | a channel to a thread that sends: the plain way |
//! | `axum_good_bus` | `axum::serve` | the gateway's |
//! | `hyper_pipeline` | axum's router on hyper, a pipeline answered in one write | the gateway's |
//! | `hyper_mpsc` | as `hyper_pipeline` | a channel to a thread that sends |
//! | `hyper_tls` | as `hyper_pipeline`, behind rustls | the gateway's |
//! | `canned_tokio_uring` | ends of requests by the gateway's waits on io_uring, one answer to all | none |
//! | `canned_tcp_stream` | the same by tokio-uring's own streams | none |
//!
//! And `aiohttp_pyzmq.py`, beside this package's manifest, is what adapters are written in; it needs what
//! `requirements.txt` says.

use std::error::Error;

pub mod axum_server;
pub mod canned;
pub mod channel_bus;
pub mod good_bus;
pub mod hyper_server;
pub mod requests;
pub mod router;
pub mod start;
pub mod tls;

/// What a peer's `main` returns.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;
