//! What the operating system gives: the log, files that change, Unix sockets, and the process itself.
//!
//! | file | what it does |
//! |---|---|
//! | [`log`] | writes the log for people to standard error |
//! | `writer` | writes lines to a stream on a thread of its own |
//! | [`process`] | asks for and sets what the process has: its session, its priority, its memory |
//! | [`watch`] | reports changes of a file |
//! | [`exposure`] | tells what other users can do with a file |
//! | `unix_listener` | listens on Unix sockets, and takes care of their files |
//! | `parent` | watches the process that started this one |
//! | `timed_join` | bounds how long a stop waits for a thread |
//! | `retry` | tries again, for a bounded time, what another process prevents |

pub mod exposure;
pub mod log;
pub(crate) mod parent;
pub mod process;
pub(crate) mod retry;
pub(crate) mod timed_join;
pub(crate) mod unix_listener;
pub mod watch;
pub(crate) mod writer;
