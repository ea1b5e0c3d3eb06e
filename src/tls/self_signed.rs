//! Keeps the certificate that the gateway makes for itself where it is given none. The certificate is made on first use
//! and renewed before it ends. Otherwise it never changes, since people have made their browsers trust it.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;

use super::certificate::{Identity, LoadedCertificate, read_pair, validity};
use super::fault::{CertificateError, CertificateFault, CertificateNotice};
use super::files;
use super::issue::{RENEWED_BEFORE, issue, server_names};

/// The certificate of the gateway, then that of its authority, for clients that take a file.
pub(super) const CERTIFICATE_FILE: &str = "gateway-cert.pem";
/// The private key of the gateway.
pub(super) const KEY_FILE: &str = "gateway-key.pem";
/// The certificate of the authority alone, for browsers, which import one at a time. The gateway never reads it.
pub(super) const AUTHORITY_FILE: &str = "gateway-ca.pem";

const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;

/// The files of a pair.
pub(super) struct PairPaths {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) authority: PathBuf,
}

impl PairPaths {
    pub(super) fn within(directory: &Path) -> Self {
        let [certificate, key, authority] =
            [CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE].map(|name| directory.join(name));
        Self { certificate, key, authority }
    }
}

/// Loads the pair of a directory. Makes a new pair where there is none, where the pair cannot be used (one of the files
/// is missing or damaged, the key belongs to another certificate, the names differ, it is not valid yet), or where it
/// ends within 30 days. Creates the directory if necessary. Takes the permissions of others for the key away.
pub(super) fn load(directory: &Path, now: SystemTime) -> Result<LoadedCertificate, CertificateError> {
    files::create_directory(directory)?;
    // Two gateways that start at the same time must not leave the key of one beside the certificate of the other.
    let _lock = files::lock(directory);
    let paths = PairPaths::within(directory);
    match load_usable(&paths, now) {
        Ok(loaded) => Ok(loaded),
        // A file that cannot be read now may be undamaged, and people may trust it.
        Err(ReplaceReason::Fault(error)) if !is_replaceable(&error.fault) => Err(error),
        Err(reason) => make_pair(directory, &paths, reason, now),
    }
}

/// Why a pair is replaced.
#[derive(Debug)]
enum ReplaceReason {
    Absent,
    Fault(CertificateError),
    OtherNames,
    NotYetValid,
    Ending,
}

impl ReplaceReason {
    /// Returns the reason for a person, or `None` where there was no pair.
    fn into_text(self) -> Option<String> {
        Some(match self {
            Self::Absent => return None,
            Self::Fault(error) => error.to_string(),
            Self::OtherNames => "the last one does not name localhost, 127.0.0.1 and ::1".into(),
            Self::NotYetValid => "the last one is not valid yet".into(),
            Self::Ending => format!("the last one ends in less than {} days", RENEWED_BEFORE.as_secs() / 86_400),
        })
    }
}

/// Returns whether a new file may take the place of one with this fault.
fn is_replaceable(fault: &CertificateFault) -> bool {
    match fault {
        CertificateFault::Unreadable(error) => error.kind() == io::ErrorKind::NotFound,
        CertificateFault::NotAFile | CertificateFault::Unwritable(_) => false,
        _ => true,
    }
}

/// Loads the pair as it is, if it can be used.
fn load_usable(paths: &PairPaths, now: SystemTime) -> Result<LoadedCertificate, ReplaceReason> {
    if !paths.certificate.exists() && !paths.key.exists() {
        return Err(ReplaceReason::Absent);
    }
    let (identity, validity) = read(paths).map_err(ReplaceReason::Fault)?;
    let renew_at = renewal(&validity);
    if now < *validity.start() {
        return Err(ReplaceReason::NotYetValid);
    }
    if now >= renew_at {
        return Err(ReplaceReason::Ending);
    }
    if !names_this_machine(&identity) {
        return Err(ReplaceReason::OtherNames);
    }
    let mut notices = Vec::new();
    if let Some(mode) = files::exposed(&paths.key) {
        files::close_to_others(&paths.key).map_err(ReplaceReason::Fault)?;
        notices.push(CertificateNotice::KeyClosed { path: paths.key.clone(), mode });
    }
    Ok(LoadedCertificate { identity, renew_at: Some(renew_at), notices })
}

/// Makes a pair. Writes the key first, so that no person trusts a certificate that has no key yet.
fn make_pair(
    directory: &Path,
    paths: &PairPaths,
    reason: ReplaceReason,
    now: SystemTime,
) -> Result<LoadedCertificate, CertificateError> {
    let issued = issue(now)
        .map_err(|error| CertificateError { path: paths.certificate.clone(), fault: CertificateFault::Issue(error) })?;
    files::write(&paths.key, issued.key.as_bytes(), KEY_MODE)?;
    files::write(&paths.certificate, issued.chain.as_bytes(), CERTIFICATE_MODE)?;
    files::write(&paths.authority, issued.authority.as_bytes(), CERTIFICATE_MODE)?;
    files::sync_directory(directory)?;
    let (identity, validity) = read(paths)?;
    let notice = CertificateNotice::Made {
        path: paths.certificate.clone(),
        authority: paths.authority.clone(),
        replaced: reason.into_text(),
    };
    Ok(LoadedCertificate { identity, renew_at: Some(renewal(&validity)), notices: vec![notice] })
}

fn read(paths: &PairPaths) -> Result<(Identity, RangeInclusive<SystemTime>), CertificateError> {
    let identity = read_pair(&paths.certificate, &paths.key)?;
    let validity = identity.leaf().and_then(|leaf| validity(leaf)).ok_or_else(|| CertificateError {
        path: paths.certificate.clone(),
        fault: CertificateFault::MalformedCertificate,
    })?;
    Ok((identity, validity))
}

/// Returns when a certificate is to be renewed.
fn renewal(validity: &RangeInclusive<SystemTime>) -> SystemTime {
    validity.end().checked_sub(RENEWED_BEFORE).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns whether the certificate is valid for every name by which clients on this machine address the gateway.
fn names_this_machine(identity: &Identity) -> bool {
    let Some(parsed) = identity.leaf().and_then(|leaf| ParsedCertificate::try_from(leaf).ok()) else {
        return false;
    };
    server_names().all(|name| verify_server_name(&parsed, &name).is_ok())
}
