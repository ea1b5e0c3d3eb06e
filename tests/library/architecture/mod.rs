//! The invariants of the crate's docs that its sources can show: which layer may import which, that no two files import
//! each other, and what the core must not name.
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use imports::{Crate, Import};

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
    let wrong = Crate::read().imports().into_iter().filter(|Import { from, to }| {
        let (upper, lower) = (layer(from), layer(to));
        upper != lower && upper != "lib" && !is_below(lower, upper)
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "against the arrows: {wrong:#?}");
}

/// Files and folders that stand side by side: a folder imports what any file in it imports.
#[test]
fn no_files_or_folders_import_each_other_in_a_circle() {
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for Import { from, to } in Crate::read().imports() {
        let shared = from.split('/').zip(to.split('/')).take_while(|(one, other)| one == other).count();
        let entry = |file: &str| file.split('/').nth(shared).unwrap_or_default().to_owned();
        let folder: Vec<_> = from.split('/').take(shared).collect();
        graphs.entry(folder.join("/")).or_default().entry(entry(&from)).or_default().insert(entry(&to));
    }
    let circles: Vec<_> = graphs.iter().flat_map(|(folder, graph)| circles(folder, graph)).collect();
    assert!(circles.is_empty(), "in circles: {circles:#?}");
}

/// What each entry of a folder imports of the others.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The entries that an entry imports, directly or through others.
fn reachable(graph: &Graph, from: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(entry) = open.pop() {
        for next in graph.get(&entry).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    seen
}

/// The imports that are part of a circle.
fn circles(folder: &str, graph: &Graph) -> Vec<String> {
    let imports = graph.iter().flat_map(|(from, targets)| targets.iter().map(move |to| (from, to)));
    let back = imports.filter(|(from, to)| reachable(graph, to).contains(*from));
    back.map(|(from, to)| format!("{folder}/: {from} -> {to}")).collect()
}

#[test]
fn the_core_does_no_io_and_knows_no_clock() {
    let sources = Crate::read().sources;
    let core: Vec<_> = sources.iter().filter(|source| CORE.contains(&layer(&source.file))).collect();
    assert!(core.len() > 10, "the core is gone");
    for source in core {
        for line in source.code.lines() {
            let named = SHELL.iter().find(|name| line.contains(*name));
            assert_eq!(named, None, "{}: {line}", source.file);
        }
    }
}

#[test]
fn the_ring_is_named_in_one_file() {
    for source in Crate::read().sources.iter().filter(|source| source.file != "server/transport/uring.rs") {
        assert!(!source.code.contains("io_uring::"), "{} names it", source.file);
    }
}

#[test]
fn unsafe_code_stands_in_one_folder_and_one_file() {
    let is_allowed = |file: &str| file.starts_with("bus/ffi/") || file == "sys/process.rs";
    for source in Crate::read().sources.iter().filter(|source| !is_allowed(&source.file)) {
        let has_unsafe = source.code.contains("unsafe {") || source.code.contains("unsafe fn");
        assert!(!has_unsafe, "{}", source.file);
    }
}

/// A name means one thing in the whole tree, private types included.
#[test]
fn no_two_types_have_the_same_name() {
    let sources = Crate::read().sources;
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in &sources {
        for name in type_names(&source.code) {
            files.entry(name).or_default().push(&source.file);
        }
    }
    files.retain(|_, files| files.len() > 1);
    assert!(files.is_empty(), "more than one type has such a name: {files:#?}");
}

/// The names of the types and traits that a source defines; not those of associated types.
fn type_names(code: &str) -> impl Iterator<Item = &str> {
    let items = code.lines().filter_map(|line| {
        let item = match line.strip_prefix("pub") {
            Some(rest) => rest.split_once(' ').map_or(rest, |(_, item)| item),
            None => line,
        };
        ["struct ", "enum ", "trait ", "type "].iter().find_map(|keyword| item.strip_prefix(keyword))
    });
    items.filter_map(|item| item.split(|c: char| !c.is_alphanumeric()).next())
}

/// What two test programs need is in `tests/support`. `process_epoll` is the program `process` once more.
#[test]
fn no_test_program_includes_a_file_of_another() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let entries = std::fs::read_dir(&tests).unwrap().map(|entry| entry.unwrap().path());
    let roots = entries.map(|path| if path.is_dir() { path.join("main.rs") } else { path });
    for root in roots.filter(|path| path.is_file() && !path.ends_with("process_epoll.rs")) {
        let code = std::fs::read_to_string(&root).unwrap_or_default();
        for included in code.split("#[path = \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let folder = root.with_file_name(included).with_file_name("main.rs");
            assert!(!folder.exists(), "{} includes {included}", root.display());
        }
    }
}
