//! Says what is wrong with a certificate or its key, and what a person should know about one in use.

use std::path::PathBuf;
use std::time::SystemTime;
use std::{error, fmt, io};

use httpdate::HttpDate;

use crate::sys::exposure::Exposure;

/// Why a file of a certificate or a key cannot be used.
#[derive(Debug)]
pub struct CertificateError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: CertificateFault,
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.fault)
    }
}

impl error::Error for CertificateError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.fault {
            CertificateFault::Unreadable(error) | CertificateFault::Unwritable(error) => Some(error),
            CertificateFault::Issue(error) => Some(error),
            _ => None,
        }
    }
}

/// What is wrong with a file. No fault can contain text of the file, which may be a key.
#[derive(Debug)]
pub enum CertificateFault {
    /// The file does not exist, or the process may not read it.
    Unreadable(io::Error),
    /// The file or its directory cannot be created or replaced.
    Unwritable(io::Error),
    /// The path names a directory, a pipe or the like.
    NotAFile,
    /// The file has no content.
    Empty,
    /// The file is larger than 1 MiB.
    TooLarge,
    /// A section has no end, or its content is not base64 (RFC 7468).
    NotPem,
    /// The file has no `CERTIFICATE` section.
    NoCertificate,
    /// The first certificate cannot be parsed, or is not X.509 version 3 (RFC 5280).
    MalformedCertificate,
    /// The file has no `PRIVATE KEY`, `RSA PRIVATE KEY` or `EC PRIVATE KEY` section.
    NoKey,
    /// The private key needs a passphrase, which a service cannot ask for.
    EncryptedKey,
    /// The private key cannot be parsed, or its algorithm or size is not supported.
    UnsupportedKey,
    /// The private key does not belong to the first certificate of the other file.
    KeyMismatch {
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// A certificate cannot be made: the system gives no random bytes, or its clock shows a year beyond 9999.
    Issue(rcgen::Error),
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Unwritable(error) => write!(f, "cannot be written: {error}; `--cert-dir` names another directory"),
            Self::NotAFile => f.write_str("not a regular file"),
            Self::Empty => f.write_str("the file is empty"),
            Self::TooLarge => f.write_str("the file is larger than 1 MiB"),
            Self::NotPem => f.write_str("damaged PEM: a section without its end, or not base64"),
            Self::NoCertificate => f.write_str("no certificate in PEM form (-----BEGIN CERTIFICATE-----)"),
            Self::MalformedCertificate => f.write_str("the first certificate is not a valid X.509 version 3 certificate"),
            Self::NoKey => f.write_str("no private key in PEM form (-----BEGIN PRIVATE KEY-----)"),
            Self::EncryptedKey => {
                f.write_str("the private key is encrypted; `openssl pkey -in KEY -out PLAIN_KEY` removes the passphrase")
            }
            Self::UnsupportedKey => f.write_str(
                "the private key is damaged or of a kind that is not supported; the supported kinds are RSA of 2048 to 4096 \
                 bits, ECDSA P-256, ECDSA P-384 and Ed25519",
            ),
            Self::KeyMismatch { certificate } => {
                write!(f, "the private key does not match the first certificate of {}", certificate.display())
            }
            Self::Issue(error) => write!(f, "a certificate cannot be made: {error}"),
        }
    }
}

/// What a person should know about a certificate in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateNotice {
    /// Its validity has ended.
    Expired {
        /// The file.
        path: PathBuf,
        /// When it ended.
        at: SystemTime,
    },
    /// Its validity has not begun.
    NotYetValid {
        /// The file.
        path: PathBuf,
        /// When it begins.
        from: SystemTime,
    },
    /// Other users can read or replace the key.
    KeyExposed(Exposure),
    /// Others than its owner had permissions for the self-signed key, which the gateway took away.
    KeyClosed {
        /// The file.
        path: PathBuf,
        /// Its permission bits before.
        mode: u32,
    },
    /// A self-signed certificate was made.
    Made {
        /// Its file.
        path: PathBuf,
        /// The file of the authority that clients can trust.
        authority: PathBuf,
        /// Why the former certificate was replaced, if there was one.
        replaced: Option<String>,
    },
    /// A self-signed certificate could not be renewed. It is valid for some more time.
    NotRenewed {
        /// Its file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A self-signed certificate was made without the lock that keeps other gateways from making one at the same time.
    Unlocked {
        /// The file to be locked.
        path: PathBuf,
        /// Why it was not locked.
        reason: String,
    },
}

impl fmt::Display for CertificateNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { path, at } => write!(f, "{}: the certificate expired on {}", path.display(), date(*at)),
            Self::NotYetValid { path, from } => {
                write!(
                    f,
                    "{}: the certificate is not valid before {}, by the clock of this computer",
                    path.display(),
                    date(*from)
                )
            }
            Self::KeyExposed(exposure) => f.write_str(&exposure.describe("the private key")),
            Self::KeyClosed { path, mode } => write!(
                f,
                "{}: the private key was open to others than its owner (mode {mode:04o}) and is now closed (0600); if anyone may \
                 have read it, remove the file, and the gateway makes a new key",
                path.display()
            ),
            Self::Made { path, authority, replaced } => {
                write!(f, "{}: a new self-signed certificate", path.display())?;
                if let Some(reason) = replaced {
                    write!(f, ", since {reason}")?;
                }
                write!(f, "; clients can trust {}", authority.display())
            }
            Self::NotRenewed { path, reason } => {
                write!(
                    f,
                    "{}: the certificate cannot be renewed and stays as long as it is valid: {reason}",
                    path.display()
                )
            }
            Self::Unlocked { path, reason } => {
                write!(f, "{}: the certificate was made without the lock: {reason}", path.display())
            }
        }
    }
}

/// Formats the date as HTTP does, which has no dates before 1970.
fn date(time: SystemTime) -> HttpDate {
    time.max(SystemTime::UNIX_EPOCH).into()
}
