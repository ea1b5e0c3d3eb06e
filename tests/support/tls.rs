//! The client's side of TLS without sockets: plaintext becomes records, and records become plaintext.

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{RootCertStore, SupportedProtocolVersion};

use super::*;

/// Returns a configuration that trusts these certificates alone, and speaks these versions.
pub(crate) fn trusting(
    certificates: impl IntoIterator<Item = CertificateDer<'static>>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let (_added, ignored) = roots.add_parsable_certificates(certificates);
    assert_eq!(ignored, 0, "some certificates cannot be trusted");
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("the provider has these versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Returns all records that are to be sent now.
pub(crate) fn records(connection: &mut ClientConnection) -> io::Result<Vec<u8>> {
    let mut records = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut records)?;
    }
    Ok(records)
}

pub(crate) struct TlsClient(ClientConnection);

impl TlsClient {
    pub(crate) fn new(config: &Arc<ClientConfig>, server: &'static str) -> Self {
        let server = ServerName::try_from(server).expect("a name of a server");
        let mut connection = ClientConnection::new(Arc::clone(config), server).expect("a session can begin");
        // Whatever is written waits in the session until its records are taken.
        connection.set_buffer_limit(None);
        Self(connection)
    }

    pub(crate) fn connection(&mut self) -> &mut ClientConnection {
        &mut self.0
    }

    /// Takes plaintext. Returns all records that are to be sent now.
    pub(crate) fn write(&mut self, plaintext: &[u8]) -> io::Result<Vec<u8>> {
        self.0.writer().write_all(plaintext)?;
        self.records()
    }

    /// Ends the client's side. Returns all records that are to be sent now.
    pub(crate) fn close(&mut self) -> io::Result<Vec<u8>> {
        self.0.send_close_notify();
        self.records()
    }

    pub(crate) fn records(&mut self) -> io::Result<Vec<u8>> {
        records(&mut self.0)
    }

    /// Takes records, and adds their plaintext.
    pub(crate) fn read(&mut self, mut records: &[u8], plaintext: &mut Vec<u8>) -> io::Result<()> {
        while !records.is_empty() && self.0.read_tls(&mut records)? > 0 {
            let arrived = self.0.process_new_packets().map_err(io::Error::other)?.plaintext_bytes_to_read();
            self.0.reader().take(arrived as u64).read_to_end(plaintext)?;
        }
        Ok(())
    }
}
