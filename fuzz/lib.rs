//! The properties of all targets, which are compiled once.

#[path = "../tests/library/properties/mod.rs"]
mod properties;
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
#[path = "../tests/support"]
mod support {
    pub(crate) mod answer;
    pub(crate) mod compare;
    pub(crate) mod topics;
    pub(crate) mod zmtp;
}

/// Panics if the input breaks the property of this target.
pub fn run(target: &str, input: &[u8]) {
    let property = properties::ALL.into_iter().find(|(name, _)| *name == target);
    property.expect("each target has a property").1(input);
}
