use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::load_self_signed;
use crate::tls::certificate::{CertificateError, LoadedCertificate, MAX_FILE_BYTES, load};
use crate::tls::source::{CERTIFICATE_FILE, KEY_FILE, Occasion};

/// Pairs that OpenSSL made: `openssl req -x509 -days 36500 -subj /CN=localhost -addext subjectAltName=DNS:localhost`.
const EC_CERTIFICATE: &str = include_str!("data/ec-cert.pem");
const EC_SEC1: &str = include_str!("data/ec-sec1.pem");
const EC_PKCS8: &str = include_str!("data/ec-pkcs8.pem");
const EC_SEC1_ENCRYPTED: &str = include_str!("data/ec-sec1-encrypted.pem");
const EC_PKCS8_ENCRYPTED: &str = include_str!("data/ec-pkcs8-encrypted.pem");
const RSA_CERTIFICATE: &str = include_str!("data/rsa-cert.pem");
const RSA_PKCS1: &str = include_str!("data/rsa-pkcs1.pem");
const RSA_PKCS8: &str = include_str!("data/rsa-pkcs8.pem");
/// A certificate that was valid for one day in 2020.
const EXPIRED_CERTIFICATE: &str = include_str!("data/expired-cert.pem");
/// A certificate of X.509 version 1.
const V1_CERTIFICATE: &str = include_str!("data/v1-cert.pem");
const SECP256K1_KEY: &str = include_str!("data/secp256k1.pem");

struct GivenFiles {
    _directory: tempfile::TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

impl GivenFiles {
    fn new(certificate: &str, key: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let paths = [("server.crt", certificate), ("server.key", key)].map(|(name, content)| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        });
        let [certificate, key] = paths;
        Self { _directory: directory, certificate, key }
    }

    fn load(&self) -> Result<LoadedCertificate, CertificateError> {
        load(&self.certificate, &self.key, SystemTime::now())
    }
}

#[test]
fn every_format_of_a_key_is_accepted() {
    for (certificate, key) in [
        (EC_CERTIFICATE, EC_SEC1),
        (EC_CERTIFICATE, EC_PKCS8),
        (RSA_CERTIFICATE, RSA_PKCS1),
        (RSA_CERTIFICATE, RSA_PKCS8),
    ] {
        let loaded = GivenFiles::new(certificate, key).load().unwrap();
        assert_eq!(loaded.warnings, Vec::<String>::new());
    }
}

#[test]
fn the_whole_chain_is_accepted_and_text_around_it_ignored() {
    let chain = format!("subject=CN = localhost\n{EC_CERTIFICATE}\nissuer=...\r\n{RSA_CERTIFICATE}");
    let loaded = GivenFiles::new(&chain, EC_PKCS8).load().unwrap();
    assert_eq!(loaded.identity.cert.len(), 2);
}

/// Editors of Windows put it there.
#[test]
fn a_byte_order_mark_is_ignored() {
    let [certificate, key] = [EC_CERTIFICATE, EC_PKCS8].map(|text| format!("\u{feff}{text}"));
    GivenFiles::new(&certificate, &key).load().unwrap();
}

#[test]
fn certificate_and_key_may_be_in_one_file() {
    let files = GivenFiles::new(&format!("{EC_SEC1}{EC_CERTIFICATE}"), "");
    load(&files.certificate, &files.certificate, SystemTime::now()).unwrap();
}

#[test]
fn a_fault_names_the_file_and_what_is_wrong() {
    let torn = EC_PKCS8.split_at(100).0;
    for (certificate, key, at_fault, expected) in [
        ("", EC_PKCS8, "server.crt", "the file is empty"),
        (EC_PKCS8, EC_PKCS8, "server.crt", "no certificate in PEM form (-----BEGIN CERTIFICATE-----)"),
        (&EC_CERTIFICATE[..200], EC_PKCS8, "server.crt", "damaged PEM: a section without its end, or not base64"),
        (V1_CERTIFICATE, EC_PKCS8, "server.crt", "the first certificate is not a valid X.509 version 3 certificate"),
        (EC_CERTIFICATE, "", "server.key", "the file is empty"),
        (EC_CERTIFICATE, EC_CERTIFICATE, "server.key", "no private key in PEM form (-----BEGIN PRIVATE KEY-----)"),
        (EC_CERTIFICATE, torn, "server.key", "damaged PEM: a section without its end, or not base64"),
        (
            EC_CERTIFICATE,
            EC_PKCS8_ENCRYPTED,
            "server.key",
            "the private key is encrypted; `openssl pkey -in KEY -out PLAIN_KEY` removes the passphrase",
        ),
        (
            EC_CERTIFICATE,
            EC_SEC1_ENCRYPTED,
            "server.key",
            "the private key is encrypted; `openssl pkey -in KEY -out PLAIN_KEY` removes the passphrase",
        ),
        (
            EC_CERTIFICATE,
            SECP256K1_KEY,
            "server.key",
            "the private key is damaged or of a kind that is not supported; the supported kinds are RSA of 2048 to 4096 \
             bits, ECDSA P-256, ECDSA P-384 and Ed25519",
        ),
    ] {
        let files = GivenFiles::new(certificate, key);
        let path = files.certificate.with_file_name(at_fault);
        assert_eq!(files.load().unwrap_err().to_string(), format!("{}: {expected}", path.display()));
    }
}

