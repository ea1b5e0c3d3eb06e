//! The certificate that the gateway makes for itself where it is given none: kept in a directory, made on first use,
//! renewed before it ends, and otherwise left alone, since people have told their browsers to trust it.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;

use super::certificate::{Identity, Loaded, read_pair};
use super::fault::{CertificateError, CertificateFault, Notice};
use super::files;
use super::issue::{RENEWED_BEFORE, issue, server_names};
use super::validity::validity;

/// The certificate of the gateway, then that of the authority which vouches for it, for clients that take a file.
pub const CERTIFICATE_FILE: &str = "gateway-cert.pem";
/// The private key of the gateway, mode 0600.
pub const KEY_FILE: &str = "gateway-key.pem";
/// The certificate of the authority alone, for browsers, which import one at a time. Never read.
pub const AUTHORITY_FILE: &str = "gateway-ca.pem";

const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;

/// Where a pair is kept.
pub(super) struct Paths {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) authority: PathBuf,
}

impl Paths {
    pub(super) fn within(directory: &Path) -> Self {
        let [certificate, key, authority] =
            [CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE].map(|name| directory.join(name));
        Self { certificate, key, authority }
    }
}

/// Loads the pair of a directory, and makes it where there is none, where it cannot be used (one file without the
/// other, damaged, a key of another certificate, other names, not valid now), or where it ends within 30 days. The
/// directory is made if need be. A key that others may read is closed to them.
///
/// # Errors
/// [`CertificateError`], where a file is there and cannot be read, or cannot be written.
pub fn load(directory: &Path, now: SystemTime) -> Result<Loaded, CertificateError> {
    files::create_directory(directory)?;
    // Two gateways that start at once must not leave the key of one with the certificate of the other.
    let _lock = files::lock(directory);
    let paths = Paths::within(directory);
    match keep(&paths, now) {
        Ok(loaded) => Ok(loaded),
        // What cannot be read now may be whole, and people may trust it.
        Err(Unfit::Fault(error)) if !replaceable(&error.fault) => Err(error),
        Err(unfit) => make(directory, &paths, unfit, now),
    }
}

/// Why a pair is replaced.
#[derive(Debug)]
enum Unfit {
    Absent,
    Fault(CertificateError),
    OtherNames,
    NotYetValid,
    Ending,
}

impl Unfit {
    /// `None` where nothing was there to replace.
    fn reason(self) -> Option<String> {
        Some(match self {
            Self::Absent => return None,
            Self::Fault(error) => error.to_string(),
            Self::OtherNames => "the last one does not name localhost, 127.0.0.1 and ::1".into(),
            Self::NotYetValid => "the last one is not valid yet".into(),
            Self::Ending => format!("the last one ends in less than {} days", RENEWED_BEFORE.as_secs() / 86_400),
        })
    }
}

fn replaceable(fault: &CertificateFault) -> bool {
    match fault {
        CertificateFault::Unreadable(error) => error.kind() == io::ErrorKind::NotFound,
        CertificateFault::NotAFile | CertificateFault::Unwritable(_) => false,
        _ => true,
    }
}

/// The pair as it is kept, if it will do.
fn keep(paths: &Paths, now: SystemTime) -> Result<Loaded, Unfit> {
    if !paths.certificate.exists() && !paths.key.exists() {
        return Err(Unfit::Absent);
    }
    let (identity, validity) = read(paths).map_err(Unfit::Fault)?;
    let renew_at = renewal(&validity);
    if now < *validity.start() {
        return Err(Unfit::NotYetValid);
    }
    if now >= renew_at {
        return Err(Unfit::Ending);
    }
    if !names_this_machine(&identity) {
        return Err(Unfit::OtherNames);
    }
    let mut notices = Vec::new();
    if let Some(mode) = files::exposed(&paths.key) {
        files::close_to_others(&paths.key).map_err(Unfit::Fault)?;
        notices.push(Notice::KeyClosed { path: paths.key.clone(), mode });
    }
    Ok(Loaded { identity, renew_at: Some(renew_at), notices })
}

/// Makes a pair. The key goes first: a certificate that is seen before its key would be trusted in vain.
fn make(directory: &Path, paths: &Paths, unfit: Unfit, now: SystemTime) -> Result<Loaded, CertificateError> {
    let issued = issue(now)
        .map_err(|error| CertificateError { path: paths.certificate.clone(), fault: CertificateFault::Issue(error) })?;
    files::write(&paths.key, issued.key.as_bytes(), KEY_MODE)?;
    files::write(&paths.certificate, issued.chain.as_bytes(), CERTIFICATE_MODE)?;
    files::write(&paths.authority, issued.authority.as_bytes(), CERTIFICATE_MODE)?;
    files::sync_directory(directory)?;
    let (identity, validity) = read(paths)?;
    let notice =
        Notice::Made { path: paths.certificate.clone(), authority: paths.authority.clone(), replaced: unfit.reason() };
    Ok(Loaded { identity, renew_at: Some(renewal(&validity)), notices: vec![notice] })
}

fn read(paths: &Paths) -> Result<(Identity, RangeInclusive<SystemTime>), CertificateError> {
    let identity = read_pair(&paths.certificate, &paths.key)?;
    let validity = identity.leaf().and_then(|leaf| validity(leaf)).ok_or_else(|| CertificateError {
        path: paths.certificate.clone(),
        fault: CertificateFault::MalformedCertificate,
    })?;
    Ok((identity, validity))
}

fn renewal(validity: &RangeInclusive<SystemTime>) -> SystemTime {
    validity.end().checked_sub(RENEWED_BEFORE).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn names_this_machine(identity: &Identity) -> bool {
    let Some(parsed) = identity.leaf().and_then(|leaf| ParsedCertificate::try_from(leaf).ok()) else {
        return false;
    };
    server_names().all(|name| verify_server_name(&parsed, &name).is_ok())
}
