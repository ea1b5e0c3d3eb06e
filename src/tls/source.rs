//! Where the gateway's certificate comes from.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::certificate::{self, Loaded};
use super::fault::CertificateError;
use super::self_signed;

/// Where the certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// PEM files that somebody else keeps (`--tls-cert`, `--tls-key`). They may be one file.
    Files {
        /// The chain, the certificate of the gateway first.
        certificate: PathBuf,
        /// The private key of that one.
        key: PathBuf,
    },
    /// A pair of the gateway's own.
    SelfSigned {
        /// The directory that holds it.
        directory: PathBuf,
    },
}

impl CertificateSource {
    /// A pair of the gateway's own in the directory of the settings file.
    #[must_use]
    pub fn beside(settings: &Path) -> Self {
        // The parent of a bare file name is the empty path, which no system call takes.
        let parent = settings.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self::SelfSigned { directory: parent.unwrap_or(Path::new(".")).into() }
    }

    /// Loads the certificate, and makes or renews it where that is ours to do. To be called at the start, at SIGHUP,
    /// when one of [`CertificateSource::files`] changed, and at [`Loaded::renew_at`]; often does no harm: what is fit is
    /// left alone, and [`Acceptor::replace`](super::acceptor::Acceptor::replace) ignores what is no news.
    ///
    /// # Errors
    /// [`CertificateError`], which names the file. What was loaded before may still be served.
    pub fn load(&self, now: SystemTime) -> Result<Loaded, CertificateError> {
        match self {
            Self::Files { certificate, key } => certificate::load(certificate, key, now),
            Self::SelfSigned { directory } => self_signed::load(directory, now),
        }
    }

    /// The files of the certificate and of the key, to be watched.
    #[must_use]
    pub fn files(&self) -> [PathBuf; 2] {
        match self {
            Self::Files { certificate, key } => [certificate.clone(), key.clone()],
            Self::SelfSigned { directory } => {
                let paths = self_signed::Paths::within(directory);
                [paths.certificate, paths.key]
            }
        }
    }

    /// What clients can be told to trust, as in `curl --cacert`. `None` where they may trust it already.
    #[must_use]
    pub fn trust_anchor(&self) -> Option<PathBuf> {
        match self {
            Self::Files { .. } => None,
            Self::SelfSigned { directory } => Some(self_signed::Paths::within(directory).certificate),
        }
    }
}
