//! The contract's table of statuses, over plain http, row by row and in the order of the table.

mod bodies;
mod connections;
mod cors;
mod framing;
mod limits;
mod messages;
mod precedence;
mod refusals;
mod token;

/// The body of a message that passes every check.
pub(crate) const FINE: &str = r#"{"topic":"t","payload":{}}"#;
