//! Keeps the certificate that the gateway makes for itself where it is given none. The certificate is made on first use
//! and renewed before it ends. Otherwise it never changes, since people have made their browsers trust it. A pair that
//! cannot be renewed is served as long as it is valid.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;

use super::certificate::{Identity, LoadedCertificate, key_exposures, read_pair, validity};
use super::fault::{CertificateError, CertificateFault, CertificateNotice};
use super::files::{self, Draft, PRIVATE_MODE};
use super::issue::{RENEWED_BEFORE, issue};
use super::names::{CertificateName, names_in, own_names};
use crate::sys::exposure::open_mode;

/// The certificate of the gateway, then that of its authority, for clients that take a file.
pub(super) const CERTIFICATE_FILE: &str = "gateway-cert.pem";
/// The private key of the gateway.
pub(super) const KEY_FILE: &str = "gateway-key.pem";
/// The certificate of the authority alone, for browsers, which import one at a time. The gateway never reads it.
pub(super) const AUTHORITY_FILE: &str = "gateway-ca.pem";
/// What a gateway locks while it makes a pair.
pub(super) const LOCK_FILE: &str = "gateway-cert.lock";

const CERTIFICATE_MODE: u32 = 0o644;

/// The most names that a new pair takes over from the last one. A computer that gets another name each time it starts
/// must not make the certificate grow without end.
const KEPT_NAMES: usize = 32;

/// The files of a pair.
pub(super) struct PairPaths {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) authority: PathBuf,
    lock: PathBuf,
    directory: PathBuf,
}

impl PairPaths {
    pub(super) fn within(directory: &Path) -> Self {
        let [certificate, key, authority, lock] =
            [CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE, LOCK_FILE].map(|name| directory.join(name));
        Self { certificate, key, authority, lock, directory: directory.into() }
    }
}

/// Loads the pair of a directory. Makes a new pair where there is none, where the pair cannot be used (one of the files
/// is missing or damaged, the key belongs to another certificate, one of `names` or of this machine's names is missing),
/// or where it ends within 30 days. A new pair has the names of the last one too, so that two gateways with different
/// names and one directory do not replace each other's pair again and again. If no pair can be made, the last one is loaded as long as it is valid. Creates the directory if necessary. Takes the
/// permissions of others for the key away.
pub(super) fn load(
    directory: &Path,
    names: &[CertificateName],
    now: SystemTime,
) -> Result<LoadedCertificate, CertificateError> {
    let paths = PairPaths::within(directory);
    let mut names = without(own_names().chain(names.iter().cloned()), &[]);
    if let Found::Usable(loaded) = find(&paths, &names, now)? {
        return Ok(loaded);
    }
    files::create_directory(directory)?;
    // Two gateways that start at the same time must not leave the key of one beside the certificate of the other.
    let lock = files::lock(&paths.lock);
    // Another gateway may have made a pair before the lock was free.
    let (reason, last) = match find(&paths, &names, now)? {
        Found::Usable(loaded) => return Ok(loaded),
        Found::Unusable { reason, last, names: kept } => {
            names.extend(without(kept, &names).into_iter().take(KEPT_NAMES));
            (reason, last)
        }
    };
    match (make_pair(&paths, &names, reason, now), last) {
        (Ok(mut made), _) => {
            let unlocked =
                |error: &io::Error| CertificateNotice::Unlocked { path: paths.lock, reason: error.to_string() };
            made.notices.extend(lock.as_ref().err().map(unlocked));
            Ok(made)
        }
        (Err(error), Some(mut last)) => {
            last.notices.push(CertificateNotice::NotRenewed { path: paths.certificate, reason: error.to_string() });
            Ok(last)
        }
        (Err(error), None) => Err(error),
    }
}

/// Returns each of `names` once, without those in `others`.
fn without(names: impl IntoIterator<Item = CertificateName>, others: &[CertificateName]) -> Vec<CertificateName> {
    names.into_iter().fold(Vec::new(), |mut once, name| {
        if !once.contains(&name) && !others.contains(&name) {
            once.push(name);
        }
        once
    })
}

/// What is in the directory.
enum Found {
    Usable(LoadedCertificate),
    Unusable {
        reason: ReplaceReason,
        /// The pair to be replaced, if it is still valid.
        last: Option<LoadedCertificate>,
        /// The names of the pair to be replaced.
        names: Vec<CertificateName>,
    },
}

/// Why a pair is replaced.
#[derive(Debug)]
enum ReplaceReason {
    Absent,
    Fault(CertificateError),
    NamesMissing(Vec<CertificateName>),
    Ending,
}

impl ReplaceReason {
    /// Returns the reason for a person, or `None` where there was no pair.
    fn into_text(self) -> Option<String> {
        Some(match self {
            Self::Absent => return None,
            Self::Fault(error) => error.to_string(),
            Self::NamesMissing(names) => {
                let names: Vec<_> = names.iter().map(ToString::to_string).collect();
                format!("the last one does not name {}", names.join(", "))
            }
            Self::Ending => format!("the last one ends in less than {} days", RENEWED_BEFORE.as_secs() / 86_400),
        })
    }
}

