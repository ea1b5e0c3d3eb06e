//! Sockets: worker threads, their listeners, and the tasks of their connections.
//!
//! | file | what it holds |
//! |---|---|
//! | [`pool`] | the worker threads, and how the gateway opens, closes and drains them |
//! | [`worker`] | one worker: it accepts connections, spawns their tasks, and drains them |
//! | [`listener`] | listening sockets of our own |
//! | [`inherited`] | listening sockets that the parent passes |
//! | [`shared`] | what the workers share, and what the connections of one worker share |
//! | [`counters`] | what a worker counts |
//! | `connection` | the task of a connection: waits, deadlines, the core, the end; how a worker tells it to end |
//! | `stream` | the bytes of a client: system calls, and TLS where it is spoken |
//! | [`transport`] | how sockets are waited for: io_uring or epoll |

mod connection;
pub mod counters;
pub mod inherited;
pub mod listener;
pub mod pool;
pub mod shared;
mod stream;
pub mod transport;
pub mod worker;
