//! TLS: whom the client trusts, and a load of handshakes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, HandshakeKind, RootCertStore};

use crate::Failure;
use crate::load::{Load, Outcome};
use crate::measure::SMALL_BYTES;
use crate::request::Request;

/// A configuration that trusts `authority` alone.
pub(crate) fn trusting(authority_pem: &[u8]) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority_pem)?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// A connection, a handshake, one request and its answer, and again, for so long.
pub(crate) fn load(
    address: SocketAddr,
    tls: &Arc<ClientConfig>,
    resumed: bool,
    duration: Duration,
) -> Result<Outcome, Failure> {
    let mut config = ClientConfig::clone(tls);
    config.resumption = if resumed { Resumption::in_memory_sessions(8) } else { Resumption::disabled() };
    let config = Some(Arc::new(config));
    let mut request = Request::new(SMALL_BYTES, 1);
    let (start, mut requests) = (Instant::now(), 0);
    while start.elapsed() < duration {
        let mut connection = Load::connect(address, config.as_ref(), 1)?;
        // The first of all has nothing to resume.
        let wanted = if resumed && requests > 0 { HandshakeKind::Resumed } else { HandshakeKind::Full };
        if connection.handshake_kinds().any(|kind| kind != Some(wanted)) {
            return Err(format!("not a handshake that is {wanted:?}").into());
        }
        requests += connection.closed_loop(&mut request, Duration::ZERO, None)?.requests;
    }
    Ok(Outcome { requests, elapsed: start.elapsed(), delays_ns: Vec::new() })
}
