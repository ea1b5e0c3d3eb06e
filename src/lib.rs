//! A gateway from HTTP to ZeroMQ for a local automation adapter. A client posts a JSON message to
//! `/api/message?token=...`, and the gateway publishes it as a ZeroMQ message of two frames: the topic and the payload.
//!
//! The crate is the program `adapter-gateway`. It is a library as well so that tests, fuzz targets and benches can use
//! its parts.
//!
//! `docs/design.md` follows a message from function to function, and names the thread of each step.
//!
//! # Layers
//!
//! A folder of `src`, or a file beside them, is a layer. A layer imports the layers that this table names, and those
//! that they may import in turn. The files and folders of a folder do not import each other in a circle.
//! `tests/library/architecture` reads all sources and fails if one of them breaks this. A connection publishes through
//! a trait, so `http` knows nothing of the bus.
//!
//! | layer | imports | what it does |
//! |---|---|---|
//! | `main` | `commands` | runs the program and returns its exit status |
//! | [`commands`] | `cli`, `gateway` | the commands `serve`, `demo`, `listen`, `send`, `enable` and `disable` |
//! | [`cli`] | `bus`, `tls` | parses the arguments |
//! | [`gateway`] | `server`, `settings` | one run: settings, signals, certificates, events for the parent |
//! | [`server`] | `bus`, `tls`, `http` | workers, listening sockets and connections |
//! | [`bus`] | `message`, `zmtp`, `sys` | the queue, the bus thread, the hubs that it dials and the ports that it serves |
//! | [`tls`] | `sync`, `sys` | TLS sessions, and certificates |
//! | [`settings`] | `terms`, `sys` | reads `user_settings.py` |
//! | [`http`] | `message`, `mark` | HTTP/1.1: the state machine of a connection, admission, and answers |
//! | [`message`] | `sync`, `terms` | JSON text to topic and payload, vocabularies, MessagePack |
//! | [`zmtp`] | `terms`, `mark` | ZMTP 3 as our ports speak it, and what waits for whom |
//! | [`sync`] | | what threads share: counters, and the budget of bodies |
//! | [`terms`] | | what several layers name: the token, the limits of a run, and topics of the log |
//! | [`sys`] | `mark` | the operating system: the log, files, hosts, listening sockets, threads and the process |
//! | `mark` | | why a rare branch is there, and that a test takes it |
//!
//! # Invariants
//!
//! * The same bytes have the same result, whether they arrive at once or in any number of parts.
//! * A message is answered with 200 only after it is in the queue. A message in the queue is handed over even if
//!   the process is asked to stop next.
//! * The memory that a client can make the process hold is bounded: by `--max-head` and `--max-connections`, by
//!   `--max-buffered`, by the bounds of the queue, and by the pipes of libzmq. What a peer of a bound port can make it hold
//!   is bounded by constants of `zmtp` and `bus`. A hub that is dialled is trusted.
//! * A token is compared in constant time. No secret is logged, printed or put into an error. Only `demo` prints a
//!   token: the one that it made.

pub mod bus;
pub mod cli;
pub mod commands;
pub mod gateway;
pub mod http;
mod mark;
pub mod message;
pub mod server;
pub mod settings;
pub mod sync;
pub mod sys;
pub mod terms;
pub mod tls;
pub mod zmtp;
