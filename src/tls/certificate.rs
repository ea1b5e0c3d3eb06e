//! A certificate with its key: reads both from PEM files (RFC 7468), and checks them.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use httpdate::HttpDate;
use rustls::client::verify_server_name;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use yasna::{ASN1Result, BERReaderSeq};

use crate::sys::advice::{Refused, advised, of_clock};
use crate::sys::secret_file::{self, BYTE_ORDER_MARK, exposures};

/// Bytes of a file of certificates or keys: a chain has about 4 KiB, and a store of all public authorities 250 KiB.
pub(super) const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Why a file of a certificate or a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateError {
    /// The file or its directory.
    pub path: PathBuf,
    /// The fault. It has no text of the file, which may be a key.
    pub reason: String,
    /// Whether a new self-signed file may take its place. A file that cannot be read now may be undamaged.
    pub(super) is_replaceable: bool,
}

impl CertificateError {
    /// The content of the file is at fault.
    pub fn of_content(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into(), is_replaceable: true }
    }

    pub(super) fn unwritable(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| {
            let error = advised(error, Refused::Path(path));
            let reason = format!("cannot be written: {error}; `--cert-dir` names another directory");
            Self { path: path.into(), reason, is_replaceable: false }
        }
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// A certificate that can be served.
#[derive(Clone, Debug)]
pub struct LoadedCertificate {
    /// The chain, with the gateway's own certificate first, and the private key of that certificate.
    pub identity: Arc<CertifiedKey>,
    /// The states of the files in which clients may refuse it, or other users may use its key, for a person.
    pub warnings: Vec<String>,
    /// Where it was made by this load.
    pub made: Option<MadeCertificate>,
    /// Why it could not be renewed. It is valid for some more time.
    pub not_renewed: Option<CertificateError>,
}

/// A self-signed certificate that was made.
#[derive(Clone, Debug)]
pub struct MadeCertificate {
    /// Why it takes the place of another one; `None` where there was none.
    pub reason: Option<String>,
}

/// Loads the chain and the key, which may be in one file, and checks that they belong together. A certificate that has
/// expired or is not valid yet is loaded with a warning: clients may accept it, and the clock may be wrong.
pub(super) fn load(certificate: &Path, key: &Path, now: SystemTime) -> Result<LoadedCertificate, CertificateError> {
    let in_certificate = |reason| CertificateError::of_content(certificate, reason);
    let in_key = |reason: &str| CertificateError::of_content(key, reason);

    let chain = CertificateDer::pem_slice_iter(&read_file(certificate)?).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| in_certificate(NOT_PEM))?;
    if chain.is_empty() {
        return Err(in_certificate("no certificate in PEM form (-----BEGIN CERTIFICATE-----)"));
    }
    // The TLS library sends them as they are, and clients refuse all of them.
    if chain.iter().skip(1).any(|der| yasna::parse_der(der, |it| it.read_der()).is_err()) {
        return Err(in_certificate("a certificate behind the first one is damaged"));
    }
    let private = parse_key(&read_file(key)?).map_err(in_key)?;
    let signing = any_supported_type(&private).map_err(|_| {
        in_key(
            "the private key is damaged or of a kind that is not supported; the supported kinds are RSA of 2048 to 4096 \
             bits, ECDSA P-256, ECDSA P-384 and Ed25519",
        )
    })?;
    let identity = CertifiedKey::new(chain, signing);
    identity.keys_match().map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            in_key(&format!("the private key does not match the first certificate of {}", certificate.display()))
        }
        _ => in_certificate(MALFORMED),
    })?;
    let mut warnings = exposures(key, "the private key");
    if let Some([from, end]) = validity(&identity) {
        let path = certificate.display();
        // HTTP has no dates before 1970.
        let date = |time: SystemTime| HttpDate::from(time.max(SystemTime::UNIX_EPOCH));
        if now < from {
            let (from, cure) = (date(from), of_clock(now));
            warnings.push(format!("{path}: the certificate is not valid before {from}; {cure}"));
        }
        if now > end {
            warnings.push(format!("{path}: the certificate expired on {}", date(end)));
        }
    }
    Ok(LoadedCertificate { identity: Arc::new(identity), warnings, made: None, not_renewed: None })
}

/// Returns the first and the last second at which the certificate is valid, if they can be read.
pub(super) fn validity(identity: &CertifiedKey) -> Option<[SystemTime; 2]> {
    read_validity(identity.cert.first()?).ok()
}

/// Returns the last second at which the certificate is valid, if that can be read.
pub fn not_after(identity: &CertifiedKey) -> Option<SystemTime> {
    validity(identity).map(|[_, end]| end)
}

fn read_file(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let (_, content) = secret_file::read(path, MAX_FILE_BYTES).map_err(|error| CertificateError {
        path: path.into(),
        is_replaceable: matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        reason: advised(error, Refused::Path(path)).to_string(),
    })?;
    let content = content.strip_prefix(BYTE_ORDER_MARK).map(<[u8]>::to_vec).unwrap_or(content);
    let fault = match content.len() {
        0 => "the file is empty",
        length if length > MAX_FILE_BYTES => "the file is larger than 1 MiB",
        _ if content.split(|byte| matches!(byte, b'\n' | b'\r')).any(hides_section) => {
            "damaged PEM: a section begins in the middle of a line"
        }
        _ => return Ok(content),
    };
    Err(CertificateError::of_content(path, fault))
}

/// Returns whether a section begins on the line that ends another one, or behind a byte order mark, as in a file that
/// is put together from several. The parser skips such a line.
fn hides_section(line: &[u8]) -> bool {
    [b"-----END ", BYTE_ORDER_MARK].iter().any(|start| line.starts_with(start))
        && memchr::memmem::find(line, b"-----BEGIN ").is_some()
}

