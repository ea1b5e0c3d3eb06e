//! TLS, as the clients of some worlds speak it.

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use adapter_gateway::tls::session::Acceptor;
use adapter_gateway::tls::source::{CertificateSource, Occasion};
use rustls::client::Resumption;
use rustls::{ALL_VERSIONS, ClientConfig};

use crate::support::Pair;
use crate::support::tls::{TlsClient, trusting};

/// What begins the sessions of all gateways and of all clients. The signatures of the key have one length, so that a
/// seed decides on the lengths of all records.
static SHARED: LazyLock<(Arc<Acceptor>, Arc<ClientConfig>)> = LazyLock::new(|| {
    let (_, pair) = Pair::kinds().into_iter().find(|(kind, _)| *kind == "Ed25519").unwrap();
    let files = pair.in_files();
    let source = CertificateSource::Files { certificate: files.certificate.clone(), key: files.key.clone() };
    let mut client = trusting([pair.leaf()], ALL_VERSIONS);
    client.resumption = Resumption::disabled();
    let identity = source.load(SystemTime::now(), Occasion::Start).unwrap().identity;
    (Arc::new(Acceptor::new(identity).unwrap()), Arc::new(client))
});

pub(crate) fn acceptor() -> Arc<Acceptor> {
    Arc::clone(&SHARED.0)
}

pub(crate) fn session() -> TlsClient {
    TlsClient::new(&SHARED.1, "localhost")
}
