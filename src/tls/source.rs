//! Where the certificate comes from: files that the user names, or a pair that the gateway makes for itself. This pair
//! is made on first use and renewed before it ends. Otherwise it never changes, since people have made their browsers
//! trust it. A pair that cannot be renewed is served as long as it is valid.

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::certificate::{
    self, CertificateContent, CertificateError, CertificateName, LoadedCertificate, MadeCertificate, malformed,
};
use super::issue::{RENEWED_BEFORE, issue};
use crate::sys::draft::{Draft, PRIVATE_DIRECTORY_MODE, PRIVATE_MODE, remove_abandoned};
use crate::sys::retry::lock_directory;
use crate::sys::secret_file::open_mode;

/// The certificate of the gateway, then that of its authority.
pub(super) const CERTIFICATE_FILE: &str = "gateway-cert.pem";
/// The private key of the gateway.
pub(super) const KEY_FILE: &str = "gateway-key.pem";
/// The certificate of the authority alone, for browsers, which import one at a time. The gateway never reads it.
pub(super) const AUTHORITY_FILE: &str = "gateway-ca.pem";

const CERTIFICATE_MODE: u32 = 0o644;

/// Clients on this machine address the gateway by these names.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The most names that a new pair takes over from the last one. A computer that gets another name each time it starts
/// must not make the certificate grow without end.
const KEPT_NAMES: usize = 32;

/// Where the certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// PEM files that other programs keep (`--tls-cert`, `--tls-key`). Both may be the same file.
    Files {
        /// The chain, with the certificate of the gateway first.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
    /// A pair that the gateway makes for itself.
    SelfSigned {
        /// The directory of the pair.
        directory: PathBuf,
        /// The names that it must have besides those of this machine (`--cert-name`).
        names: Vec<CertificateName>,
    },
}

impl CertificateSource {
    /// A self-signed pair in the directory of the settings file.
    pub fn beside(settings: &Path, names: Vec<CertificateName>) -> Self {
        // The parent of a bare file name is the empty path, which no system call accepts.
        let parent = settings.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self::SelfSigned { directory: parent.unwrap_or(Path::new(".")).into(), names }
    }

    /// Loads the certificate, and makes or renews a self-signed one where that is necessary. Further calls leave a
    /// usable pair as it is. After an error, a certificate that was loaded before may still be served.
    pub fn load(&self, now: SystemTime) -> Result<LoadedCertificate, CertificateError> {
        match self {
            Self::Files { certificate, key } => Ok(certificate::load(certificate, key, now)?.0),
            Self::SelfSigned { directory, names } => load_self_signed(directory, names, now),
        }
    }

    /// The files of the certificate and of the key.
    pub fn files(&self) -> [PathBuf; 2] {
        match self {
            Self::Files { certificate, key } => [certificate.clone(), key.clone()],
            Self::SelfSigned { directory, .. } => pair_in(directory),
        }
    }

    /// Makes the directory of a self-signed pair where it is absent. [`CertificateSource::load`] does not: whoever has
    /// moved the directory away may be about to put another one in its place.
    pub fn make_directory(&self) -> Result<(), CertificateError> {
        let Self::SelfSigned { directory, .. } = self else { return Ok(()) };
        let made = DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY_MODE).create(directory);
        made.map_err(CertificateError::unwritable(directory))
    }

    /// Takes the permissions of others for the key of a self-signed pair away, and returns what they could do. It is
    /// `None` where that has no effect.
    pub fn close_key(&self) -> Option<String> {
        let ([_, key], Self::SelfSigned { .. }) = (self.files(), self) else { return None };
        let mode = open_mode(&key)?;
        fs::set_permissions(&key, Permissions::from_mode(PRIVATE_MODE)).ok()?;
        let is_closed = open_mode(&key).is_none();
        let key = key.display();
        is_closed.then(|| format!(
            "{key}: the private key was open to others than its owner (mode {mode:04o}) and is now closed (0600); if anyone \
             may have read it, remove the file, and the gateway makes a new key"
        ))
    }

    /// The file that clients can be made to trust; `None` where they may trust the certificate already.
    pub fn trust_anchor(&self) -> Option<PathBuf> {
        let [certificate, _key] = self.files();
        matches!(self, Self::SelfSigned { .. }).then_some(certificate)
    }
}

fn pair_in(directory: &Path) -> [PathBuf; 2] {
    [directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE)]
}

