//! The connections of `tests/data`: `FOLDER/NAME.http` holds the bytes that a client sends. What is under `## NAME` in
//! `FOLDER.expect` is the rule, the limits and the outcome.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of connections that are accepted and of those that are refused.
pub(crate) const FOLDERS: [&str; 2] = ["accept", "reject"];

pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// The rule, and the limits that differ from the defaults, in lines.
    pub(crate) preamble: String,
    /// The answers, and how the connection ends, in lines.
    pub(crate) outcome: String,
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

impl Recorded {
    /// Returns the connections of a folder, in the order of their names. Each file has its text, and the reverse.
    pub(crate) fn all(folder: &str) -> Vec<Self> {
        let texts = fs::read_to_string(path(&format!("{folder}.expect"))).unwrap();
        let cases: Vec<_> = format!("\n{texts}").split("\n## ").skip(1).map(|text| Self::read(folder, text)).collect();
        let files = fs::read_dir(path(folder)).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<_> = files.map(|file| file.trim_end_matches(".http").to_owned()).collect();
        files.sort();
        let named: Vec<_> = cases.iter().map(|it| it.name.clone()).collect();
        assert_eq!(files, named, "{folder}.expect has other names: begin with `## NAME`, and then `# ` and a rule");
        cases
    }

    fn read(folder: &str, text: &str) -> Self {
        let (name, text) = text.trim_end().split_once('\n').unwrap_or((text, ""));
        let lines = text.split_inclusive('\n').take_while(|line| line.starts_with("# ") || line.starts_with("with "));
        let (preamble, outcome) = text.split_at(lines.map(str::len).sum());
        assert!(preamble.starts_with("# "), "{folder}.expect names no rule for {name}");
        let bytes = fs::read(path(&format!("{folder}/{name}.http"))).unwrap();
        Self { name: name.to_owned(), bytes, preamble: preamble.to_owned(), outcome: format!("{outcome}\n") }
    }

    /// Returns the limits that differ from the defaults: the name and the value of each.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&str, &str)> {
        let limits = self.preamble.lines().filter_map(|line| line.strip_prefix("with "));
        limits.map(|limit| limit.split_once(' ').unwrap_or((limit, "")))
    }

    pub(crate) fn write(folder: &str, connections: &[Self]) {
        let mut texts = String::new();
        for Self { name, preamble, outcome, .. } in connections {
            let between = if texts.is_empty() { "" } else { "\n" };
            write!(texts, "{between}## {name}\n{preamble}{outcome}").unwrap();
        }
        fs::write(path(&format!("{folder}.expect")), texts).unwrap();
    }
}
