//! The invariants of the crate's docs that its sources can show: which layer may import which, that no two files import
//! each other, and what the core must not name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Returns the layers, and those that each may import beside itself, as the documentation of the crate lists them. What
/// these may import, it may import too.
fn arrows() -> BTreeMap<&'static str, Vec<&'static str>> {
    let rows =
        include_str!("../../src/lib.rs").lines().filter_map(|line| line.strip_prefix("//! | ")?.split_once(" | "));
    let words = |cell: &'static str| cell.split('`').skip(1).step_by(2);
    let rows = rows.filter_map(|(layer, rest)| Some((words(layer).next()?, rest.split_once('|')?.0)));
    rows.map(|(layer, imports)| (layer, words(imports).collect())).collect()
}

/// The layer that a file belongs to: its folder, or itself.
fn layer(file: &str) -> &str {
    file.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

/// Returns whether an arrow, or several one after the other, lead from one layer to another.
fn is_below(lower: &str, upper: &str, arrows: &BTreeMap<&str, Vec<&str>>) -> bool {
    arrows.get(upper).into_iter().flatten().any(|next| *next == lower || is_below(lower, next, arrows))
}

#[test]
fn imports_go_one_way() {
    let arrows = arrows();
    assert!(arrows.len() > 10, "the list of layers is gone");
    for (from, to) in imports(&sources()) {
        let (upper, lower) = (layer(&from), layer(&to));
        let may_import = upper == lower || upper == "lib" || is_below(lower, upper, &arrows);
        let rule = format!("by the table of src/lib.rs, {upper} may not import {lower}; move what it needs below both");
        assert!(may_import, "src/{from} names {to}: {rule}");
    }
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
        assert!(!seen.contains(entry), "{entry} is in a circle, some of {seen:?}: give what they share a file below");
    }
}

/// What only some files may name: the layers that are looked at, or all; the words; the files that may name them; and why.
const NAMED_IN_FEW_FILES: [[&str; 4]; 5] = [
    [
        "http message zmtp sync terms",
        "tokio, zmq, rustls, rustix, std::net, std::thread, Instant, std::fs, std::io, SystemTime::now, waker",
        "",
        "the core has no I/O and no clock; let its caller pass this in",
    ],
    ["", "io_uring::", "server/transport/uring.rs", "the ring has one place"],
    ["", "unsafe {, unsafe fn", "bus/ffi/ sys/process.rs", "unsafe code has few places"],
    // Files, folders and locks may hold a thread up for as long as they like. So the main thread asks nobody of these: a
    // thread of its own does, or the thread that starts or stops the bus, which also reads the range of ports.
    [
        "",
        "std::fs, rustix::fs, flock(",
        "sys/advice.rs sys/draft.rs sys/host.rs sys/process.rs sys/retry.rs sys/secret_file.rs sys/listener.rs \
         sys/watch.rs settings/file.rs tls/source.rs commands/",
        "whoever touches files may be held up",
    ],
    [
        "gateway",
        "settings::read, secret_file, sys::watch, UnixListener::open, Listening::bind, source.load",
        "gateway/certificates.rs gateway/files.rs gateway/follower.rs gateway/watched_settings.rs",
        "whoever waits for files may be held up",
    ],
];

#[test]
fn io_clocks_the_ring_and_unsafe_code_stand_in_few_files() {
    let sources = sources();
    for [layers, words, may_name, why] in NAMED_IN_FEW_FILES {
        let is_in = |source: &&Source| layers.is_empty() || layers.split(' ').any(|it| it == layer(&source.file));
        let looked_at: Vec<_> = sources.iter().filter(is_in).collect();
        assert!(looked_at.len() > 10, "{layers} is gone");
        for source in looked_at {
            let file = &source.file;
            let may_name_it = may_name.split_whitespace().any(|allowed| file.starts_with(allowed));
            let named = source.named(words).filter(|_| !may_name_it);
            assert_eq!(named, None, "src/{file}: {why}; move it to one of [{may_name}]");
        }
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
        assert_eq!(other, None, "src/{} has a type of the same name: rename {name}", source.file);
    }
}

/// What two test programs need is in `tests/support`.
#[test]
fn no_test_program_includes_a_file_of_another() {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")).unwrap() {
        let code = fs::read_to_string(entry.unwrap().path().join("main.rs")).unwrap_or_default();
        assert!(code.split("#[path = \"").skip(1).all(|included| included.starts_with("../support/")), "{code}");
    }
}

/// A source file of the crate that is not compiled for tests alone.
struct Source {
    file: String,
    /// The path of the module without `crate`: `http::h1::head`.
    module: String,
    /// The code: no comments, no unit tests.
    code: String,
}

fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let is_test = |part: &OsStr| part == "tests" || part == "tests.rs" || part == "models.rs";
    let (mut sources, mut open) = (Vec::new(), vec![src.clone()]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if !path.strip_prefix(&src).unwrap().iter().any(is_test) {
            sources.push(Source::read(&src, &path));
        }
    }
    sources
}

/// Returns every import: the file that names an item, and the file that has it. That is not the file that re-exports
/// the item, so that a `mod.rs` of declarations and re-exports is no part of a circle.
fn imports(sources: &[Source]) -> BTreeSet<(String, String)> {
    let files: BTreeMap<_, _> = sources.iter().map(|source| (source.module.as_str(), source.file.as_str())).collect();
    let paths = |source| Source::paths(source).into_iter().map(move |(is_public, path)| (source, is_public, path));
    let named: Vec<_> = sources.iter().flat_map(paths).collect();
    let is_reexport = |source: &Source, path| resolve(path, &files, &BTreeMap::new()) != source.file;
    let reexports = named.iter().filter(|(source, is_public, path)| *is_public && is_reexport(source, path));
    let reexports: BTreeMap<_, _> =
        reexports.map(|(source, _, path)| (format!("{}::{}", source.module, name(path)), path.as_str())).collect();
    // What a file re-exports counts where its own code names it too, beside a declaration of a module.
    let is_used = |source: &Source, name: &str| {
        let words = source.code.split(|c| !is_word(c)).filter(|word| *word == name).count();
        words > 1 + usize::from(source.code.contains(&format!("mod {name};\n")))
    };
    let named = named.iter().filter(|(source, is_public, path)| !is_public || is_used(source, name(path)));
    let imports = named.map(|(source, _, path)| (source.file.clone(), resolve(path, &files, &reexports).to_owned()));
    imports.filter(|(from, to)| from != to).collect()
}

/// Returns the file that has what a path leads to, through re-exports.
fn resolve<'a>(path: &str, files: &BTreeMap<&str, &'a str>, reexports: &BTreeMap<String, &str>) -> &'a str {
    let mut prefixes = std::iter::successors(Some(path), |path| path.rsplit_once("::").map(|(parent, _)| parent));
    let found = prefixes.find_map(|prefix| match reexports.get(prefix) {
        Some(origin) if *origin != path => Some(resolve(origin, files, reexports)),
        _ => files.get(prefix).copied(),
    });
    found.unwrap_or("lib.rs")
}

impl Source {
    fn read(src: &Path, path: &Path) -> Self {
        let file = path.strip_prefix(src).unwrap().to_string_lossy().into_owned();
        let stem = file.trim_end_matches(".rs").trim_end_matches("mod").trim_end_matches('/');
        let module = if stem == "lib" { String::new() } else { stem.replace('/', "::") };
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<_> = code.lines().filter_map(|line| line.split("//").next()).map(str::trim_end).collect();
        Self { code: lines.join("\n"), file, module }
    }

    /// Returns the first of these words that stands in the code or, where an import has several names, in a path of it.
    fn named<'a>(&self, words: &'a str) -> Option<&'a str> {
        let paths = self.paths();
        let is_named = |word: &&str| self.code.contains(word) || paths.iter().any(|(_, path)| path.contains(word));
        words.split(", ").find(is_named)
    }

    /// Returns the absolute paths that the file names, and whether it re-exports each.
    fn paths(&self) -> Vec<(bool, String)> {
        let mut paths = Vec::new();
        for statement in self.code.split(';') {
            let (before, tree) = statement.rsplit_once("use ").unwrap_or((statement, ""));
            let (above, visibility) = before.rsplit_once('\n').unwrap_or(("", before));
            let is_public = visibility.trim_start().starts_with("pub");
            let is_use = !tree.is_empty() && (is_public || visibility.trim().is_empty());
            if is_use {
                let (prefix, names) = tree.split_once('{').unwrap_or(("", tree));
                let names = names.trim_end_matches('}').split(',').map(str::trim).filter(|name| !name.is_empty());
                paths.extend(names.map(|name| (is_public, self.absolute(&format!("{prefix}{name}")))));
            }
            let code = if is_use { above } else { statement };
            let inline = code.split(|c: char| !is_word(c) && c != ':').filter(|word| word.contains("::"));
            paths.extend(inline.map(|path| (false, self.absolute(path))));
        }
        paths
    }

    /// Returns the path from the root of the crate. An item of another crate seems to be in the file itself.
    fn absolute(&self, path: &str) -> String {
        let mut absolute: Vec<_> = self.module.split("::").filter(|segment| !segment.is_empty()).collect();
        for segment in path.split(" as ").take(1).flat_map(|path| path.split("::")) {
            match segment.trim() {
                "crate" | "adapter_gateway" => absolute.clear(),
                "super" => drop(absolute.pop()),
                "self" | "" => {}
                name => absolute.push(name),
            }
        }
        absolute.join("::")
    }
}

fn name(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or_default()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
