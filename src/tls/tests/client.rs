//! A client of rustls in the same process, and the transport of bytes between it and a session.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, Error, RootCertStore, SupportedProtocolVersion};

use super::load_self_signed;
use crate::tls::session::{Acceptor, Session};
use crate::tls::source::{AUTHORITY_FILE, Occasion};

/// An acceptor with a self-signed pair, and the directory of the pair.
pub(super) struct Rig {
    pub(super) directory: tempfile::TempDir,
    pub(super) acceptor: Acceptor,
}

impl Rig {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let acceptor = Acceptor::new(identity(directory.path())).unwrap();
        Self { directory, acceptor }
    }

    /// Returns the configuration of a client that trusts the authority of the pair that is in the directory now.
    pub(super) fn client(&self, version: &'static SupportedProtocolVersion, protocols: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.directory.path().join(AUTHORITY_FILE)).unwrap()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

pub(super) fn identity(directory: &std::path::Path) -> Arc<CertifiedKey> {
    load_self_signed(directory, &[], SystemTime::now(), Occasion::Start).unwrap().identity
}

/// Both ends of a connection.
pub(super) struct Pair {
    pub(super) client: ClientConnection,
    pub(super) session: Session,
}

impl Pair {
    pub(super) fn new(acceptor: &Acceptor, config: &Arc<ClientConfig>, name: &str) -> Self {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let client = ClientConnection::new(Arc::clone(config), name).unwrap();
        Self { client, session: acceptor.accept().unwrap() }
    }

    /// Transports bytes until both ends have nothing to send, at most `step` bytes of the client at a time. Returns
    /// what the gateway has read.
    pub(super) fn settle(&mut self, step: usize) -> Result<Vec<u8>, Error> {
        let mut plaintext = Vec::new();
        loop {
            let sent = self.client_bytes();
            for part in sent.chunks(step) {
                self.session.receive(part, &mut plaintext)?;
            }
            let mut back = Vec::new();
            self.session.flush(&mut back);
            if sent.is_empty() && back.is_empty() {
                return Ok(plaintext);
            }
            self.client_reads(&back).unwrap();
        }
    }

    /// Gives the session what the client has to send. Returns its result and what it has read.
    pub(super) fn receive(&mut self) -> (Result<bool, Error>, Vec<u8>) {
        let (sent, mut plaintext) = (self.client_bytes(), Vec::new());
        (self.session.receive(&sent, &mut plaintext), plaintext)
    }

    pub(super) fn client_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Sends an answer and returns what the client reads of it.
    pub(super) fn answer(&mut self, plaintext: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.session.send(plaintext, &mut bytes);
        self.client_reads(&bytes).unwrap()
    }

    /// Returns what the client reads of these bytes, or why it refuses them.
    pub(super) fn client_reads(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let mut plaintext = Vec::new();
        while !bytes.is_empty() {
            if self.client.read_tls(&mut bytes).unwrap() == 0 {
                break;
            }
            self.client.process_new_packets()?;
            // It reads what there is, and then an error says that there is no more yet.
            let _ = self.client.reader().read_to_end(&mut plaintext);
        }
        Ok(plaintext)
    }

    pub(super) fn ask(&mut self, plaintext: &[u8]) {
        self.client.set_buffer_limit(None);
        self.client.writer().write_all(plaintext).unwrap();
    }
}
