//! A certificate chain and its private key, from PEM files (RFC 7468), checked before anything is served with them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::fault::{CertificateError, CertificateFault, Notice};
use super::files;
use super::validity::validity;

/// How large a file of certificates or keys may be: a chain takes 4 KiB, and a whole store of authorities 250 KiB.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Who the gateway is to its clients: a chain, the certificate of the gateway itself first, and the private key of that.
/// Equal where the chains are: a certificate names its key.
#[derive(Clone)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// As rustls takes it.
    #[must_use]
    pub fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0)
    }

    pub(super) fn leaf(&self) -> Option<&CertificateDer<'static>> {
        self.0.cert.first()
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.0.cert == other.0.cert
    }
}

impl Eq for Identity {}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({} certificates, ..)", self.0.cert.len())
    }
}

/// An identity to serve with.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The chain and its key.
    pub identity: Identity,
    /// When to load again because the certificate is to be renewed. `None` where that is somebody else's to do.
    pub renew_at: Option<SystemTime>,
    /// What a person should be told.
    pub notices: Vec<Notice>,
}

/// Loads a chain and the key of its first certificate. An expired certificate is loaded with a notice: its owner may
/// have clients that take it.
///
/// # Errors
/// [`CertificateError`], which names the file and what is wrong with it.
pub fn load(certificate: &Path, key: &Path, now: SystemTime) -> Result<Loaded, CertificateError> {
    let identity = read_pair(certificate, key)?;
    let mut notices = Vec::new();
    if let Some(validity) = identity.leaf().and_then(|leaf| validity(leaf)) {
        let path = certificate.to_path_buf();
        if now < *validity.start() {
            notices.push(Notice::NotYetValid { path, from: *validity.start() });
        } else if now > *validity.end() {
            notices.push(Notice::Expired { path, at: *validity.end() });
        }
    }
    if let Some(mode) = files::exposed(key) {
        notices.push(Notice::KeyExposed { path: key.into(), mode });
    }
    Ok(Loaded { identity, renew_at: None, notices })
}

/// The chain of one file and the key of another, or the same, which belong together.
pub(super) fn read_pair(certificate: &Path, key: &Path) -> Result<Identity, CertificateError> {
    let in_certificate = |fault| CertificateError { path: certificate.into(), fault };
    let in_key = |fault| CertificateError { path: key.into(), fault };

    let chain = parse_chain(&files::read(certificate)?).map_err(in_certificate)?;
    let private = parse_key(&files::read(key)?).map_err(in_key)?;
    let signing = any_supported_type(&private).map_err(|_| in_key(CertificateFault::UnsupportedKey))?;
    let pair = CertifiedKey::new(chain, signing);
    match pair.keys_match() {
        Ok(()) => Ok(Identity(Arc::new(pair))),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(in_key(CertificateFault::KeyMismatch { certificate: certificate.into() }))
        }
        Err(_) => Err(in_certificate(CertificateFault::MalformedCertificate)),
    }
}

fn parse_chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|_| CertificateFault::NotPem)?;
    if chain.is_empty() {
        return Err(CertificateFault::NoCertificate);
    }
    Ok(chain)
}

fn parse_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateFault> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        // PKCS#8 (RFC 5958 §3) and the older form that OpenSSL puts in the headers of a section (RFC 1421 §4.6.1.1).
        _ if contains(text, b"BEGIN ENCRYPTED PRIVATE KEY") || contains(text, b"Proc-Type: 4,ENCRYPTED") => {
            CertificateFault::EncryptedKey
        }
        pem::Error::NoItemsFound => CertificateFault::NoKey,
        _ => CertificateFault::NotPem,
    })
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(text, what).is_some()
}
