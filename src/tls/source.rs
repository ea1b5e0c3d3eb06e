//! Loads the certificate of the gateway from where the options say it is.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::certificate::{self, LoadedCertificate};
use super::fault::CertificateError;
use super::names::CertificateName;
use super::self_signed;

/// Where the certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// PEM files that other programs keep (`--tls-cert`, `--tls-key`). Both may be the same file.
    Files {
        /// The chain, with the certificate of the gateway first.
        certificate: PathBuf,
        /// The private key of the gateway's certificate.
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
    /// Returns the source of a self-signed pair with these names in the directory of the settings file.
    #[must_use]
    pub fn beside(settings: &Path, names: Vec<CertificateName>) -> Self {
        // The parent of a bare file name is the empty path, which no system call accepts.
        let parent = settings.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self::SelfSigned { directory: parent.unwrap_or(Path::new(".")).into(), names }
    }

    /// Loads the certificate, and makes or renews a self-signed one where that is necessary. Call it at the start, at
    /// SIGHUP, when one of [`CertificateSource::files`] has changed, and from time to time. Further calls
    /// do no harm: a usable pair stays as it is, and [`Acceptor::replace`](super::acceptor::Acceptor::replace) ignores a
    /// certificate that it has already.
    ///
    /// # Errors
    /// [`CertificateError`], which names the file. A certificate that was loaded before may still be served.
    pub fn load(&self, now: SystemTime) -> Result<LoadedCertificate, CertificateError> {
        match self {
            Self::Files { certificate, key } => certificate::load(certificate, key, now),
            Self::SelfSigned { directory, names } => self_signed::load(directory, names, now),
        }
    }

    /// Returns the files of the certificate and of the key, which the caller watches for changes.
    #[must_use]
    pub fn files(&self) -> [PathBuf; 2] {
        match self {
            Self::Files { certificate, key } => [certificate.clone(), key.clone()],
            Self::SelfSigned { directory, .. } => {
                let paths = self_signed::PairPaths::within(directory);
                [paths.certificate, paths.key]
            }
        }
    }

    /// Returns the file that clients can be made to trust, for example by `curl --cacert`. `None` where the clients may
    /// trust the certificate already.
    #[must_use]
    pub fn trust_anchor(&self) -> Option<PathBuf> {
        match self {
            Self::Files { .. } => None,
            Self::SelfSigned { directory, .. } => Some(self_signed::PairPaths::within(directory).certificate),
        }
    }
}