/// The first certificate cannot be parsed, or is not X.509 version 3 (RFC 5280).
pub(super) const MALFORMED: &str = "the first certificate is not a valid X.509 version 3 certificate";

/// A section has no end, or its content is not base64 (RFC 7468).
const NOT_PEM: &str = "damaged PEM: a section without its end, or not base64";

fn parse_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    let contains = |what: &[u8]| memchr::memmem::find(text, what).is_some();
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        // The first is PKCS#8 (RFC 5958 §3), the second the older form in the headers of a section (RFC 1421 §4.6.1.1).
        _ if contains(b"BEGIN ENCRYPTED PRIVATE KEY") || contains(b"Proc-Type: 4,ENCRYPTED") => {
            "the private key is encrypted; `openssl pkey -in KEY -out PLAIN_KEY` removes the passphrase"
        }
        pem::Error::NoItemsFound => "no private key in PEM form (-----BEGIN PRIVATE KEY-----)",
        _ => NOT_PEM,
    })
}

/// Reads the validity (RFC 5280 §4.1.2.5) in a `Certificate` of version 3, as rustls accepts no other.
fn read_validity(der: &[u8]) -> ASN1Result<[SystemTime; 2]> {
    yasna::parse_der(der, |certificate| {
        certificate.read_sequence(|parts| {
            // Before it in the `TBSCertificate` are version, serial number, signature and issuer.
            let validity = parts.next().read_sequence(|fields| {
                skip(fields, 4)?;
                let validity = fields.next().read_sequence(|ends| Ok([read_time(ends)?, read_time(ends)?]))?;
                while fields.read_optional(|field| field.read_der())?.is_some() {}
                Ok(validity)
            })?;
            skip(parts, 2)?;
            Ok(validity)
        })
    })
}

fn skip(elements: &mut BERReaderSeq<'_, '_>, count: usize) -> ASN1Result<()> {
    (0..count).try_for_each(|_| elements.next().read_der().map(drop))
}

/// Reads `Time ::= CHOICE { UTCTime, GeneralizedTime }`.
fn read_time(ends: &mut BERReaderSeq<'_, '_>) -> ASN1Result<SystemTime> {
    Ok(match ends.read_optional(|end| end.read_utctime())? {
        Some(time) => (*time.datetime()).into(),
        None => (*ends.next().read_generalized_time()?.datetime()).into(),
    })
}

/// One name or address of a computer in a URL: no wildcard, and no address that means any. It has one spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateName(String);

impl CertificateName {
    /// Returns whether clients that use the name accept a certificate for it.
    pub(super) fn is_of(&self, certificate: &ParsedCertificate<'_>) -> bool {
        ServerName::try_from(self.0.as_str()).is_ok_and(|name| verify_server_name(certificate, &name).is_ok())
    }
}

impl FromStr for CertificateName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = match text.parse() {
            Ok(address) => Some(address).filter(|it: &IpAddr| !it.is_unspecified()).map(|it| Self(it.to_string())),
            // A client leaves out the dot at the end of a name before it compares the name (RFC 6066 §3).
            Err(_) if text.ends_with('.') => None,
            Err(_) => DnsName::try_from(text).ok().map(|_| Self(text.to_ascii_lowercase())),
        };
        name.ok_or(
            "not the name or the address of one computer, such as raspberrypi.local or 192.168.1.7, without a wildcard \
             or a port",
        )
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn a_name_is_for_one_computer() {
        for (text, shown) in [
            ("Raspberrypi.Local", "raspberrypi.local"),
            ("my_pi", "my_pi"),
            ("192.0.2.7", "192.0.2.7"),
            ("FE80::1", "fe80::1"),
        ] {
            assert_eq!(text.parse::<CertificateName>().unwrap().to_string(), shown);
        }
        let long = "x".repeat(64);
        for text in [
            "",
            " ",
            ".",
            "*",
            "*.local",
            "a.*",
            "a b",
            "pi.local.",
            "pi..local",
            "-pi",
            "pi-",
            "h:1",
            "http://h",
            "h/",
            "[::1]",
            "fe80::1%eth0",
            "0.0.0.0",
            "::",
            "1.2.3",
            "1.2.3.4.5",
            "10.0.0.0/8",
            "p\u{ef}",
            "a,b",
            "u@h",
            &long,
        ] {
            assert!(text.parse::<CertificateName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_is_found_in_the_certificate_that_has_it() {
        let texts = ["pi.local", "my_pi", "*.example.org", "192.0.2.7", "2001:db8::1"];
        let params = CertificateParams::new(texts.map(str::to_owned)).unwrap();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let parsed = ParsedCertificate::try_from(certificate.der()).unwrap();
        for (name, is_of) in [
            ("pi.local", true),
            ("Pi.Local", true),
            ("my_pi", true),
            ("a.example.org", true),
            ("192.0.2.7", true),
            ("2001:db8::1", true),
            ("example.org", false),
            ("other.local", false),
            ("192.0.2.8", false),
        ] {
            assert_eq!(name.parse::<CertificateName>().unwrap().is_of(&parsed), is_of, "{name}");
        }
    }

    #[test]
    fn the_validity_is_read_of_a_whole_certificate_alone() {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Before 2050 a certificate has the one form of a time, and from then on the other one.
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2026, 1, 2), rcgen::date_time_ymd(2051, 3, 4));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let since = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(read_validity(certificate.der()).unwrap(), [since(1_767_312_000), since(2_561_500_800)]);
        let cut = &certificate.der()[..certificate.der().len() - 1];
        assert!([cut, b"", b"\x30\x00"].iter().all(|der| read_validity(der).is_err()));
    }
}
