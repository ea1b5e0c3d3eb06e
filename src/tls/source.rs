//! Where the certificate comes from: files that the user names, or a pair that the gateway makes for itself. This pair
//! is made on first use and renewed before it ends. Otherwise it never changes, since people have made their browsers
//! trust it. A pair that cannot be renewed is served as long as it is valid. While the gateway runs, it replaces no
//! other pair than the one that it serves, since programs restore a backup file by file.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use super::certificate::{
    self, CertificateError, CertificateName, LoadedCertificate, MALFORMED, MadeCertificate, validity,
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

/// 2026-01-01, since 1970. A clock before this is wrong, as that of a computer without a battery until the network tells
/// the time: the program is newer.
const RELEASED: Duration = Duration::from_secs(1_767_225_600);

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

/// When a certificate is loaded. This says which pair of files a new one may replace.
#[derive(Clone, Copy)]
pub enum Occasion<'a> {
    /// The gateway starts, and replaces a pair that it cannot use.
    Start,
    /// The gateway runs, and serves this certificate if it has one. It replaces no other.
    Run(Option<&'a CertifiedKey>),
}

impl CertificateSource {
    /// A self-signed pair in the directory of the settings file.
    pub fn beside(settings: &Path, names: Vec<CertificateName>) -> Self {
        // The parent of a bare file name is the empty path, which no system call accepts.
        let parent = settings.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self::SelfSigned { directory: parent.unwrap_or(Path::new(".")).into(), names }
    }

