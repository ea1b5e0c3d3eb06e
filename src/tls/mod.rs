//! TLS and certificates, without sockets: a session takes bytes and gives bytes.
//!
//! | file | what it does |
//! |---|---|
//! | `source` | loads the certificate from where the options say it is; keeps and renews the pair of the gateway |
//! | `issue` | makes such a pair |
//! | `certificate` | reads a certificate chain and its key from PEM files, and checks them |
//! | `files` | reads and writes the files of certificates and keys |
//! | `session` | begins sessions with the certificate of the moment; is one connection in TLS; recognises plain http |
//!
//! Invariants: only `files` touches the file system, nothing touches a socket, and the clock is a parameter wherever the
//! validity of a certificate counts. No type shows a private key in its `Debug` or `Display` form. A new certificate
//! drops no connection.

pub mod certificate;
mod files;
mod issue;
pub mod session;
pub mod source;
#[cfg(test)]
mod tests;
