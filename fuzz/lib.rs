//! The properties of all targets, which are compiled once.

#[path = "../tests/library/properties/mod.rs"]
mod properties;

/// Panics if the input breaks the property of this target.
pub fn run(target: &str, input: &[u8]) {
    let property = properties::ALL.into_iter().find(|(name, _)| *name == target);
    property.expect("each target has a property").1(input);
}
