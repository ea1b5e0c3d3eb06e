//! The connections of `tests/data`: `NAME.http` holds the bytes, `NAME.expect` the outcome.
//!
//! With `UPDATE_EXPECT=1` in the environment the outcomes are written instead of compared; a person must then judge the
//! difference.

use std::fs;
use std::path::{Path, PathBuf};

use super::expectation::{limits, preamble, render};
use crate::properties::connection::{Outcome, Through, run, split, whole};
use crate::properties::context::Limits;

struct Case {
    name: String,
    bytes: Vec<u8>,
    limits: Limits,
    expectation: PathBuf,
}

fn cases(folder: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let mut cases: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "http"))
        .map(|path| {
            let expectation = path.with_extension("expect");
            let text = fs::read_to_string(&expectation)
                .unwrap_or_else(|_| panic!("{} is missing: begin it with `# ` and a rule", expectation.display()));
            assert!(text.starts_with("# "), "{} names no rule", expectation.display());
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            Case { name, bytes: fs::read(&path).unwrap(), limits: limits(&text), expectation }
        })
        .collect();
    assert!(!cases.is_empty());
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    cases
}

/// Compares the outcomes with the texts beside the bytes, and shows all that differ at once.
fn compare(cases: &[Case]) {
    let mut differing = String::new();
    for case in cases {
        let expected = fs::read_to_string(&case.expectation).unwrap();
        let actual = preamble(&expected) + &render(&whole(&case.limits, &case.bytes));
        if actual != expected {
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                fs::write(&case.expectation, actual).unwrap();
            } else {
                differing += &format!("\n{}: expected\n{expected}but came to\n{actual}", case.name);
            }
        }
    }
    assert!(
        differing.is_empty(),
        "{differing}\nIf these outcomes are right, write them with: UPDATE_EXPECT=1 cargo test --test library requests::"
    );
}

/// Returns the outcome of every split of `case`.
fn every_split(case: &Case) -> impl Iterator<Item = (String, Outcome)> {
    let Case { bytes, limits, .. } = case;
    let bytewise = [Through::Input, Through::BodySpace]
        .map(|through| (format!("byte by byte, {through:?}"), run(limits, bytes.chunks(1), through)));
    let halves = (1..bytes.len()).map(|at| (format!("split at {at}"), split(limits, bytes, at, Through::Input)));
    bytewise.into_iter().chain(halves)
}

/// A case of acceptance begins with a success, and a case of refusal holds an error.
#[test]
fn accepted_and_refused_as_written() {
    let is_accepted = |statuses: &[u16]| matches!(statuses.first(), Some(200 | 204));
    let is_refused = |statuses: &[u16]| statuses.iter().any(|status| *status >= 400);
    for (folder, belongs) in [("accept", is_accepted as fn(&[u16]) -> bool), ("reject", is_refused)] {
        let cases = cases(folder);
        compare(&cases);
        for Case { name, bytes, limits, .. } in &cases {
            let statuses: Vec<_> = whole(limits, bytes).answers.iter().map(|answer| answer.status).collect();
            assert!(belongs(&statuses), "{folder}/{name} is in the wrong folder: {statuses:?}");
        }
    }
}

/// The answer does not tell in which way a token is wrong.
#[test]
fn every_401_is_the_same() {
    let answers = cases("reject").into_iter().flat_map(|case| whole(&case.limits, &case.bytes).answers);
    let mut answers: Vec<_> = answers.filter(|answer| answer.status == 401).collect();
    assert!(answers.len() > 30, "{}", answers.len());
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[test]
fn the_same_however_split() {
    for case in ["accept", "reject"].into_iter().flat_map(cases) {
        let outcome = whole(&case.limits, &case.bytes);
        for (how, other) in every_split(&case) {
            assert!(other == outcome, "{}, {how}: {}instead of {}", case.name, render(&other), render(&outcome));
        }
    }
}

/// The table in the documentation of `http::h1` names every file, and no file that is not there.
#[test]
fn the_table_names_every_file() {
    let table = include_str!("../../../src/http/h1/mod.rs");
    let files: Vec<_> = ["accept", "reject"]
        .into_iter()
        .flat_map(|folder| cases(folder).into_iter().map(move |case| format!("{folder}/{}", case.name)))
        .collect();
    let patterns: Vec<_> =
        table.split('`').filter(|word| word.starts_with("accept/") || word.starts_with("reject/")).collect();
    let matches = |pattern: &str, file: &str| match pattern.strip_suffix('*') {
        Some(prefix) => file.starts_with(prefix),
        None => file == pattern,
    };
    for file in &files {
        assert!(patterns.iter().any(|pattern| matches(pattern, file)), "{file} is in no row");
    }
    for pattern in patterns {
        assert!(files.iter().any(|file| matches(pattern, file)), "{pattern} is no file");
    }
}
