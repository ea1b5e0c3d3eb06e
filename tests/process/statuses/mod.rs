//! The contract's table of statuses. `recorded` has a connection for each row; the others show what takes time, or a
//! part beside the core.

mod bodies;
mod connections;
mod no_hub;
mod precedence;
mod recorded;
mod token;
