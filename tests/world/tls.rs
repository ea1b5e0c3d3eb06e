//! TLS, as the clients of some worlds speak it.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use adapter_gateway::tls::session::Acceptor;
use adapter_gateway::tls::source::CertificateSource;
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::client::Resumption;
use rustls::{ALL_VERSIONS, ClientConfig};

use crate::support::tls::{TlsClient, trusting};

const HOST: &str = "gateway";

/// What the gateways and the clients of all worlds share. The signatures of the key have one length, so that a seed
/// decides on the lengths of all records.
struct Shared {
    acceptor: Arc<Acceptor>,
    client: Arc<ClientConfig>,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("certificate.pem"), directory.path().join("key.pem"));
        let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let signed = CertificateParams::new(vec![HOST.to_owned()]).unwrap().self_signed(&pair).unwrap();
        std::fs::write(&certificate, signed.pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        let loaded = CertificateSource::Files { certificate, key }.load(SystemTime::now()).unwrap();
        let mut client = trusting([signed.der().clone()], ALL_VERSIONS);
        client.resumption = Resumption::disabled();
        Shared { acceptor: Arc::new(Acceptor::new(loaded.identity).unwrap()), client: Arc::new(client) }
    })
}

/// Returns what begins the sessions of the gateway.
pub(crate) fn acceptor() -> Arc<Acceptor> {
    Arc::clone(&shared().acceptor)
}

pub(crate) fn session() -> TlsClient {
    TlsClient::new(&shared().client, HOST)
}
