//! The invariants of the crate's docs that its sources can show: which layer may import which, that no two files import
//! each other, and what the core must not name.

mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use imports::{Source, imports, sources};

/// The layers, and those that each may import beside itself. What these may import, it may import too.
const ARROWS: &[(&str, &[&str])] = &[
    ("main", &["commands"]),
    ("commands", &["cli", "gateway"]),
    ("cli", &["bus", "tls", "http"]),
    ("gateway", &["server", "settings"]),
    ("server", &["bus", "tls", "http"]),
    ("bus", &["message", "zmtp", "sys"]),
    ("tls", &["sync", "sys"]),
    ("settings", &["sync", "sys"]),
    ("http", &["message"]),
    ("message", &["sync"]),
    ("zmtp", &["sync"]),
];

/// The layers without I/O and without a clock.
const CORE: &[&str] = &["http", "message", "zmtp", "sync"];

/// The core does no I/O and knows no clock, so it names none of these.
const SHELL: &[&str] = &[
    "tokio",
    "zmq",
    "rustls",
    "rustix",
    "std::net",
    "std::thread",
    "Instant",
    "std::fs",
    "std::io",
    "SystemTime::now",
    "waker",
];

/// The layer that a file belongs to: its folder, or itself.
fn layer(file: &str) -> &str {
    file.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

/// Returns whether an arrow, or several one after the other, lead from one layer to another.
fn is_below(lower: &str, upper: &str) -> bool {
    let arrows = ARROWS.iter().find(|(from, _)| *from == upper).map_or(&[][..], |(_, to)| to);
    arrows.iter().any(|next| *next == lower || is_below(lower, next))
}

#[test]
fn imports_go_one_way() {
    let wrong = imports(&sources()).into_iter().filter(|(from, to)| {
        let (upper, lower) = (layer(from), layer(to));
        upper != lower && upper != "lib" && !is_below(lower, upper)
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "against the arrows: {wrong:#?}");
}

/// Files and folders that stand side by side: a folder imports what any file in it imports.
#[test]
fn no_files_or_folders_import_each_other_in_a_circle() {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in imports(&sources()) {
        let shared = from.split('/').zip(to.split('/')).take_while(|(one, other)| one == other).count();
        let entry = |file: &str| file.split('/').take(shared + 1).collect::<Vec<_>>().join("/");
        graph.entry(entry(&from)).or_default().insert(entry(&to));
    }
    // What is reached from an entry, and has no way back, is in no circle with it.
    for entry in graph.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), vec![entry]);
        while let Some(next) = open.pop() {
            open.extend(graph.get(next).into_iter().flatten().filter(|next| seen.insert(*next)));
        }
        assert!(!seen.contains(entry), "{entry} is in a circle, which is some of {seen:?}");
    }
}

#[test]
fn the_core_does_no_io_and_knows_no_clock() {
    let sources = sources();
    let core: Vec<_> = sources.iter().filter(|source| CORE.contains(&layer(&source.file))).collect();
    assert!(core.len() > 10, "the core is gone");
    for (source, line) in core.iter().flat_map(|source| source.code.lines().map(move |line| (source, line))) {
        assert_eq!(SHELL.iter().find(|name| line.contains(*name)), None, "{}: {line}", source.file);
    }
}

#[test]
fn the_ring_and_unsafe_code_stand_in_few_files() {
    for Source { file, code, .. } in &sources() {
        assert!(file == "server/transport/uring.rs" || !code.contains("io_uring::"), "{file} names the ring");
        let has_unsafe = code.contains("unsafe {") || code.contains("unsafe fn");
        assert!(file.starts_with("bus/ffi/") || file == "sys/process.rs" || !has_unsafe, "{file} has unsafe code");
    }
}

/// A name means one thing in the whole tree, private types included; not those of associated types.
#[test]
fn no_two_types_have_the_same_name() {
    let sources = sources();
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (source, line) in sources.iter().flat_map(|source| source.code.lines().map(move |line| (source, line))) {
        let item = line.strip_prefix("pub").and_then(|rest| rest.split_once(' ')).map_or(line, |(_, item)| item);
        let types = ["struct ", "enum ", "trait ", "type "];
        let Some(rest) = types.iter().find_map(|keyword| item.strip_prefix(keyword)) else { continue };
        let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let other = seen.insert(name, &source.file);
        assert_eq!(other, None, "{} has a type of the same name: {name}", source.file);
    }
}

/// What two test programs need is in `tests/support`.
#[test]
fn no_test_program_includes_a_file_of_another() {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")).unwrap() {
        let code = fs::read_to_string(entry.unwrap().path().join("main.rs")).unwrap_or_default();
        for included in code.split("#[path = \"").skip(1) {
            assert!(included.starts_with("../support/"), "{included}");
        }
    }
}
