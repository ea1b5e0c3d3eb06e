//! Reads a certificate chain and its private key from PEM files (RFC 7468), and checks them before they are used.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use yasna::tags::{TAG_GENERALIZEDTIME, TAG_UTCTIME};
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, BERReaderSeq, Tag};

use super::fault::{CertificateError, CertificateFault, CertificateNotice};
use super::files;
use crate::sys::exposure::exposures;

/// What the gateway presents to its clients: a certificate chain, with the gateway's own certificate first, and the
/// private key of that certificate. Two identities are equal if their chains are, since a certificate names its key.
#[derive(Clone)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    pub(super) fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0)
    }

    /// Returns the gateway's own certificate.
    pub(super) fn leaf(&self) -> Option<&CertificateDer<'static>> {
        debug_assert!(!self.0.cert.is_empty(), "an identity is only made of a chain that has a certificate");
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

/// A certificate that can be served.
#[derive(Clone, Debug)]
pub struct LoadedCertificate {
    /// The chain and its key.
    pub identity: Identity,
    /// The last second at which it is valid. `None` where that cannot be read.
    pub not_after: Option<SystemTime>,
    /// What a person should know about it.
    pub notices: Vec<CertificateNotice>,
}

/// Loads a chain and the key of its first certificate. An expired certificate is loaded with a notice, since its owner
/// may have clients that accept it.
pub(super) fn load(certificate: &Path, key: &Path, now: SystemTime) -> Result<LoadedCertificate, CertificateError> {
    let identity = read_pair(certificate, key)?;
    let mut notices = Vec::new();
    let validity = identity.leaf().and_then(|leaf| validity(leaf));
    if let Some(validity) = &validity {
        let path = certificate.to_path_buf();
        if now < *validity.start() {
            notices.push(CertificateNotice::NotYetValid { path, from: *validity.start() });
        } else if now > *validity.end() {
            notices.push(CertificateNotice::Expired { path, at: *validity.end() });
        }
    }
    notices.extend(key_exposures(key));
    let not_after = validity.map(|validity| *validity.end());
    Ok(LoadedCertificate { identity, not_after, notices })
}

/// Returns what other users can do with a private key.
pub(super) fn key_exposures(key: &Path) -> impl Iterator<Item = CertificateNotice> + use<> {
    exposures(key).into_iter().map(CertificateNotice::KeyExposed)
}

/// Reads the chain from one file and the key from the same or another one, and checks that they belong together.
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
        // The first is PKCS#8 (RFC 5958 §3), the second the older form in the headers of a section (RFC 1421 §4.6.1.1).
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

/// Returns the first and the last second at which a certificate is valid (RFC 5280 §4.1.2.5), or `None` where `der` is
/// no certificate.
pub(super) fn validity(der: &[u8]) -> Option<RangeInclusive<SystemTime>> {
    yasna::parse_der(der, |certificate| certificate.read_sequence(|parts| first_then_skip(parts, validity_of_body)))
        .ok()
}

/// ```text
/// TBSCertificate ::= SEQUENCE {
///     version [0] EXPLICIT INTEGER DEFAULT v1, serialNumber INTEGER, signature SEQUENCE, issuer SEQUENCE,
///     validity SEQUENCE { notBefore Time, notAfter Time }, ... }
/// ```
fn validity_of_body(reader: BERReader<'_, '_>) -> ASN1Result<RangeInclusive<SystemTime>> {
    reader.read_sequence(|fields| {
        fields.read_optional(|version| version.read_tagged(Tag::context(0), |number| number.read_i64()))?;
        for _serial_signature_issuer in 0..3 {
            fields.next().read_der()?;
        }
        first_then_skip(fields, |validity| validity.read_sequence(|ends| Ok(time(ends.next())?..=time(ends.next())?)))
    })
}

/// Reads the next element with `read`, and skips those behind it, which yasna demands to be read as well.
pub(super) fn first_then_skip<T>(
    elements: &mut BERReaderSeq<'_, '_>,
    read: impl FnOnce(BERReader<'_, '_>) -> ASN1Result<T>,
) -> ASN1Result<T> {
    let first = read(elements.next())?;
    while elements.read_optional(|element| element.read_der())?.is_some() {}
    Ok(first)
}

/// Reads `Time ::= CHOICE { UTCTime, GeneralizedTime }`.
fn time(reader: BERReader<'_, '_>) -> ASN1Result<SystemTime> {
    match reader.lookahead_tag()? {
        TAG_UTCTIME => reader.read_utctime().map(|time| (*time.datetime()).into()),
        TAG_GENERALIZEDTIME => reader.read_generalized_time().map(|time| (*time.datetime()).into()),
        _ => Err(ASN1Error::new(ASN1ErrorKind::Invalid)),
    }
}
