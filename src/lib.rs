//! The REST entrance of a local automation adapter: `POST /api/message?token=...` in, a ZeroMQ message out.
//!
//! # The way of a message
//!
//! ```text
//!  socket ──► connection ──► exchange ──► http1      where heads and bodies end
//!  (transport)   (loop)    (state machine) ├─► gate      who may pass: the status table, in its order
//!                                          ├─► message   what is a message: JSON, vocabulary
//!                                          └─► Gate::publish
//!                                                 │ queue, bounded in messages and bytes
//!                                                 ▼
//!                                          bus thread ──► XPUB ──► hub or subscribers
//! ```
//!
//! # Layers
//!
//! Imports go downward only.
//!
//! | layer | modules | what it knows |
//! |---|---|---|
//! | program | [`cli`], [`commands`], [`gateway`] | arguments, signals, the parent process |
//! | shell | [`server`], [`bus`], [`tls`], [`settings`], `watch` | sockets, threads, files, time |
//! | core | [`proto`] | bytes |
//!
//! # Invariants
//!
//! * The core does no I/O and knows no clock: it never names tokio, zmq, rustls, `std::net`, `std::thread` or
//!   `Instant`. Tests, fuzz targets and benches drive it directly. A test reads its sources for this.
//! * Fed whole or at any split, the same bytes have the same outcome.
//! * A message is answered 200 after it is in the queue, and what is in the queue is handed to libzmq even if the
//!   process is asked to stop next.
//! * One thread owns every ZeroMQ socket of the gateway; the embedded hub, a component of its own, has another.
//! * No buffer belongs to the kernel while a connection waits ([`server::transport`]), so nothing is lost or leaked when a
//!   deadline drops a future.
//! * What a peer can make the process hold is bounded: by `--max-head` and `--max-connections`, by `--max-buffered`,
//!   by the queue's bounds, by libzmq's pipes.
//! * A token, and a head that holds one, is compared in constant time; and no secret is ever logged, printed or put into
//!   an error; only `demo` shows the token that it made.

pub mod bus;
pub mod cli;
pub mod commands;
pub mod gateway;
pub mod log;
pub mod process;
pub mod proto;
pub mod server;
pub mod settings;
pub mod tls;
pub mod watch;
