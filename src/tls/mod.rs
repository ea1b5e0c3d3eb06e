//! TLS and certificates, without sockets: a session takes bytes and gives bytes.
//!
//! Invariants: the clock is a parameter wherever the validity of a certificate counts. No type shows a private key in
//! its `Debug` or `Display` form. A new certificate drops no connection.

pub mod certificate;
mod issue;
pub mod session;
pub mod source;
#[cfg(test)]
mod tests;
