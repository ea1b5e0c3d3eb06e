//! Makes a certificate, and an authority that signs this certificate and no other, because its private key is dropped.
//! `docs/design.md` says why, and why the authority has no name constraints (RFC 5280 §4.2.1.10).

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use time::OffsetDateTime;

use super::certificate::CertificateName;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Apple's clients accept at most 825 days where a person added the authority, and no other client accepts less. Five
/// days less are for clients that count differently. After each renewal the person has to change each browser.
const VALIDITY: time::Duration = time::Duration::days(820);

/// In this time before the end, people can make their clients trust the new one.
pub(super) const RENEWED_BEFORE: Duration = DAY.saturating_mul(30);

/// The files of a new pair, in PEM.
pub(super) struct IssuedPair {
    pub(super) chain: String,
    pub(super) authority: String,
    pub(super) key: String,
}

/// The key is ECDSA on P-256, which every client accepts.
pub(super) fn issue(names: &[CertificateName], now: SystemTime) -> Result<IssuedPair, rcgen::Error> {
    let mut authority = params("adapter-gateway, for this computer only", &[], now)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];

    let mut gateway = params("localhost", names, now)?;
    gateway.is_ca = IsCa::ExplicitNoCa;
    gateway.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    gateway.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // OpenSSL demands this extension in its strict mode, which is the default of Python from 3.13 on.
    gateway.use_authority_key_identifier_extension = true;

    let authority_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let chain = gateway.signed_by(&key, &Issuer::new(authority, authority_key))?.pem() + &authority_pem;
    Ok(IssuedPair { chain, authority: authority_pem, key: key.serialize_pem() })
}

fn params(common_name: &str, names: &[CertificateName], now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    // The clocks of clients may be slow. Where that of the gateway is before 1970, the certificate begins then.
    let begin = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(DAY);
    let begin = begin.try_into().ok().and_then(|since_epoch| OffsetDateTime::UNIX_EPOCH.checked_add(since_epoch));
    let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    params.not_before = begin.ok_or(rcgen::Error::Time)?;
    params.not_after = params.not_before.checked_add(VALIDITY).ok_or(rcgen::Error::Time)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}
