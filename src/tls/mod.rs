//! TLS without I/O: certificates, and a connection as bytes in and bytes out.
//!
//! A [`source::CertificateSource`] loads a [`certificate::Identity`]: from the files of `--tls-cert` and `--tls-key`
//! ([`certificate`]), or the pair that the gateway makes for itself ([`self_signed`]). An [`acceptor::Acceptor`] begins
//! each connection with the identity of the moment, so that a new one drops no connection. A [`session::Session`] is
//! one connection. [`plain_http`] answers those who forgot the s in https.
//!
//! Invariants: `files` alone touches the file system, nothing here touches a socket, and the clock is a parameter
//! wherever a certificate's validity counts. No type of this module shows a private key in its `Debug` or `Display` form.

pub mod acceptor;
pub mod certificate;
pub mod fault;
mod files;
mod issue;
pub mod plain_http;
mod records;
pub mod self_signed;
pub mod session;
pub mod source;
mod validity;

#[cfg(test)]
mod tests;
