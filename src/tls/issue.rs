//! Makes a certificate for the names of this machine, and an authority that signs this certificate and no other.
//!
//! Clients trust the authority and not the certificate of the server, for two reasons: Firefox and rustls accept no
//! certificate as both, and a certificate that a person adds to the trusted ones must do no harm there. The private key
//! of the authority is therefore dropped after it has signed, and the authority is limited to the names of the gateway
//! (RFC 5280 §4.2.1.10). With a stolen key of the gateway, an attacker can pretend to be this gateway and nothing else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::pki_types::ServerName;
use time::OffsetDateTime;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a certificate is valid. Apple's clients accept at most 825 days where a person added the authority, and no
/// other client accepts less (the 398 days of browsers are for public authorities). After each renewal the person has to
/// change the settings of each browser again. The five days less are for clients that count the days differently.
const VALIDITY: Duration = DAY.saturating_mul(820);

/// How far back the validity begins, since the clocks of clients may be slow.
const BACKDATED: Duration = DAY;

/// How long before its end a certificate is renewed. In this time, people can make their clients trust the new one.
pub(super) const RENEWED_BEFORE: Duration = DAY.saturating_mul(30);

const DNS_NAME: &str = "localhost";
const ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Returns the names by which clients on this machine address the gateway.
pub(super) fn server_names() -> impl Iterator<Item = ServerName<'static>> {
    let dns_name = ServerName::try_from(DNS_NAME);
    debug_assert!(dns_name.is_ok(), "the constant is a DNS name");
    dns_name.into_iter().chain(ADDRESSES.map(ServerName::from))
}

/// A new certificate, its key and its authority, in PEM.
pub(super) struct IssuedPair {
    /// The certificate of the gateway, then that of the authority.
    pub(super) chain: String,
    /// The certificate of the authority alone.
    pub(super) authority: String,
    /// The private key of the gateway (PKCS#8).
    pub(super) key: String,
}

/// Makes a key and a certificate for it. The key is ECDSA on P-256, which every client accepts.
pub(super) fn issue(now: SystemTime) -> Result<IssuedPair, rcgen::Error> {
    let authority_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let authority_params = authority(now)?;
    let authority = authority_params.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority_params, authority_key);

    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let gateway = gateway(now)?.signed_by(&key, &issuer)?.pem();
    Ok(IssuedPair { chain: gateway + &authority, authority, key: key.serialize_pem() })
}

fn authority(now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params("adapter-gateway, for this computer only", now)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.name_constraints = Some(NameConstraints { permitted_subtrees: own_names(), excluded_subtrees: Vec::new() });
    Ok(params)
}

fn gateway(now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params(DNS_NAME, now)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.subject_alt_names = vec![SanType::DnsName(DNS_NAME.try_into()?)];
    params.subject_alt_names.extend(ADDRESSES.map(SanType::IpAddress));
    // OpenSSL demands this extension in its strict mode, which is the default of Python from 3.13 on.
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn params(common_name: &str, now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let begin = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(BACKDATED);
    let mut params = CertificateParams::default();
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

fn own_names() -> Vec<GeneralSubtree> {
    let mut names = vec![GeneralSubtree::DnsName(DNS_NAME.into())];
    names.extend(ADDRESSES.map(|address| {
        GeneralSubtree::IpAddress(match address {
            IpAddr::V4(address) => CidrSubnet::V4(address.octets(), [0xff; 4]),
            IpAddr::V6(address) => CidrSubnet::V6(address.octets(), [0xff; 16]),
        })
    }));
    names
}
