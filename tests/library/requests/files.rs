//! The connections of `tests/data`. The text beside a connection's bytes has the rule, the limits that differ from the
//! defaults, and the outcome.
//!
//! ```text
//! # RFC 9112 §6.3, item 3: both lengths.        the rule
//! with max-body 10                               a limit, where it is not the default
//! 200 keep, published TOPIC PAYLOAD              an answer, whether the connection stays, what was published
//! 400 close, KIND: DETAIL                        a problem document
//!     Allow: POST, OPTIONS                       a field that not every answer has
//! closed: refused                                the end
//! ```
//!
//! With `UPDATE_EXPECT=1` in the environment the outcomes are written; a person must then judge the difference.

use adapter_gateway::http::connection::{CloseReason, Waiting};
use adapter_gateway::http::policy::AllowedOrigins;
use adapter_gateway::message::publish::Unavailable;
use adapter_gateway::message::{Check, Encoding, Vocabulary};

use crate::properties::connection::{End, Limits, Outcome, Through, run, whole};
use crate::support::recorded::{FOLDERS, Recorded};

#[test]
fn a_new_entry_gets_its_outcome_below_the_rule_and_the_limits() {
    for preamble in ["# A rule.\n> GET\n", "# A rule.\nwith max-body 10\n> GET\n"] {
        let mut case = Recorded::read("new", preamble);
        assert_eq!(case.bytes, b"GET");
        case.outcome = "closed: asked\n".into();
        assert_eq!(case.text(), format!("## new\n{preamble}closed: asked\n"));
    }
}

/// A case of acceptance begins with a success, and a case of refusal holds an error. All outcomes that differ from what is
/// written are shown at once.
#[test]
fn accepted_and_refused_as_written() {
    let is_accepted = |statuses: &[u16]| matches!(statuses.first(), Some(200 | 204));
    let is_refused = |statuses: &[u16]| statuses.iter().any(|status| *status >= 400);
    for (folder, belongs) in FOLDERS.into_iter().zip([is_accepted as fn(&[u16]) -> bool, is_refused]) {
        let (mut connections, mut differing) = (Recorded::all(folder), String::new());
        for case in &mut connections {
            let outcome = whole(&limits(case), &case.bytes);
            let (statuses, outcome) = (outcome.statuses(), render(&outcome));
            let rule = "the first one must be a success in `accept`, and one must be an error in `reject`";
            let advice = format!("{rule}. Move it to the other folder, or mend what answers");
            assert!(belongs(&statuses), "{folder}/{} has the answers {statuses:?}: {advice}", case.name);
            if outcome != case.outcome {
                differing += &format!("\n{}: expected\n{}but came to\n{outcome}", case.name, case.outcome);
                case.outcome = outcome;
            }
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            Recorded::write(folder, &connections);
            continue;
        }
        let advice = "If these are right, write them with: UPDATE_EXPECT=1 cargo test --test library requests::";
        assert!(differing.is_empty(), "{differing}\n{advice}");
    }
}

