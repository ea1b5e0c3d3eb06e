//! Tests of the parts together, with real clients.
