//! | file | the question it answers |
//! |---|---|
//! | `certificates` | is a certificate that is given loaded, and is each fault named? |
//! | `source` | is the pair of the gateway made, kept, renewed and replaced at the right times? |
//! | `sessions` | does a session do what the client of rustls expects? |
//! | `programs` | do the programs that people use accept the certificate and the session? |
//! | `client` | the client of rustls that `sessions` uses |

mod certificates;
mod client;
mod programs;
mod sessions;
mod source;

use std::path::Path;
use std::time::SystemTime;

use super::certificate::{CertificateError, CertificateName, LoadedCertificate};
use super::source::{CertificateSource, Occasion};

/// Loads the self-signed pair in a directory that exists.
fn load_self_signed(
    directory: &Path,
    names: &[CertificateName],
    now: SystemTime,
    occasion: Occasion<'_>,
) -> Result<LoadedCertificate, CertificateError> {
    CertificateSource::SelfSigned { directory: directory.into(), names: names.into() }.load(now, occasion)
}