/// Returns whether a new file may take the place of one with this fault. A file that cannot be read now may be undamaged,
/// and people may trust it.
fn is_replaceable(fault: &CertificateFault) -> bool {
    match fault {
        CertificateFault::Unreadable(error) => error.kind() == io::ErrorKind::NotFound,
        CertificateFault::NotAFile | CertificateFault::Unwritable(_) => false,
        _ => true,
    }
}

/// Loads the pair as it is.
fn find(paths: &PairPaths, names: &[CertificateName], now: SystemTime) -> Result<Found, CertificateError> {
    if !paths.certificate.exists() && !paths.key.exists() {
        return Ok(Found::Unusable { reason: ReplaceReason::Absent, last: None, names: Vec::new() });
    }
    let (identity, validity) = match read(paths) {
        Ok(pair) => pair,
        Err(error) if is_replaceable(&error.fault) => {
            return Ok(Found::Unusable { reason: ReplaceReason::Fault(error), last: None, names: Vec::new() });
        }
        Err(error) => return Err(error),
    };
    let (missing, kept) = (missing(names, &identity), identity.leaf().map(|leaf| names_in(leaf)).unwrap_or_default());
    let not_after = Some(*validity.end());
    let mut loaded = LoadedCertificate { identity, not_after, notices: close_key(&paths.key) };
    let reason = if !missing.is_empty() {
        ReplaceReason::NamesMissing(missing)
    } else if now < *validity.start() {
        // People trust the pair, and the clock is wrong.
        let notice = CertificateNotice::NotYetValid { path: paths.certificate.clone(), from: *validity.start() };
        loaded.notices.push(notice);
        return Ok(Found::Usable(loaded));
    } else if now >= validity.end().checked_sub(RENEWED_BEFORE).unwrap_or(SystemTime::UNIX_EPOCH) {
        ReplaceReason::Ending
    } else {
        return Ok(Found::Usable(loaded));
    };
    Ok(Found::Unusable { reason, last: Some(loaded).filter(|_| validity.contains(&now)), names: kept })
}

/// Takes the permissions of others for the key away, and says so. Returns what others can still do.
fn close_key(key: &Path) -> Vec<CertificateNotice> {
    let closed = open_mode(key).filter(|_| files::close_to_others(key).is_ok());
    let closed = closed.map(|mode| CertificateNotice::KeyClosed { path: key.into(), mode });
    closed.into_iter().chain(key_exposures(key)).collect()
}

/// Makes a pair. Replaces no file before all of them are written, and then the key first, so that no person trusts a
/// certificate that has no key yet.
fn make_pair(
    paths: &PairPaths,
    names: &[CertificateName],
    reason: ReplaceReason,
    now: SystemTime,
) -> Result<LoadedCertificate, CertificateError> {
    let issued = issue(names, now)
        .map_err(|error| CertificateError { path: paths.certificate.clone(), fault: CertificateFault::Issue(error) })?;
    let drafts = [
        Draft::write(&paths.key, issued.key.as_bytes(), PRIVATE_MODE)?,
        Draft::write(&paths.certificate, issued.chain.as_bytes(), CERTIFICATE_MODE)?,
        Draft::write(&paths.authority, issued.authority.as_bytes(), CERTIFICATE_MODE)?,
    ];
    drafts.into_iter().try_for_each(Draft::publish)?;
    files::sync_directory(&paths.directory)?;
    let (identity, validity) = read(paths)?;
    let mut notices = vec![CertificateNotice::Made {
        path: paths.certificate.clone(),
        authority: paths.authority.clone(),
        replaced: reason.into_text(),
    }];
    notices.extend(key_exposures(&paths.key));
    Ok(LoadedCertificate { identity, not_after: Some(*validity.end()), notices })
}

fn read(paths: &PairPaths) -> Result<(Identity, RangeInclusive<SystemTime>), CertificateError> {
    let identity = read_pair(&paths.certificate, &paths.key)?;
    let validity = identity.leaf().and_then(|leaf| validity(leaf)).ok_or_else(|| CertificateError {
        path: paths.certificate.clone(),
        fault: CertificateFault::MalformedCertificate,
    })?;
    Ok((identity, validity))
}

/// Returns the names that the certificate is not valid for.
fn missing(names: &[CertificateName], identity: &Identity) -> Vec<CertificateName> {
    let parsed = identity.leaf().and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
    let has = |name: &&CertificateName| {
        parsed.as_ref().is_some_and(|parsed| verify_server_name(parsed, name.server_name()).is_ok())
    };
    names.iter().filter(|name| !has(name)).cloned().collect()
}
