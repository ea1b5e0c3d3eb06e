//! The way from the document to where a walk stands.

use std::borrow::Cow;

use super::Pointer;
use super::quoted::Quoted;

/// One step for each container that is open. As a walk follows no further than to its first fault, there are never
/// more than [`MAX_DEPTH`](super::MAX_DEPTH).
#[derive(Default)]
pub(super) struct Trail<'b>(Vec<Step<'b>>);

#[derive(Clone, Copy)]
enum Step<'b> {
    /// In the container, at none of its values.
    Within,
    /// At the member with this key.
    Member(Quoted<'b>),
    /// At the element with this index.
    Element(usize),
}

impl<'b> Trail<'b> {
    pub(super) fn enter(&mut self) {
        self.0.push(Step::Within);
    }

    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    pub(super) fn next_element(&mut self) {
        if let Some(step) = self.0.last_mut() {
            *step = Step::Element(if let Step::Element(index) = *step { index + 1 } else { 0 });
        }
    }

    pub(super) fn enter_member(&mut self, key: Quoted<'b>) {
        if let Some(step) = self.0.last_mut() {
            *step = Step::Member(key);
        }
    }

    pub(super) fn leave_member(&mut self) {
        if let Some(step) = self.0.last_mut() {
            *step = Step::Within;
        }
    }

    /// The pointer to the value at hand, or to the container where there is none.
    pub(super) fn pointer(&self) -> Pointer {
        Pointer::to(self.0.iter().filter_map(|step| match step {
            Step::Within => None,
            Step::Member(key) => Some(key.decode()),
            Step::Element(index) => Some(Cow::Owned(index.to_string())),
        }))
    }
}
