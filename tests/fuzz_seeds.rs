//! The inputs of all fuzz targets, replayed without a fuzzer: every seed, every input that fuzzing has found and kept,
//! every regression, and every request file of `tests/data`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a property that does not hold must fail the test at that place"
)]

#[path = "../fuzz/properties/mod.rs"]
mod properties;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// Returns the sorted files of a folder of the package, and none if the folder does not exist.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn every_property_holds_for_every_seed_regression_and_request_file() {
    let request_files: Vec<_> = ["tests/data/accept", "tests/data/reject"].into_iter().flat_map(files).collect();
    for (target, property) in properties::ALL {
        let seeds = files(&format!("fuzz/corpus/{target}"));
        assert!(!seeds.is_empty(), "{target} has no seeds");
        let found = files(&format!("fuzz/found/{target}"));
        let regressions = files(&format!("fuzz/regressions/{target}"));
        for file in [&seeds, &found, &regressions, &request_files].into_iter().flatten() {
            let input = fs::read(file).unwrap();
            assert!(catch_unwind(|| property(&input)).is_ok(), "{target}: {}", file.display());
        }
    }
}
