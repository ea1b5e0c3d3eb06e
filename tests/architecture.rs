//! The invariants of the crate's docs that sources can show.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};

/// The modules that do no I/O and know no clock.
const CORE: &[&str] = &["proto"];

/// What they must not name.
const SHELL: &[&str] =
    &["tokio", "zmq", "rustls", "rustix", "std::net", "std::thread", "Instant", "std::fs", "std::io"];

fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.into()];
    }
    let entries = fs::read_dir(path).into_iter().flatten();
    entries.flat_map(|entry| sources(&entry.unwrap().path())).collect()
}

fn all(module: &str) -> Vec<PathBuf> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    [src.join(module), src.join(format!("{module}.rs"))].iter().flat_map(|path| sources(path)).collect()
}

/// The lines of a source that are code, with their numbers.
fn code(path: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned()));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//")).collect()
}

#[test]
fn the_core_does_no_io_and_knows_no_clock() {
    for module in CORE {
        let sources = all(module);
        assert!(!sources.is_empty(), "{module} is gone");
        for path in sources.iter().filter(|path| !path.to_string_lossy().contains("test")) {
            for (at, line) in code(path) {
                let named = SHELL.iter().find(|name| line.contains(*name));
                assert_eq!(named, None, "{}:{at}: {line}", path.display());
            }
        }
    }
}

#[test]
fn each_way_of_waiting_is_named_in_one_module() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (name, module) in [("tokio_uring", "server/transport/uring.rs"), ("tokio::net", "server/transport/epoll.rs")] {
        for path in sources(&src).iter().filter(|path| !path.ends_with(module)) {
            for (at, line) in code(path) {
                assert!(!line.contains(name), "{}:{at}: {line}", path.display());
            }
        }
    }
}

#[test]
fn unsafe_stands_in_one_module() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in sources(&src).iter().filter(|path| !path.ends_with("bus/raw.rs")) {
        for (at, line) in code(path) {
            assert!(!line.contains("unsafe {") && !line.contains("unsafe fn"), "{}:{at}: {line}", path.display());
        }
    }
}
