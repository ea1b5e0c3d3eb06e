//! The addresses of hosts that endpoints name, looked up off libzmq's threads.
//!
//! libzmq looks a name up on the I/O thread, which serves all connections of its context, and a name server that does
//! not answer holds that thread up for ten seconds and more. So each name is looked up on a thread of its own. libzmq is
//! told to try again until there is an answer, and does so in its pauses between two attempts to connect. A context for
//! each endpoint would hold up nothing but its own endpoint, and costs two threads for each.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer counts, also that there is no address, before the name is looked up again. The former answer
/// counts until there is a new one. So a hub that gets another address is found, and a name server is not asked at each
/// attempt to connect.
const ANSWER_LIFETIME: Duration = Duration::from_secs(2);

/// What is looked up. The names are those of the endpoints on the command line, so there are few.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::bus) struct NameQuery {
    /// The name of the host.
    pub(in crate::bus) host: CString,
    /// `ai_family` of getaddrinfo(3).
    pub(in crate::bus) family: c_int,
    /// `ai_flags` of getaddrinfo(3).
    pub(in crate::bus) flags: c_int,
}

/// An address, or the error code of getaddrinfo(3).
type NameAnswer = Result<IpAddr, c_int>;

#[derive(Default)]
struct NameEntry {
    /// The last answer, and when it came.
    answer: Option<(NameAnswer, Instant)>,
    /// A thread looks the name up now.
    is_pending: bool,
}

/// The names that were asked for.
static NAMES: Mutex<BTreeMap<NameQuery, NameEntry>> = Mutex::new(BTreeMap::new());
/// Wakes those that wait for an answer.
static ANSWERED: Condvar = Condvar::new();

/// Returns the answer for this name, or `None` if there is none yet. Waits for the first answer at most for `timeout`.
/// `look_up` runs on a thread of its own, one for each name.
pub(in crate::bus) fn resolve(
    query: &NameQuery,
    timeout: Duration,
    look_up: fn(&NameQuery) -> NameAnswer,
) -> Option<NameAnswer> {
    let mut entries = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = entries.entry(query.clone()).or_default();
    let is_due = entry.answer.is_none_or(|(_, at)| at.elapsed() >= ANSWER_LIFETIME);
    if is_due && !entry.is_pending {
        let query = query.clone();
        let look_up = move || {
            let answer = Some((look_up(&query), Instant::now()));
            let mut entries = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
            entries.insert(query, NameEntry { answer, is_pending: false });
            ANSWERED.notify_all();
        };
        // Without a thread, the next attempt to connect tries again.
        entry.is_pending = std::thread::Builder::new().name("name-lookup".into()).spawn(look_up).is_ok();
    }
    if let Some((answer, _)) = entry.answer {
        return Some(answer);
    }
    let is_unanswered = |entries: &mut BTreeMap<NameQuery, NameEntry>| {
        entries.get(query).is_some_and(|entry| entry.is_pending && entry.answer.is_none())
    };
    let waited = ANSWERED.wait_timeout_while(entries, timeout, is_unanswered);
    let (entries, _) = waited.unwrap_or_else(PoisonError::into_inner);
    entries.get(query)?.answer.map(|(answer, _)| answer)
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn query(host: &CStr) -> NameQuery {
        NameQuery { host: host.to_owned(), family: libc::AF_INET, flags: 0 }
    }

    /// Waits until `look` returns true.
    fn eventually(what: &str, look: impl Fn() -> bool) {
        let started = Instant::now();
        while !look() {
            assert!(started.elapsed() < PATIENCE, "did not happen in time: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_name_without_an_answer_holds_nobody_up_and_is_looked_up_once() {
        static CALLS: AtomicU8 = AtomicU8::new(0);
        let unanswered = |_: &NameQuery| {
            CALLS.fetch_add(1, Ordering::Relaxed);
            loop {
                std::thread::park();
            }
        };
        for _ in 0..100 {
            assert_eq!(resolve(&query(c"unanswered"), Duration::ZERO, unanswered), None);
        }
        let healthy = |_: &NameQuery| Ok(IpAddr::from([127, 0, 0, 1]));
        assert_eq!(resolve(&query(c"healthy"), PATIENCE, healthy), Some(Ok(IpAddr::from([127, 0, 0, 1]))));
        eventually("the lookup", || CALLS.load(Ordering::Relaxed) == 1);
    }

    #[test]
    fn an_answer_counts_until_there_is_a_newer_one() {
        static CALLS: AtomicU8 = AtomicU8::new(0);
        let changing = |_: &NameQuery| match CALLS.fetch_add(1, Ordering::Relaxed) {
            0 => Err(libc::EAI_NONAME),
            call => Ok(IpAddr::from([127, 0, 0, call])),
        };
        let started = Instant::now();
        assert_eq!(resolve(&query(c"changing"), PATIENCE, changing), Some(Err(libc::EAI_NONAME)));
        assert_eq!(resolve(&query(c"changing"), PATIENCE, changing), Some(Err(libc::EAI_NONAME)));
        for call in [1, 2] {
            let changed = Some(Ok(IpAddr::from([127, 0, 0, call])));
            eventually("a new answer", || resolve(&query(c"changing"), Duration::ZERO, changing) == changed);
            assert!(started.elapsed() >= u32::from(call) * ANSWER_LIFETIME);
        }
        assert!(CALLS.load(Ordering::Relaxed) <= 4);
    }
}