#[test]
fn a_key_of_another_certificate_names_both_files() {
    for (certificate, key) in [(EC_CERTIFICATE, RSA_PKCS8), (RSA_CERTIFICATE, EC_PKCS8)] {
        let files = GivenFiles::new(certificate, key);
        let expected = format!(
            "{}: the private key does not match the first certificate of {}",
            files.key.display(),
            files.certificate.display()
        );
        assert_eq!(files.load().unwrap_err().to_string(), expected);
    }
}

#[test]
fn no_error_quotes_the_key() {
    let broken = EC_PKCS8.replace("-----END", "!!!!-----END");
    let secret = EC_PKCS8.lines().nth(1).unwrap();
    let error = GivenFiles::new(EC_CERTIFICATE, &broken).load().unwrap_err();
    assert!(!format!("{error} {error:?}").contains(&secret[..8]), "{error:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_reported_in_the_words_of_the_system() {
    let files = GivenFiles::new(EC_CERTIFICATE, EC_PKCS8);
    fs::remove_file(&files.key).unwrap();
    let expected = format!("{}: No such file or directory (os error 2)", files.key.display());
    assert_eq!(files.load().unwrap_err().to_string(), expected);
    fs::create_dir(&files.key).unwrap();
    let expected =
        format!("{}: not a regular file; a folder is there: name a file, or move it away", files.key.display());
    assert_eq!(files.load().unwrap_err().to_string(), expected);
    let endless = load(Path::new("/dev/zero"), &files.key, SystemTime::now());
    assert_eq!(endless.map(drop).unwrap_err().to_string(), "/dev/zero: not a regular file");
    fs::File::create(&files.certificate).unwrap().set_len(MAX_FILE_BYTES as u64 + 1).unwrap();
    assert!(files.load().unwrap_err().to_string().ends_with("server.crt: the file is larger than 1 MiB"));
}

#[test]
fn an_expired_certificate_is_loaded_with_a_warning() {
    let files = GivenFiles::new(EXPIRED_CERTIFICATE, EC_PKCS8);
    let [warning] = <[String; 1]>::try_from(files.load().unwrap().warnings).unwrap();
    assert_eq!(
        warning,
        format!("{}: the certificate expired on Thu, 02 Jan 2020 00:00:00 GMT", files.certificate.display())
    );
}

#[test]
fn a_certificate_that_is_not_valid_yet_is_loaded_with_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    load_self_signed(directory.path(), &[], now, Occasion::Start).unwrap();
    let [certificate, key] = [CERTIFICATE_FILE, KEY_FILE].map(|name| directory.path().join(name));
    let warnings = |at| load(&certificate, &key, at).unwrap().warnings;
    assert_eq!(warnings(now), Vec::<String>::new());
    let before = now - Duration::from_secs(2 * 86_400);
    let [warning] = <[String; 1]>::try_from(warnings(before)).unwrap();
    assert!(warning.contains(": the certificate is not valid before "), "{warning}");
}

#[test]
fn a_key_with_permissions_for_others_is_loaded_with_a_warning_and_not_changed() {
    let files = GivenFiles::new(EC_CERTIFICATE, EC_PKCS8);
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o640)).unwrap();
    for _ in 0..2 {
        let [warning] = <[String; 1]>::try_from(files.load().unwrap().warnings).unwrap();
        let expected = "the private key is open to others than its owner (mode 0640); `chmod 600` closes it";
        assert_eq!(warning, format!("{}: {expected}", files.key.display()));
    }
}
