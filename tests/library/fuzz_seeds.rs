//! The inputs of all fuzz targets, replayed without a fuzzer: every seed, every input that fuzzing has found and kept,
//! every regression, and every connection of `tests/data`; and random changes of them.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;

use crate::properties;
use crate::requests::random::{edit, edited};
use crate::support::recorded::{FOLDERS, Recorded};
use crate::support::{side_by_side, written};

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn text(relative: &str) -> String {
    fs::read_to_string(path(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
}

/// Returns all inputs that are stored for a target, and where each stands. Each line of what fuzzing has found is an input in base64, and not each target
/// has regressions.
fn stored(target: &str) -> Vec<(String, Vec<u8>)> {
    let [seeds, found] = ["seeds", "found"].map(|kind| format!("fuzz/{kind}/{target}"));
    let seed = |(name, lines)| (format!("{seeds}, {name}"), written::bytes(lines));
    let mut inputs: Vec<_> = written::sections(&text(&seeds)).map(seed).collect();
    assert!(!inputs.is_empty(), "{target} has no seeds");
    let read = |(line, number)| (format!("{found}:{number}"), STANDARD.decode(line).unwrap());
    inputs.extend(text(&found).lines().zip(1..).map(read));
    let regressions = fs::read_dir(path(&format!("fuzz/regressions/{target}"))).into_iter().flatten();
    let paths = regressions.map(|entry| entry.unwrap().path());
    inputs.extend(paths.map(|path| (path.display().to_string(), fs::read(path).unwrap())));
    inputs
}

#[test]
fn every_property_holds_for_every_seed_regression_and_request_file() {
    let connections = FOLDERS.into_iter().flat_map(Recorded::all);
    let request_files: Vec<_> = connections.map(|recorded| (recorded.name, recorded.bytes)).collect();
    for (target, property) in properties::ALL {
        for (place, input) in stored(target).iter().chain(&request_files) {
            assert!(catch_unwind(|| property(input)).is_ok(), "{target}: {place}");
        }
    }
}

/// Bytes that begin as one of these inputs and end as another, with some edits; or any bytes.
fn changed(inputs: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let parts = (select(inputs.clone()), select(inputs), any::<[Index; 2]>(), vec(edit(), 0..4));
    let spliced = parts.prop_map(|(one, other, [end, start], edits)| {
        edited([&one[..end.index(one.len() + 1)], &other[start.index(other.len() + 1)..]].concat(), edits)
    });
    prop_oneof![2 => spliced, 1 => vec(any::<u8>(), 0..1_200)]
}

#[test]
fn every_property_holds_for_changed_inputs() {
    side_by_side(properties::ALL, |(target, property)| {
        let inputs = stored(target).into_iter().map(|(_, input)| input).collect();
        let config = ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() };
        let result = TestRunner::new(config).run(&changed(inputs), |input| {
            property(&input);
            Ok(())
        });
        assert!(result.is_ok(), "{target}: {result:?}");
    });
}

#[test]
fn every_target_of_cargo_fuzz_has_a_property_and_a_line_of_the_readme() {
    let manifest = text("fuzz/Cargo.toml");
    let bins = manifest.split("[[bin]]").skip(1);
    let targets: Vec<_> = bins.map(|bin| bin.split('"').nth(1).unwrap()).collect();
    assert_eq!(properties::ALL.map(|(target, _)| target).to_vec(), targets);

    // The table is the only one that begins with a target and its dictionary.
    let readme = text("fuzz/README.md");
    let rows: Vec<_> = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | `")).collect();
    assert_eq!(rows.iter().map(|(target, _)| *target).collect::<Vec<_>>(), targets, "the table of fuzz/README.md");
    for (target, others) in rows {
        let (dictionary, _) = others.split_once('`').unwrap();
        assert!(path(&format!("fuzz/{dictionary}")).is_file(), "{target}: {dictionary}");
    }
}
