//! The contract's table of statuses over plain http, row by row and in its order.

mod bodies;
mod connections;
mod cors;
mod expectations;
mod framing;
mod limits;
mod messages;
mod precedence;
mod refusals;
mod timeouts;
mod token;
mod unavailable;

/// A message that passes every check.
pub(crate) const FINE: &str = r#"{"topic":"t","payload":{}}"#;
