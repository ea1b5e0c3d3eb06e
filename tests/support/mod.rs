//! What the tests share: the gateway as a child process, an HTTP client, a ZeroMQ subscriber.

pub(crate) mod answer;
pub(crate) mod compare;
pub(crate) mod connection;
pub(crate) mod fixture;
pub(crate) mod full_pipe;
pub(crate) mod gateway;
pub(crate) mod hanging_folder;
pub(crate) mod http;
pub(crate) mod io_mode;
pub(crate) mod ladder;
pub(crate) mod lateness;
pub(crate) mod load;
pub(crate) mod net;
pub(crate) mod pair;
pub(crate) mod peer;
pub(crate) mod permissions;
pub(crate) mod plan;
pub(crate) mod planned;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod recorded;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod settings_file;
pub(crate) mod shared_listener;
pub(crate) mod subscriber;
pub(crate) mod task;
pub(crate) mod terminal;
pub(crate) mod tls;
pub(crate) mod topics;
pub(crate) mod usage;
pub(crate) mod written;
pub(crate) mod zmtp;

use std::io::Write;

// What many tests use. They take it all with one line, and need not know in which file it is.
pub(crate) use std::time::{Duration, Instant};

pub(crate) use rustix::process::Signal;
pub(crate) use serde_json::Value;

pub(crate) use self::answer::Answer;
pub(crate) use self::compare::{assert_same_order, assert_same_set};
pub(crate) use self::fixture::Fixture;
pub(crate) use self::gateway::{ANY_PORT, Builder, Gateway, count, is_event};
pub(crate) use self::hanging_folder::HangingFolder;
pub(crate) use self::http::{Client, SHORTEST_TIMEOUT};
pub(crate) use self::io_mode::io_mode;
pub(crate) use self::lateness::Lateness;
pub(crate) use self::load::{Load, accepted, refused_as};
pub(crate) use self::net::{accept_connection, dead_endpoint, free_address, free_listener, refuses};
pub(crate) use self::pair::Pair;
pub(crate) use self::peer::{Form, RawPeer, subscribe};
pub(crate) use self::permissions::{NOBODY, can_give_away, give_away, mode, set_mode};
pub(crate) use self::process::{Process, Transcript, binary, run, succeeds};
pub(crate) use self::random::Random;
pub(crate) use self::report::{DeliveryReport, take_all};
pub(crate) use self::request::{FINE, Request};
pub(crate) use self::settings_file::{SettingsFile, disabled, enabled, enabled_settings, token};
pub(crate) use self::subscriber::{
    Message, Subscriber, bound_socket, hub_endpoints, ipc_endpoint, socket, temporary_endpoint, temporary_path,
    temporary_paths,
};
pub(crate) use self::task::{POLL_INTERVAL, Task, is_over};
pub(crate) use self::terminal::Terminal;
pub(crate) use self::usage::{
    cpu_ticks, cpu_ticks_within, descriptors, limit_descriptors, raise_descriptors, resident_kib,
};
pub(crate) use self::zmtp::{MORE, frame, frame_head, handshake};

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
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Calls `is_so` again and again until it returns `true`.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(()));
}

/// Runs the check of each case in a thread of its own, because most of the time it waits.
pub(crate) fn side_by_side<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    std::thread::scope(|threads| {
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
