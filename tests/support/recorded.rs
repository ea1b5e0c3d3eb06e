//! The connections of `tests/data`: below `## NAME` stand the rule, the limits, what is sent, and the outcome.

use super::written;
use super::*;

/// The texts of the connections that are accepted and of those that are refused.
pub(crate) const FOLDERS: [&str; 2] = ["accept", "reject"];

pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// The rule, the limits that differ from the defaults, and what is sent, in lines.
    pub(crate) preamble: String,
    /// The answers, and how the connection ends, in lines.
    pub(crate) outcome: String,
}

fn path(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{folder}.expect"))
}

impl Recorded {
    /// Returns the connections of a text, in the order of their names.
    pub(crate) fn all(folder: &str) -> Vec<Self> {
        let text = fs::read_to_string(path(folder)).unwrap();
        let cases: Vec<_> = written::sections(&text).map(|(name, text)| Self::read(name, text)).collect();
        let is_sorted = cases.is_sorted_by(|one, next| one.name < next.name);
        assert!(is_sorted, "tests/data/{folder}.expect: put the names into the order of the alphabet, each once");
        cases
    }

    pub(crate) fn read(name: &str, text: &str) -> Self {
        let is_preamble = |line: &&str| ["# ", "with ", "> "].iter().any(|begin| line.starts_with(begin));
        let preamble_bytes = text.split_inclusive('\n').take_while(is_preamble).map(str::len).sum();
        let (preamble, outcome) = text.split_at(preamble_bytes);
        let missing = "begin with `## NAME`, then a line with `# ` and the rule, and lines with `> ` and what is sent";
        assert!(preamble.starts_with("# ") && preamble.contains("\n> "), "tests/data, {name}: {missing}");
        let outcome = format!("{}\n", outcome.trim_end());
        Self { name: name.to_owned(), bytes: written::bytes(text), preamble: preamble.to_owned(), outcome }
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
        fs::write(path(folder), texts.join("\n")).unwrap();
    }
}
