//! A certificate with its key: reads both from PEM files (RFC 7468), and checks them.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use httpdate::HttpDate;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use yasna::{ASN1Result, BERReader, BERReaderSeq, Tag};

use crate::sys::advice::{Refused, advised, of_clock};
use crate::sys::secret_file::{self, BYTE_ORDER_MARK, exposures};

/// The object identifier 2.5.29.17 in DER: subjectAltName (RFC 5280 §4.2.1.6).
const SUBJECT_ALT_NAME: &[u8] = b"\x06\x03\x55\x1d\x11";

/// The tags of `extensions` in a certificate, and of `dNSName` and `iPAddress` in a name of it (RFC 5280 §4.1, §4.2.1.6).
const EXTENSIONS: u64 = 3;
const DNS_NAME: u64 = 2;
const IP_ADDRESS: u64 = 7;

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
    /// The last second at which it is valid, if that can be read.
    pub not_after: Option<SystemTime>,
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
    let validity = identity.cert.first().and_then(|leaf| Some(parse(leaf).ok()?.validity));
    let mut warnings = exposures(key, "the private key");
    if let Some([from, end]) = validity {
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
    let (identity, not_after) = (Arc::new(identity), validity.map(|[_, end]| end));
    Ok(LoadedCertificate { identity, not_after, warnings, made: None, not_renewed: None })
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

/// The part of a certificate that the gateway reads.
pub(super) struct CertificateContent {
    /// The first and the last second at which it is valid (RFC 5280 §4.1.2.5).
    pub(super) validity: [SystemTime; 2],
    /// Its names, without those that are for more than one computer.
    pub(super) names: Vec<CertificateName>,
}

/// Reads a `Certificate` (RFC 5280 §4.1) of version 3, as rustls accepts no other.
pub(super) fn parse(der: &[u8]) -> ASN1Result<CertificateContent> {
    yasna::parse_der(der, |certificate| {
        certificate.read_sequence(|parts| {
            let content = parts.next().read_sequence(read_body)?;
            skip(parts, 2)?;
            Ok(content)
        })
    })
}

/// Reads a `TBSCertificate`: version, serial number, signature, issuer, validity, and at its end the extensions.
fn read_body(fields: &mut BERReaderSeq<'_, '_>) -> ASN1Result<CertificateContent> {
    skip(fields, 4)?;
    let validity = fields.next().read_sequence(|ends| Ok([read_time(ends)?, read_time(ends)?]))?;
    let mut names = Vec::new();
    let mut field = |field: BERReader<'_, '_>| {
        let tag = field.lookahead_tag()?;
        if tag != Tag::context(EXTENSIONS) {
            return field.read_der().map(drop);
        }
        field.read_tagged(tag, |list| list.read_sequence_of(|extension| read_extension(extension, &mut names)))
    };
    while fields.read_optional(&mut field)?.is_some() {}
    Ok(CertificateContent { validity, names })
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

/// Reads an `Extension`: identifier, whether it is critical, value.
fn read_extension(extension: BERReader<'_, '_>, names: &mut Vec<CertificateName>) -> ASN1Result<()> {
    extension.read_sequence(|parts| {
        let identifier = parts.next().read_der()?;
        parts.read_optional(|critical| critical.read_bool())?;
        let value = parts.next().read_bytes()?;
        if identifier == SUBJECT_ALT_NAME {
            let found = yasna::parse_der(&value, |list| list.collect_sequence_of(read_name));
            names.extend(found.unwrap_or_default().into_iter().flatten());
        }
        Ok(())
    })
}

/// Reads a `GeneralName` (RFC 5280 §4.2.1.6).
fn read_name(name: BERReader<'_, '_>) -> ASN1Result<Option<CertificateName>> {
    let tag = name.lookahead_tag()?;
    if tag == Tag::context(DNS_NAME) {
        let text = name.read_tagged_implicit(tag, |text| text.read_ia5_string())?;
        // Clients do not take an address from a `dNSName`.
        return Ok(text.parse().ok().filter(|_| text.parse::<IpAddr>().is_err()));
    }
    if tag == Tag::context(IP_ADDRESS) {
        let bytes = name.read_tagged_implicit(tag, |bytes| bytes.read_bytes())?;
        let v4 = <[u8; 4]>::try_from(bytes.as_slice()).map(IpAddr::from);
        let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes.as_slice()).map(IpAddr::from));
        return Ok(address.ok().and_then(CertificateName::of_address));
    }
    name.read_der().map(|_| None)
}

/// One name or address of a computer in a URL: no wildcard, and no address that means any. It has one spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateName(String);

impl CertificateName {
    fn of_address(address: IpAddr) -> Option<Self> {
        (!address.is_unspecified()).then(|| Self(address.to_string()))
    }
}

impl FromStr for CertificateName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = match text.parse() {
            Ok(address) => Self::of_address(address),
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
    fn the_names_of_a_certificate_are_found() {
        let texts = ["pi.local", "*.example.org", "192.0.2.7", "2001:db8::1"];
        let params = CertificateParams::new(texts.map(str::to_owned)).unwrap();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let names: Vec<_> = parse(certificate.der()).unwrap().names.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["pi.local", "192.0.2.7", "2001:db8::1"]);
        let cut = &certificate.der()[..certificate.der().len() - 1];
        assert!([cut, b"", b"\x30\x00"].iter().all(|der| parse(der).is_err()));
    }
}
