//! The topics that are not known, each told of once.

use std::collections::HashSet;

/// Topics that a worker remembers. Whoever invents more of them does it on purpose.
const REMEMBERED: usize = 1_024;

/// The topics of messages that are not known.
#[derive(Debug, Default)]
pub struct UnknownTopics {
    remembered: HashSet<Box<str>>,
    new: Vec<Box<str>>,
}

impl UnknownTopics {
    /// Notes a topic, which is new if it was not noted before and few were.
    pub(crate) fn note(&mut self, topic: &str) {
        if self.remembered.len() < REMEMBERED && !self.remembered.contains(topic) {
            self.remembered.insert(topic.into());
            self.new.push(topic.into());
        }
    }

    /// Removes and returns the topics that are new.
    pub fn take_new(&mut self) -> Vec<Box<str>> {
        std::mem::take(&mut self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_topic_is_new_once_and_those_beyond_the_bound_never() {
        let mut topics = UnknownTopics::default();
        for topic in ["a", "b", "a", "b"] {
            topics.note(topic);
        }
        assert_eq!(topics.take_new(), ["a".into(), "b".into()]);
        topics.note("a");
        assert!(topics.take_new().is_empty());
        for number in 0..2 * REMEMBERED {
            topics.note(&number.to_string());
        }
        assert_eq!(topics.take_new().len(), REMEMBERED - 2);
    }
}
