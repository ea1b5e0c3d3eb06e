//! Begins sessions, with the certificate that is in use at the moment.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::SupportedCipherSuite;
use rustls::crypto::hash::HashAlgorithm;
use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};

use super::session::Session;

/// The application protocols, the preferred one first (RFC 7301). A client that offers only others, such as h2, is
/// refused with `no_application_protocol`. A client that offers none speaks HTTP/1.1. `curl --http1.0` offers the second.
const PROTOCOLS: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// Begins sessions. The workers share it.
pub struct Acceptor {
    served: RwLock<ServedIdentity>,
}

struct ServedIdentity {
    identity: Arc<CertifiedKey>,
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// Creates an acceptor that presents `identity`.
    ///
    /// # Errors
    /// [`rustls::Error`], where the system gives no random bytes.
    pub fn new(identity: Arc<CertifiedKey>) -> Result<Self, rustls::Error> {
        let config = configure(&identity)?;
        Ok(Self { served: RwLock::new(ServedIdentity { identity, config }) })
    }

    /// Presents `identity` to new connections and returns whether it differs from the one before. Existing connections
    /// keep theirs. Sessions from before cannot be resumed with a new identity, since their clients would never see it.
    ///
    /// # Errors
    /// [`rustls::Error`], as for [`Acceptor::new`]. The identity then stays as it was.
    pub fn replace(&self, identity: Arc<CertifiedKey>) -> Result<bool, rustls::Error> {
        if self.served.read().unwrap_or_else(PoisonError::into_inner).identity.cert == identity.cert {
            return Ok(false);
        }
        let config = configure(&identity)?;
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = ServedIdentity { identity, config };
        Ok(true)
    }

    /// Begins the session of a new connection.
    ///
    /// # Errors
    /// [`rustls::Error`], where the system gives no random bytes.
    pub fn accept(&self) -> Result<Session, rustls::Error> {
        let config = Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner).config);
        Session::new(config)
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

/// Configures TLS 1.3 (RFC 8446) and 1.2 (RFC 5246) with the cipher suites and groups that rustls has by default. All of
/// them have forward secrecy and authenticated encryption. Early data is off, since a replay would publish twice.
fn configure(identity: &Arc<CertifiedKey>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut provider = ring::default_provider();
    // Processors have instructions for SHA-256, and most have none for SHA-384. A handshake hashes more than it encrypts.
    provider.cipher_suites.sort_by_key(|&suite| hash_of(suite) != HashAlgorithm::SHA256);
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(identity))));
    config.ignore_client_order = true;
    config.alpn_protocols = PROTOCOLS.map(Vec::from).into();
    config.max_early_data_size = 0;
    // Sessions are resumed by tickets (RFC 5077, RFC 8446 §4.6.1), so that the clients and not the gateway store them.
    // The keys of the tickets rotate every six hours.
    // One ticket for each connection: a client that uses a ticket once has the next one (RFC 8446 §C.4). The two of the
    // default would cost three system calls and an encryption more.
    config.send_tls13_tickets = 1;
    config.ticketer = ring::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

fn hash_of(suite: SupportedCipherSuite) -> HashAlgorithm {
    match suite {
        SupportedCipherSuite::Tls12(suite) => suite.common.hash_provider.algorithm(),
        SupportedCipherSuite::Tls13(suite) => suite.common.hash_provider.algorithm(),
    }
}