/// The answer does not tell in which way a token is wrong.
#[test]
fn every_401_is_the_same() {
    let answers = Recorded::all("reject").into_iter().flat_map(|case| whole(&limits(&case), &case.bytes).answers);
    let mut answers: Vec<_> = answers.filter(|answer| answer.status == 401).collect();
    assert!(answers.len() > 30, "{}", answers.len());
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[test]
fn the_same_however_split() {
    for case in FOLDERS.into_iter().flat_map(Recorded::all) {
        let (limits, bytes) = (limits(&case), &case.bytes);
        let outcome = whole(&limits, bytes);
        let same = |how: String, other: Outcome| {
            assert!(other == outcome, "{}, {how}: {}instead of {}", case.name, render(&other), render(&outcome));
        };
        for through in [Through::Input, Through::BodySpace] {
            same(format!("byte by byte, {through:?}"), run(&limits, bytes.chunks(1), through));
        }
        for at in 1..bytes.len() {
            same(format!("split at {at}"), run(&limits, <[_; 2]>::from(bytes.split_at(at)), Through::Input));
        }
    }
}

/// The table in the documentation of `http::h1` names every file, and no file or test that is not there.
#[test]
fn the_table_names_every_file() {
    const TABLE: &str = "the table of `src/http/h1/mod.rs`";
    let table = include_str!("../../../src/http/h1/mod.rs");
    let named = |folder| Recorded::all(folder).into_iter().map(move |case| format!("{folder}/{}", case.name));
    let files: Vec<_> = FOLDERS.into_iter().flat_map(named).collect();
    let patterns: Vec<_> =
        table.split('`').filter(|word| word.starts_with("accept/") || word.starts_with("reject/")).collect();
    let matches = |pattern: &str, file: &str| match pattern.strip_suffix('*') {
        Some(prefix) => file.starts_with(prefix),
        None => file == pattern,
    };
    for file in &files {
        let is_named = patterns.iter().any(|pattern| matches(pattern, file));
        assert!(is_named, "{file} is in no row: name it, or its beginning and `*`, beside its rule in {TABLE}");
    }
    for pattern in patterns {
        let is_there = files.iter().any(|file| matches(pattern, file));
        assert!(is_there, "{pattern} in {TABLE} is no connection in `tests/data`: give it the name of one");
    }
    let tests = table.lines().filter(|line| line.starts_with("//! |")).flat_map(|row| row.split('`'));
    for (module, test) in tests.filter_map(|word| word.split_once("::")) {
        let path = format!("{}/tests/library/requests/{module}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let is_there = text.contains(&format!("fn {test}()"));
        assert!(is_there, "{module}::{test} in {TABLE} is no test in {path}: give it the name of one");
    }
}

pub(crate) fn limits(recorded: &Recorded) -> Limits {
    let mut limits = Limits::default();
    for (name, value) in recorded.limits() {
        match name {
            "max-head" => limits.policy.limits.head_bytes = value.parse().unwrap(),
            "max-body" => limits.policy.limits.body_bytes = value.parse().unwrap(),
            "max-buffered" => limits.buffered_bytes = value.parse().unwrap(),
            "queue" => limits.queue = value.parse().unwrap(),
            "no-hub" => limits.unavailable = Some(Unavailable::NotConnected),
            "stalled" => limits.unavailable = Some(Unavailable::Stalled),
            "stopping" => limits.unavailable = Some(Unavailable::Stopping),
            "disabled" => limits.token = None,
            "unix" => limits.is_unix = true,
            "strict" => limits.policy.rules.check = Check::Strict,
            "envelope" => limits.policy.rules.check = Check::Envelope,
            "older" => limits.policy.rules.vocabulary = Vocabulary::Older,
            "newer" => limits.policy.rules.vocabulary = Vocabulary::Newer,
            "msgpack" => limits.policy.encoding = Encoding::Msgpack,
            "origin" => limits.policy.origins = AllowedOrigins::These(value.split(' ').map(Into::into).collect()),
            _ => panic!("no limit is called {name}"),
        }
    }
    limits
}

pub(crate) fn render(outcome: &Outcome) -> String {
    let mut published = outcome.published.iter();
    let told = outcome.answers.iter().map(|answer| {
        answer.told(|| {
            let message = published.next().unwrap();
            format!("{} {}", message.topic, String::from_utf8_lossy(&message.payload))
        })
    });
    let end = match outcome.end {
        End::Open(Waiting::Request) => "open: between requests",
        End::Open(Waiting::Head) => "open: in a head",
        End::Open(Waiting::Body) => "open: in a body",
        End::Closed(CloseReason::Asked) => "closed: asked",
        End::Closed(CloseReason::Refused | CloseReason::Unauthorized) => "closed: refused",
        End::Closed(CloseReason::EndOfInput) => "closed: end of input",
        End::Closed(CloseReason::TimedOut) => "closed: timed out",
    };
    told.collect::<String>() + end + "\n"
}
