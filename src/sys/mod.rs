//! The operating system: the log, files that change, Unix sockets, and the process itself.
//!
//! | file | what it does |
//! |---|---|
//! | [`log`] | writes the log for people to standard error |
//! | `writer` | writes lines to a stream on a thread of its own |
//! | [`memory`] | says when freed memory goes back to the kernel |
//! | `time` | writes a time as RFC 3339 has it |
//! | `terminal` | says what may be written to a terminal |
//! | `draft` | replaces a file as a whole |
//! | [`process`] | asks for and sets what the process has: its memory, its scheduling, its descriptors, its parent |
//! | [`watch`] | reports changes of a file |
//! | [`secret_file`] | reads a file that holds a secret, and tells what other users can do with it |
//! | `unix_listener` | listens on Unix sockets, and takes care of their files |
//! | `timed_join` | bounds how long a stop waits for a thread |
//! | `retry` | tries again, for a bounded time, what another process prevents |

pub(crate) mod draft;
pub mod log;
pub mod memory;
pub mod process;
pub(crate) mod retry;
pub mod secret_file;
pub(crate) mod terminal;
pub(crate) mod time;
pub(crate) mod timed_join;
pub(crate) mod unix_listener;
pub mod watch;
pub(crate) mod writer;

/// How sockets are waited for (`--io`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// io_uring where it is available, else epoll.
    Auto,
    /// io_uring, or exit status 5.
    Uring,
    /// epoll.
    Epoll,
}
