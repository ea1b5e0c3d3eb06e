//! What fuzzing found, replayed without a fuzzer: every seed and every regression of every target, and the
//! connections of `tests/data` beside them.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a property that does not hold is to stop the test there"
)]

#[path = "../fuzz/properties/mod.rs"]
mod properties;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// The files of a folder of the package, in order; none where there is no such folder.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn every_property_holds_of_every_seed_and_regression() {
    let connections: Vec<_> = ["tests/data/accept", "tests/data/reject"].into_iter().flat_map(files).collect();
    for (target, property) in properties::ALL {
        let seeds = files(&format!("fuzz/corpus/{target}"));
        assert!(!seeds.is_empty(), "{target} has no seeds");
        let regressions = files(&format!("fuzz/regressions/{target}"));
        for file in seeds.iter().chain(&regressions).chain(&connections) {
            let input = fs::read(file).unwrap();
            assert!(catch_unwind(|| property(&input)).is_ok(), "{target}: {}", file.display());
        }
    }
}