    /// Loads the certificate. After an error, one that was loaded before may still be served.
    ///
    /// Makes a self-signed pair where both files are missing, and where the one that is served ends within 30 days. At
    /// a start, makes one also where the pair cannot be used (a file is missing or damaged, the key belongs to another
    /// certificate), ends within 30 days, is not valid yet, or lacks one of `names` or of this machine's names. The
    /// directory is made for the first pair alone: its owner may have moved it away for a while.
    pub fn load(&self, now: SystemTime, occasion: Occasion<'_>) -> Result<LoadedCertificate, CertificateError> {
        let (directory, names) = match self {
            Self::Files { certificate, key } => return certificate::load(certificate, key, now),
            Self::SelfSigned { directory, names } => (directory, names),
        };
        if !matches!(occasion, Occasion::Run(Some(_))) {
            let made = DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY_MODE).create(directory);
            made.map_err(CertificateError::unwritable(directory))?;
        }
        [CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE].iter().for_each(|file| remove_abandoned(&directory.join(file)));
        let mut wanted = Vec::from_iter(OWN_NAMES.iter().filter_map(|name| name.parse().ok()));
        for name in names {
            if !wanted.contains(name) {
                wanted.push(name.clone());
            }
        }
        if let Ok(Found::Usable(loaded)) = find(directory, &wanted, now, occasion) {
            return Ok(loaded);
        }
        // Two gateways that start at the same time must not leave the key of one beside the certificate of the other.
        let lock = lock_directory(directory);
        // Another gateway may have made a pair, or the other half of it, before the lock was free.
        let (reason, last) = match find(directory, &wanted, now, occasion)? {
            Found::Usable(loaded) => return Ok(loaded),
            Found::Unusable { reason, last } => (reason, last),
        };
        match (make_pair(directory, &wanted, reason, now, occasion), last) {
            (Err(error), Some(mut last)) => {
                let reason = format!("the certificate cannot be renewed: {error}");
                last.not_renewed = Some(CertificateError::of_content(&directory.join(CERTIFICATE_FILE), reason));
                Ok(last)
            }
            (made, _) => {
                let mut made = made?;
                let without =
                    |error| format!("{}: the certificate was made without the lock: {error}", directory.display());
                made.warnings.extend(lock.as_ref().err().map(without));
                Ok(made)
            }
        }
    }

    /// The files of the certificate and of the key.
    pub fn files(&self) -> [PathBuf; 2] {
        match self {
            Self::Files { certificate, key } => [certificate.clone(), key.clone()],
            Self::SelfSigned { directory, .. } => pair_in(directory),
        }
    }

    /// Takes the permissions of others for the key of a self-signed pair away. Returns what they could do, if it works.
    pub fn close_key(&self) -> Option<String> {
        let ([_, key], Self::SelfSigned { .. }) = (self.files(), self) else { return None };
        let mode = open_mode(&key)?;
        fs::set_permissions(&key, Permissions::from_mode(PRIVATE_MODE)).ok()?;
        let is_closed = open_mode(&key).is_none();
        let key = key.display();
        is_closed.then(|| format!(
            "{key}: the private key was open to others than its owner (mode {mode:04o}) and is now closed (0600); if anyone \
             may have read it, remove it with its certificate, and the gateway makes new ones"
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

enum Found {
    Usable(LoadedCertificate),
    Unusable {
        /// Why the pair is to be replaced; `None` where there is none.
        reason: Option<String>,
        /// The pair, if it is still valid.
        last: Option<LoadedCertificate>,
    },
}

fn find(
    directory: &Path,
    wanted: &[CertificateName],
    now: SystemTime,
    occasion: Occasion<'_>,
) -> Result<Found, CertificateError> {
    let [certificate, key] = pair_in(directory);
    let (mut loaded, [begin, end]) = match read(directory, now) {
        Ok(pair) => pair,
        Err(error) => {
            let is_missing = |path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
            let are_missing = is_missing(&certificate) && is_missing(&key);
            if !error.is_replaceable || !are_missing && matches!(occasion, Occasion::Run(_)) {
                return Err(error);
            }
            let reason = (!are_missing).then(|| error.to_string());
            return Ok(Found::Unusable { reason, last: None });
        }
    };
    let leaf = loaded.identity.end_entity_cert().and_then(ParsedCertificate::try_from);
    let leaf = leaf.map_err(|_| CertificateError::of_content(&certificate, MALFORMED))?;
    let missing = wanted.iter().filter(|name| !name.is_of(&leaf));
    let missing = missing.map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let renew_at = end.checked_sub(RENEWED_BEFORE).unwrap_or(SystemTime::UNIX_EPOCH);
    let is_early = now < begin;
    let is_due = now >= renew_at && !is_early;
    let is_replaceable = match occasion {
        Occasion::Start => true,
        Occasion::Run(served) => is_due && served.is_some_and(|served| served.cert == loaded.identity.cert),
    };
    let reason = if !missing.is_empty() {
        Some(format!("the last one does not name {missing}"))
    } else if is_due {
        Some(format!("the last one ends in less than {} days", RENEWED_BEFORE.as_secs() / 86_400))
    } else {
        // A clock that is wrong says the same of a pair that people trust.
        (is_early && now >= SystemTime::UNIX_EPOCH + RELEASED).then(|| "the last one is not valid yet".to_owned())
    };
    let Some(reason) = reason.filter(|_| is_replaceable) else {
        if !missing.is_empty() {
            let path = certificate.display();
            loaded.warnings.push(format!("{path}: the certificate does not name {missing} until the next start"));
        }
        return Ok(Found::Usable(loaded));
    };
    Ok(Found::Unusable { reason: Some(reason), last: Some(loaded).filter(|_| now <= end) })
}

/// Replaces no file before all of them are written, and then the key first, so that no person trusts a certificate that
/// has no key yet. While the gateway runs, loads instead what somebody has put there meanwhile.
fn make_pair(
    directory: &Path,
    names: &[CertificateName],
    reason: Option<String>,
    now: SystemTime,
    occasion: Occasion<'_>,
) -> Result<LoadedCertificate, CertificateError> {
    let ([certificate, key], authority) = (pair_in(directory), directory.join(AUTHORITY_FILE));
    let unmade = |error| CertificateError::of_content(&certificate, format!("a certificate cannot be made: {error}"));
    let issued = issue(names, now).map_err(unmade)?;
    let draft = |path: &Path, content: &str, mode| {
        Draft::write(path, content.as_bytes(), mode).map_err(CertificateError::unwritable(path))
    };
    let drafts = [
        draft(&key, &issued.key, PRIVATE_MODE)?,
        draft(&certificate, &issued.chain, CERTIFICATE_MODE)?,
        draft(&authority, &issued.authority, CERTIFICATE_MODE)?,
    ];
    if matches!(occasion, Occasion::Run(_))
        && let Found::Usable(put) = find(directory, &[], now, occasion)?
    {
        return Ok(put);
    }
    let published = drafts.into_iter().try_for_each(Draft::publish);
    let synced = published.and_then(|()| File::open(directory)?.sync_all());
    synced.map_err(CertificateError::unwritable(directory))?;
    let (mut loaded, _) = read(directory, now)?;
    loaded.made = Some(MadeCertificate { reason });
    Ok(loaded)
}

/// Reads the pair, and the first and the last second at which it is valid.
fn read(directory: &Path, now: SystemTime) -> Result<(LoadedCertificate, [SystemTime; 2]), CertificateError> {
    let [certificate, key] = pair_in(directory);
    let mut loaded = certificate::load(&certificate, &key, now)?;
    // A client that trusts the authority has it (RFC 8446 §4.4.2). Others may fail to parse it: mbedTLS refuses the
    // name constraints that authorities had before, even where it verifies nothing.
    Arc::make_mut(&mut loaded.identity).cert.truncate(1);
    let validity = validity(&loaded.identity).ok_or_else(|| CertificateError::of_content(&certificate, MALFORMED))?;
    Ok((loaded, validity))
}