/// Loads the pair of a directory, which exists. Makes a new one where there is none, where it cannot be used (a file is
/// missing or damaged, the key belongs to another certificate, one of `names` or of this machine's names is missing), or
/// where it ends within 30 days. A new pair has the names of the last one too, so that two gateways with one directory
/// do not replace each other's pair again and again.
pub(super) fn load_self_signed(
    directory: &Path,
    names: &[CertificateName],
    now: SystemTime,
) -> Result<LoadedCertificate, CertificateError> {
    [CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE].iter().for_each(|file| remove_abandoned(&directory.join(file)));
    let mut wanted = Vec::new();
    add_new(&mut wanted, OWN_NAMES.iter().filter_map(|name| name.parse().ok()).chain(names.iter().cloned()));
    if let Found::Usable(loaded) = find(directory, &wanted, now)? {
        return Ok(loaded);
    }
    // Two gateways that start at the same time must not leave the key of one beside the certificate of the other.
    let lock = lock_directory(directory);
    // Another gateway may have made a pair before the lock was free.
    let (reason, last, kept) = match find(directory, &wanted, now)? {
        Found::Usable(loaded) => return Ok(loaded),
        Found::Unusable { reason, last, names } => (reason, last, names),
    };
    let most = wanted.len() + KEPT_NAMES;
    add_new(&mut wanted, kept);
    wanted.truncate(most);
    match (make_pair(directory, &wanted, reason, now), last) {
        (Ok(mut made), _) => {
            if let Err(error) = &lock {
                let directory = directory.display();
                made.warnings.push(format!("{directory}: the certificate was made without the lock: {error}"));
            }
            Ok(made)
        }
        (Err(error), Some(mut last)) => {
            let certificate = directory.join(CERTIFICATE_FILE);
            last.not_renewed = Some(CertificateError::of_content(&certificate, error.to_string()));
            Ok(last)
        }
        (Err(error), None) => Err(error),
    }
}

fn add_new(names: &mut Vec<CertificateName>, more: impl IntoIterator<Item = CertificateName>) {
    for name in more {
        if !names.contains(&name) {
            names.push(name);
        }
    }
}

enum Found {
    Usable(LoadedCertificate),
    Unusable {
        /// Why the pair is to be replaced; `None` where there is none.
        reason: Option<String>,
        /// The pair, if it is still valid.
        last: Option<LoadedCertificate>,
        names: Vec<CertificateName>,
    },
}

fn find(directory: &Path, wanted: &[CertificateName], now: SystemTime) -> Result<Found, CertificateError> {
    let [certificate, key] = pair_in(directory);
    let (loaded, CertificateContent { validity, names }) = match read(directory, now) {
        Ok(pair) => pair,
        Err(error) if error.is_replaceable => {
            let reason = (certificate.exists() || key.exists()).then(|| error.to_string());
            return Ok(Found::Unusable { reason, last: None, names: Vec::new() });
        }
        Err(error) => return Err(error),
    };
    let missing: Vec<_> = wanted.iter().filter(|name| !names.contains(name)).map(ToString::to_string).collect();
    let renew_at = validity.end().checked_sub(RENEWED_BEFORE).unwrap_or(SystemTime::UNIX_EPOCH);
    let reason = if !missing.is_empty() {
        format!("the last one does not name {}", missing.join(", "))
    // People trust one that is not valid yet, and the clock is wrong.
    } else if now >= renew_at && now >= *validity.start() {
        format!("the last one ends in less than {} days", RENEWED_BEFORE.as_secs() / 86_400)
    } else {
        return Ok(Found::Usable(loaded));
    };
    Ok(Found::Unusable { reason: Some(reason), last: Some(loaded).filter(|_| validity.contains(&now)), names })
}

/// Replaces no file before all of them are written, and then the key first, so that no person trusts a certificate that
/// has no key yet.
fn make_pair(
    directory: &Path,
    names: &[CertificateName],
    reason: Option<String>,
    now: SystemTime,
) -> Result<LoadedCertificate, CertificateError> {
    let ([certificate, key], authority) = (pair_in(directory), directory.join(AUTHORITY_FILE));
    let issued = issue(names, now).map_err(|error| {
        CertificateError::of_content(&certificate, format!("a certificate cannot be made: {error}"))
    })?;
    let draft = |path: &Path, content: &str, mode| {
        Draft::write(path, content.as_bytes(), mode).map_err(CertificateError::unwritable(path))
    };
    let drafts = [
        draft(&key, &issued.key, PRIVATE_MODE)?,
        draft(&certificate, &issued.chain, CERTIFICATE_MODE)?,
        draft(&authority, &issued.authority, CERTIFICATE_MODE)?,
    ];
    let published = drafts.into_iter().try_for_each(Draft::publish);
    let synced = published.and_then(|()| File::open(directory)?.sync_all());
    synced.map_err(CertificateError::unwritable(directory))?;
    let (mut loaded, _) = read(directory, now)?;
    loaded.made = Some(MadeCertificate { reason });
    Ok(loaded)
}

fn read(directory: &Path, now: SystemTime) -> Result<(LoadedCertificate, CertificateContent), CertificateError> {
    let [certificate, key] = pair_in(directory);
    let (mut loaded, content) = certificate::load(&certificate, &key, now)?;
    // A client that trusts the authority has it (RFC 8446 §4.4.2). Others may fail to parse it: mbedTLS refuses the
    // name constraints that authorities had before, even where it verifies nothing.
    Arc::make_mut(&mut loaded.identity).cert.truncate(1);
    Ok((loaded, content.ok_or_else(|| malformed(&certificate))?))
}
