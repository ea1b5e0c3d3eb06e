//! The connections of `tests/data`: `FOLDER/NAME.http` holds the bytes that a client sends. What is under `## NAME` in
//! `FOLDER.expect` is the rule, the limits and the outcome.

use std::fs;
use std::path::{Path, PathBuf};

use super::compare::assert_same_set;

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
        let what = format!("tests/data/{folder}.expect: begin with `## NAME`, and then a line with `# ` and the rule");
        assert_same_set(what, &named, &files);
        assert!(named.is_sorted(), "tests/data/{folder}.expect has its names in another order than the alphabet's");
        cases
    }

    pub(crate) fn read(folder: &str, text: &str) -> Self {
        let text = format!("{}\n", text.trim_end());
        let (name, text) = text.split_once('\n').unwrap();
        let lines = text.split_inclusive('\n').take_while(|line| line.starts_with("# ") || line.starts_with("with "));
        let (preamble, outcome) = text.split_at(lines.map(str::len).sum());
        assert!(preamble.starts_with("# "), "{folder}.expect names no rule for {name}");
        let bytes = fs::read(path(&format!("{folder}/{name}.http"))).unwrap();
        Self { name: name.to_owned(), bytes, preamble: preamble.to_owned(), outcome: outcome.to_owned() }
    }

    /// Returns the limits that differ from the defaults: the name and the value of each.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&str, &str)> {
        let limits = self.preamble.lines().filter_map(|line| line.strip_prefix("with "));
        limits.map(|limit| limit.split_once(' ').unwrap_or((limit, "")))
    }

    pub(crate) fn text(&self) -> String {
        format!("## {}\n{}{}", self.name, self.preamble, self.outcome)
    }

    pub(crate) fn write(folder: &str, connections: &[Self]) {
        let texts: Vec<_> = connections.iter().map(Self::text).collect();
        fs::write(path(&format!("{folder}.expect")), texts.join("\n")).unwrap();
    }
}
