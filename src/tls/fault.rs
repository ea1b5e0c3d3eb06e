//! What is wrong with a certificate or its key, and what is merely worth telling.

use std::path::PathBuf;
use std::time::SystemTime;
use std::{error, fmt, io};

use httpdate::HttpDate;

/// A file, and why it is of no use.
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

/// What is wrong with a file. No fault can carry text of the file, which may be a key.
#[derive(Debug)]
pub enum CertificateFault {
    /// It is not there, or closed to us.
    Unreadable(io::Error),
    /// It cannot be made, or replaced.
    Unwritable(io::Error),
    /// A directory, a pipe or the like.
    NotAFile,
    /// Nothing in it.
    Empty,
    /// More than [`super::certificate::MAX_FILE_BYTES`].
    TooLarge,
    /// A section without its end, or what is not base64 in it (RFC 7468).
    NotPem,
    /// No `CERTIFICATE` section.
    NoCertificate,
    /// A certificate that cannot be parsed, or is not X.509 version 3 (RFC 5280).
    MalformedCertificate,
    /// No `PRIVATE KEY`, `RSA PRIVATE KEY` or `EC PRIVATE KEY` section.
    NoKey,
    /// The private key needs a passphrase, which nobody is there to give.
    EncryptedKey,
    /// A private key that cannot be parsed, or of an algorithm or size not served.
    UnsupportedKey,
    /// The private key is not that of the first certificate in this file.
    KeyMismatch {
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// A certificate could not be made: no random bytes, or a clock beyond the calendar.
    Issue(rcgen::Error),
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::Unwritable(error) => write!(f, "cannot be written: {error}"),
            Self::NotAFile => f.write_str("not a regular file"),
            Self::Empty => f.write_str("the file is empty"),
            Self::TooLarge => f.write_str("the file is larger than 1 MiB"),
            Self::NotPem => f.write_str("damaged PEM: a section without its end, or not base64"),
            Self::NoCertificate => f.write_str("no certificate in PEM form (-----BEGIN CERTIFICATE-----)"),
            Self::MalformedCertificate => f.write_str("the first certificate is not a valid X.509 version 3 certificate"),
            Self::NoKey => f.write_str("no private key in PEM form (-----BEGIN PRIVATE KEY-----)"),
            Self::EncryptedKey => {
                f.write_str("the private key is encrypted; `openssl pkey -in KEY -out PLAIN_KEY` takes the passphrase off")
            }
            Self::UnsupportedKey => f.write_str(
                "the private key is damaged or of a kind that is not supported: RSA of 2048 to 4096 bits, ECDSA P-256 or P-384, \
                 and Ed25519 are",
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
pub enum Notice {
    /// Its validity has ended.
    Expired {
        /// The file.
        path: PathBuf,
        /// When.
        at: SystemTime,
    },
    /// Its validity has not begun.
    NotYetValid {
        /// The file.
        path: PathBuf,
        /// When it will.
        from: SystemTime,
    },
    /// Others than its owner may read the key.
    KeyExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Others than its owner could read the self-signed key, and no longer can.
    KeyClosed {
        /// The file.
        path: PathBuf,
        /// Its permission bits as they were.
        mode: u32,
    },
    /// A self-signed certificate was made.
    Made {
        /// Its file.
        path: PathBuf,
        /// The certificate that clients can trust.
        authority: PathBuf,
        /// Why the one that was there was replaced.
        replaced: Option<String>,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { path, at } => write!(f, "{}: the certificate expired on {}", path.display(), date(*at)),
            Self::NotYetValid { path, from } => {
                write!(f, "{}: the certificate is not valid before {}", path.display(), date(*from))
            }
            Self::KeyExposed { path, mode } => write!(
                f,
                "{}: the private key is open to others than its owner (mode {mode:04o}); `chmod 600` closes it",
                path.display()
            ),
            Self::KeyClosed { path, mode } => write!(
                f,
                "{}: the private key was open to others than its owner (mode {mode:04o}) and is now closed (0600); remove it for \
                 a new one if anyone may have read it",
                path.display()
            ),
            Self::Made { path, authority, replaced } => {
                write!(f, "{}: a new self-signed certificate", path.display())?;
                if let Some(reason) = replaced {
                    write!(f, ", since {reason}")?;
                }
                write!(f, "; clients can trust {}", authority.display())
            }
        }
    }
}

/// The date as HTTP writes it, which takes none before 1970.
fn date(time: SystemTime) -> HttpDate {
    time.max(SystemTime::UNIX_EPOCH).into()
}
