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
const VALIDITY: Duration = DAY.saturating_mul(820);

/// The clocks of clients may be slow.
const BACKDATED: Duration = DAY;

/// In this time before the end, people can make their clients trust the new one.
pub(super) const RENEWED_BEFORE: Duration = DAY.saturating_mul(30);

/// The files of a new pair, in PEM.
pub(super) struct IssuedPair {
    /// The certificate of the gateway, then that of the authority.
    pub(super) chain: String,
    /// The certificate of the authority alone.
    pub(super) authority: String,
    pub(super) key: String,
}

/// The key is ECDSA on P-256, which every client accepts.
pub(super) fn issue(names: &[CertificateName], now: SystemTime) -> Result<IssuedPair, rcgen::Error> {
    let authority_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let authority_params = authority(now)?;
    let authority = authority_params.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority_params, authority_key);

    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let gateway = gateway(names, now)?.signed_by(&key, &issuer)?.pem();
    Ok(IssuedPair { chain: gateway + &authority, authority, key: key.serialize_pem() })
}

fn authority(now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params("adapter-gateway, for this computer only", &[], now)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(params)
}

fn gateway(names: &[CertificateName], now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params("localhost", names, now)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // OpenSSL demands this extension in its strict mode, which is the default of Python from 3.13 on.
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn params(common_name: &str, names: &[CertificateName], now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let begin = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(BACKDATED);
    let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    params.not_before = date(begin)?;
    params.not_after = date(begin.saturating_add(VALIDITY))?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

fn date(since_epoch: Duration) -> Result<OffsetDateTime, rcgen::Error> {
    let seconds = i64::try_from(since_epoch.as_secs()).map_err(|_| rcgen::Error::Time)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| rcgen::Error::Time)
}
