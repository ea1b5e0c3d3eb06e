//! The table of messages of the specification's section 4, in its older and newer version, as the tests know it. It is
//! written independently of `src/message/topics.rs`, with which a unit test compares it. Every test that needs a
//! message of each topic draws from this table, so that a new row is tested everywhere.

use std::sync::LazyLock;

pub(crate) struct Topic {
    pub(crate) topic: &'static str,
    /// The fields that name the sender or the target. One of them is enough, and the first one that is given counts.
    pub(crate) identifiers: Vec<&'static str>,
    pub(crate) content: Content,
    pub(crate) older: &'static str,
    /// The topic in the newer vocabulary. It has none to operate a node.
    pub(crate) newer: Option<&'static str>,
    pub(crate) examples: Vec<Example>,
}

/// What `content` must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Content {
    Any,
    OneOf(&'static [&'static str]),
    HomeAutomation,
}

/// A payload as a client may write it, and the same with one fault.
pub(crate) struct Example {
    /// Right, and written so that any serialisation of its values would change its bytes.
    pub(crate) payload: &'static str,
    pub(crate) faulty: &'static str,
    /// The place of the fault (RFC 6901, from the top of the body).
    pub(crate) pointer: &'static str,
}

const FIELDS: [[&str; 2]; 2] = [["node_name", "extension_name"], ["node_id", "extension_id"]];

/// The rows, as `tests/data/topics.txt` has them.
pub(crate) static TOPICS: LazyLock<Vec<Topic>> = LazyLock::new(|| {
    let rows = include_str!("../data/topics.txt").trim_start_matches("## ").split("\n\n## ");
    rows.map(Topic::read).collect()
});

impl Topic {
    fn read(row: &'static str) -> Self {
        let mut parts = row.trim_end().split("\nright: ");
        let head = parts.next().unwrap_or_default();
        let value = |name| head.lines().find_map(|line| line.strip_prefix(name));
        Self {
            topic: head.lines().next().unwrap_or_default(),
            identifiers: value("identifiers: ").into_iter().flat_map(|names| names.split(' ')).collect(),
            content: match value("content: ") {
                Some("any") => Content::Any,
                Some("switch") => Content::OneOf(&["start", "stop"]),
                Some("home automation") => Content::HomeAutomation,
                content => panic!("no content: {content:?}"),
            },
            older: value("older: ").expect("a topic in the older vocabulary"),
            newer: value("newer: "),
            examples: parts.map(Example::read).collect(),
        }
    }

    pub(crate) fn of(topic: &str) -> Option<&'static Self> {
        TOPICS.iter().find(|row| row.topic == topic)
    }

    /// Returns the topic in the newer or the older vocabulary; none if a message passes as it is.
    pub(crate) fn target(&self, is_newer: bool) -> Option<&'static str> {
        if is_newer { self.newer } else { Some(self.older) }
    }
}

impl Example {
    fn read(lines: &'static str) -> Self {
        let (payload, wrong) = lines.split_once("\nwrong at ").expect("an example that is wrong");
        let (pointer, faulty) = wrong.split_once(": ").expect("a place and an example");
        Self { payload, faulty, pointer }
    }
}

/// Returns the field that has the meaning of `field` in the newer or the older vocabulary.
pub(crate) fn field_in(field: &str, is_newer: bool) -> &str {
    let pair = FIELDS.iter().find(|pair| pair.contains(&field));
    pair.map_or(field, |pair| pair[usize::from(is_newer)])
}
