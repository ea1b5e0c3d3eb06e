//! What must hold of the core, whatever it is given: one function for each fuzz target, and the means to drive a
//! connection without I/O.
//!
//! Included by path: by the fuzz targets, by the test that replays their corpora on stable, and by the tests of
//! requests. No part of the crate depends on it.

#![allow(dead_code, reason = "each of those uses a part of it")]

pub(crate) mod answers;
pub(crate) mod connection;
pub(crate) mod gate;
