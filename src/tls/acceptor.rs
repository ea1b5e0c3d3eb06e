//! The server's side of TLS, and the identity that new connections get.

use std::sync::{Arc, PoisonError, RwLock};
use std::{error, fmt};

use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};

use super::certificate::Identity;
use super::session::Session;

/// The protocols of a connection, best first (RFC 7301). A client that offers others alone, such as h2, is refused
/// with `no_application_protocol`; one that offers none speaks HTTP/1.1. What curl offers with `--http1.0` is the second.
const PROTOCOLS: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// Begins connections. Shared by the workers.
pub struct Acceptor {
    serving: RwLock<Serving>,
}

struct Serving {
    identity: Identity,
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// Begins connections as `identity`.
    ///
    /// # Errors
    /// [`TlsUnavailable`], where the system gives no random bytes.
    pub fn new(identity: Identity) -> Result<Self, TlsUnavailable> {
        let config = configure(&identity)?;
        Ok(Self { serving: RwLock::new(Serving { identity, config }) })
    }

    /// Begins connections as `identity` from now on; those that are there keep theirs. Whether that is news. Where it
    /// is, no session of before can be resumed: its client would never see the new certificate.
    ///
    /// # Errors
    /// [`TlsUnavailable`], as of [`Acceptor::new`]; nothing changes.
    pub fn replace(&self, identity: Identity) -> Result<bool, TlsUnavailable> {
        if self.serving.read().unwrap_or_else(PoisonError::into_inner).identity == identity {
            return Ok(false);
        }
        let config = configure(&identity)?;
        *self.serving.write().unwrap_or_else(PoisonError::into_inner) = Serving { identity, config };
        Ok(true)
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// [`TlsUnavailable`], where the system gives no random bytes.
    pub fn accept(&self) -> Result<Session, TlsUnavailable> {
        let config = Arc::clone(&self.serving.read().unwrap_or_else(PoisonError::into_inner).config);
        Session::new(config).map_err(TlsUnavailable)
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

/// TLS 1.3 (RFC 8446) and 1.2 (RFC 5246), with the cipher suites and groups that rustls has by default: every one of
/// them has forward secrecy and authenticated encryption. Early data is off, as replays would publish twice.
fn configure(identity: &Identity) -> Result<Arc<ServerConfig>, TlsUnavailable> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(TlsUnavailable)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified_key())));
    config.alpn_protocols = PROTOCOLS.map(Vec::from).into();
    config.max_early_data_size = 0;
    // Sessions are resumed by tickets (RFC 5077, RFC 8446 §4.6.1), whose keys rotate every six hours: what a client may
    // come back with is kept by the client.
    config.ticketer = ring::Ticketer::new().map_err(TlsUnavailable)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// TLS cannot be served: the system gives no random bytes, say.
#[derive(Debug)]
pub struct TlsUnavailable(rustls::Error);

impl fmt::Display for TlsUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS is unavailable: {}", self.0)
    }
}

impl error::Error for TlsUnavailable {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.0)
    }
}
