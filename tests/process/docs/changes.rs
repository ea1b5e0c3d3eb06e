//! Three tables of `docs/design.md`: the one that says which files a change touches names every file in which its
//! example stands, and what the way and the byways of a message name exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::document::{Document, files_at, quoted, repository};

/// Where a file that names an example must stand in the table.
const SEARCHED: [&str; 7] = [
    "src",
    "python/adapter_gateway",
    "packaging/completions",
    "packaging/man",
    "docs/reference.md",
    "docs/openapi.yaml",
    "tests/support",
];

#[test]
fn the_table_of_changes_names_every_file_of_its_examples() {
    let design = Document::read("docs/design.md");
    let mut examples = 0;
    for row in design.table("changes") {
        let named: Vec<&str> = row[1..].iter().flat_map(|cell| quoted(cell)).collect();
        for path in &named {
            assert!(repository(path).exists(), "{}: there is no {path}", row[0]);
        }
        let Some(example) = quoted(row[0]).next() else { continue };
        examples += 1;
        let files: Vec<_> = SEARCHED.iter().flat_map(|path| files_with(&plain(example), path)).collect();
        let missing: Vec<_> = files.iter().filter(|file| !named.iter().any(|name| stands_under(file, name))).collect();
        assert!(missing.is_empty(), "{}: {missing:?} are not named", row[0]);
        assert!(files.len() > 1, "{example} stands nowhere");
    }
    assert_eq!(examples, 4);
}

/// The most files on the way of a message.
const FILES: usize = 25;

#[test]
fn the_way_of_a_message_names_what_exists() {
    let design = Document::read("docs/design.md");
    let way = design.table("way");
    assert!(way.len() > 10);
    let files: BTreeSet<_> = way.iter().flat_map(|row| quoted(row[1])).filter(|name| name.ends_with(".rs")).collect();
    assert!(files.len() <= FILES, "the way of a message has {} files", files.len());
    for row in way.iter().chain(&design.table("byways")) {
        let mut source = String::new();
        for name in quoted(row[1]) {
            let path = repository(&format!("src/{name}"));
            if name.ends_with(".rs") {
                source = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
            } else if name.contains('/') {
                assert!(path.is_dir(), "there is no {name}");
            } else {
                // The type of a function stands behind `struct`, or behind `impl` with what it is generic over.
                let code = source.replace("->", "");
                let words = code.split(|c: char| !c.is_alphanumeric() && !"_>".contains(c)).filter(|it| !it.is_empty());
                let words: Vec<_> = words.collect();
                let defines =
                    |before: &str| matches!(before, "fn" | "struct" | "impl" | "for") || before.ends_with('>');
                let is_there = |word| words.windows(2).any(|pair| pair[1] == word && defines(pair[0]));
                assert!(name.split("::").all(is_there), "there is no {name}");
            }
        }
    }
}

/// Returns whether `file` is the path `name`, or in the folder of that name.
fn stands_under(file: &str, name: &str) -> bool {
    Path::new(file).starts_with(name)
}

/// Returns the files at or below `path` that name the example, except tests in a folder of their own.
fn files_with(example: &str, path: &str) -> Vec<String> {
    let is_left_out = |below: &Path| below.iter().any(|part| part == "tests" || part == "__pycache__");
    let mut files = files_at(&repository(path));
    files.retain(|file| !is_left_out(file.strip_prefix(repository(path)).unwrap()));
    files.retain(|file| plain(&fs::read_to_string(file).unwrap()).contains(example));
    files.iter().map(|file| file.strip_prefix(repository("")).unwrap().display().to_string()).collect()
}

/// Returns the text in lower case, without what separates the words of a name: `--idle-timeout` is `IDLE_TIMEOUT`.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | '_' | '\\')).map(|c| c.to_ascii_lowercase()).collect()
}
