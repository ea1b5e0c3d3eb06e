//! TLS, as the clients of some worlds speak it.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use adapter_gateway::tls::session::Acceptor;
use adapter_gateway::tls::source::CertificateSource;
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

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
        let mut roots = RootCertStore::empty();
        roots.add(signed.der().clone()).unwrap();
        let mut client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        Shared { acceptor: Arc::new(Acceptor::new(loaded.identity).unwrap()), client: Arc::new(client) }
    })
}

/// Returns what begins the sessions of the gateway.
pub(crate) fn acceptor() -> Arc<Acceptor> {
    Arc::clone(&shared().acceptor)
}

/// The client's side of a session.
pub(crate) struct Session(RefCell<ClientConnection>);

impl Session {
    pub(crate) fn new() -> Self {
        let mut connection = ClientConnection::new(Arc::clone(&shared().client), HOST.try_into().unwrap()).unwrap();
        connection.set_buffer_limit(None);
        Self(RefCell::new(connection))
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.borrow().is_handshaking()
    }

    /// Returns the records of this plaintext, behind what else is to be sent.
    pub(crate) fn records(&self, plaintext: &[u8]) -> Vec<u8> {
        let mut connection = self.0.borrow_mut();
        connection.writer().write_all(plaintext).unwrap();
        to_send(&mut connection)
    }

    /// Returns the record that ends the client's side.
    pub(crate) fn close_notify(&self) -> Vec<u8> {
        let mut connection = self.0.borrow_mut();
        connection.send_close_notify();
        to_send(&mut connection)
    }

    /// Returns the plaintext of these records; none if they are not TLS.
    pub(crate) fn plaintext(&self, mut records: &[u8]) -> Option<Vec<u8>> {
        let mut connection = self.0.borrow_mut();
        let mut plaintext = Vec::new();
        while !records.is_empty() && connection.read_tls(&mut records).unwrap() > 0 {
            connection.process_new_packets().ok()?;
            // An error says that there is no more yet.
            let _ = connection.reader().read_to_end(&mut plaintext);
        }
        Some(plaintext)
    }
}

fn to_send(connection: &mut ClientConnection) -> Vec<u8> {
    let mut records = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut records).unwrap();
    }
    records
}
