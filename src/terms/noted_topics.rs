//! Topics in the log: which ones it names, each once, and how.

use std::collections::HashSet;

/// Bytes of a topic that the log shows: a known topic has at most 27.
const SHOWN_BYTES: usize = 100;

/// Returns a topic, or the beginning of some, as the log shows it: escaped and cut.
pub fn shown_topic(topic: &str) -> String {
    let (shown, rest) = topic.split_at(topic.floor_char_boundary(SHOWN_BYTES));
    format!("{}{}", shown.escape_debug(), if rest.is_empty() { "" } else { "…" })
}

/// Whoever sends more different ones does it on purpose.
const NOTED: usize = 256;

/// Topics that are not known, or to which nobody had subscribed when a message of theirs was published.
#[derive(Debug, Default)]
pub struct NotedTopics {
    noted: HashSet<Box<[u8]>>,
    new: Vec<Box<[u8]>>,
}

impl NotedTopics {
    /// A topic is new if it was not noted before, and few were.
    pub fn is_new(&self, topic: &[u8]) -> bool {
        self.noted.len() < NOTED && !self.noted.contains(topic)
    }

    /// Notes a topic if it is new.
    pub fn note(&mut self, topic: &[u8]) {
        if self.is_new(topic) {
            self.noted.insert(topic.into());
            self.new.push(topic.into());
        }
    }

    /// Removes and returns the topics that are new.
    pub fn take_new(&mut self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_topic_is_new_once_and_those_beyond_the_bound_never() {
        let mut topics = NotedTopics::default();
        ["a", "b", "a"].iter().for_each(|topic| topics.note(topic.as_bytes()));
        assert_eq!(topics.take_new(), [Box::from(&b"a"[..]), Box::from(&b"b"[..])]);
        (0..=NOTED).for_each(|number| topics.note(&number.to_be_bytes()));
        assert_eq!(topics.take_new().len(), NOTED - 2);
    }
}
