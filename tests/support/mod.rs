//! What the tests share: the gateway as a child process, an HTTP client, a ZeroMQ subscriber.

pub(crate) mod answer;
pub(crate) mod compare;
pub(crate) mod connection;
pub(crate) mod files;
pub(crate) mod gateway;
pub(crate) mod hanging_folder;
pub(crate) mod http;
pub(crate) mod ladder;
pub(crate) mod load;
pub(crate) mod net;
pub(crate) mod pair;
pub(crate) mod peer;
pub(crate) mod plan;
pub(crate) mod planned;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod recorded;
pub(crate) mod request;
pub(crate) mod streams;
pub(crate) mod subscriber;
pub(crate) mod task;
pub(crate) mod tls;
pub(crate) mod topics;
pub(crate) mod usage;
pub(crate) mod written;
pub(crate) mod zmtp;

// What many tests use. They take it all with one line, and need not know in which file it is.
pub(crate) use std::collections::{BTreeMap, BTreeSet, VecDeque};
pub(crate) use std::fs::{self, File, OpenOptions};
pub(crate) use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
pub(crate) use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
pub(crate) use std::ops::{Deref, Range};
pub(crate) use std::os::fd::AsFd;
pub(crate) use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
pub(crate) use std::os::unix::net::UnixStream;
pub(crate) use std::os::unix::process::CommandExt;
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::process::{Command, Stdio};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::mpsc::{Receiver, channel};
pub(crate) use std::sync::{Arc, LazyLock, Mutex};
pub(crate) use std::thread::{self, JoinHandle};
pub(crate) use std::time::{Duration, Instant};

pub(crate) use rustix::fs::{OFlags, fcntl_getfl};
pub(crate) use rustix::io::Errno;
pub(crate) use rustix::process::{Pid, Signal, kill_process};
pub(crate) use rustls::pki_types::CertificateDer;
pub(crate) use rustls::version::TLS12;
pub(crate) use rustls::{ALL_VERSIONS, ClientConfig, ClientConnection, HandshakeKind};
pub(crate) use serde_json::{Value, json};
pub(crate) use socket2::{SockAddr, SockRef, Socket, Type};
pub(crate) use tempfile::TempDir;
pub(crate) use time::OffsetDateTime;

pub(crate) use self::answer::Answer;
pub(crate) use self::compare::*;
pub(crate) use self::files::*;
pub(crate) use self::gateway::*;
pub(crate) use self::hanging_folder::HangingFolder;
pub(crate) use self::http::*;
pub(crate) use self::ladder::*;
pub(crate) use self::load::*;
pub(crate) use self::net::*;
pub(crate) use self::pair::*;
pub(crate) use self::peer::*;
pub(crate) use self::process::*;
pub(crate) use self::random::Random;
pub(crate) use self::recorded::*;
pub(crate) use self::request::*;
pub(crate) use self::streams::*;
pub(crate) use self::subscriber::*;
pub(crate) use self::task::*;
pub(crate) use self::usage::*;
pub(crate) use self::zmtp::*;

/// How long any one wait may take before the test fails. It bounds a test that hangs and measures nothing. It is long,
/// because a slow machine must not make a test fail: one with fifteen busy programs for each core was 30 s late.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Calls `look` again and again until it finds something. It is for what raises no event to wait for.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "did not happen in time: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Calls `is_so` again and again until it returns `true`.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(()));
}

/// Runs the check of each case in a thread of its own, because most of the time it waits.
pub(crate) fn side_by_side<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    thread::scope(|threads| {
        for case in cases {
            let check = &check;
            threads.spawn(move || check(case));
        }
    });
}

/// Says on stderr that a check is skipped, past the output capture of the test harness. Fails where the environment
/// variable `CI` is set, because a check that nobody runs would read there as one that passed.
pub(crate) fn skip(reason: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!in_ci, "CI is set, so this must not be skipped: {reason}");
    let _ = std::io::stderr().write_all(format!("\nskipped: {reason}\n").as_bytes());
}
