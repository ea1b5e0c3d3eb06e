//! Certificates and keys for the gateway, of the kinds that people have.

use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
};
use rustls::pki_types::pem::PemObject;
use time::ext::NumericalDuration;

use super::*;

/// A key that `openssl genpkey` made for these tests, since rcgen makes no RSA keys with ring.
const RSA_KEY: &str = include_str!("rsa-key.pem");
pub(crate) const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A self-signed certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

pub(crate) struct PairFiles {
    directory: TempDir,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pair {
    pub(crate) fn ec() -> Self {
        Self::of(&KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap())
    }

    pub(crate) fn rsa() -> Self {
        Self::of(&KeyPair::from_pem_and_sign_algo(RSA_KEY, &PKCS_RSA_SHA256).unwrap())
    }

    pub(crate) fn kinds() -> Vec<(&'static str, Self)> {
        let made = |algorithm| Self::of(&KeyPair::generate_for(algorithm).unwrap());
        vec![
            ("EC P-256", Self::ec()),
            ("EC P-384", made(&PKCS_ECDSA_P384_SHA384)),
            ("Ed25519", made(&PKCS_ED25519)),
            ("RSA", Self::rsa()),
        ]
    }

    /// Returns a pair that is valid from and until this many days from now.
    pub(crate) fn valid(from_days: i64, until_days: i64) -> Self {
        let now = OffsetDateTime::now_utc();
        Self::valid_between(now + from_days.days(), now + until_days.days())
    }

    pub(crate) fn valid_between(from: OffsetDateTime, until: OffsetDateTime) -> Self {
        let mut params = CertificateParams::new(NAMES.map(str::to_owned)).unwrap();
        (params.not_before, params.not_after) = (from, until);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        Self { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    fn of(key: &KeyPair) -> Self {
        let params = CertificateParams::new(NAMES.map(str::to_owned)).unwrap();
        Self { certificate: params.self_signed(key).unwrap().pem(), key: key.serialize_pem() }
    }

    pub(crate) fn leaf(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }

    pub(crate) fn in_files(&self) -> PairFiles {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        let files = PairFiles { certificate, key, directory };
        files.replace(self);
        files
    }
}

impl PairFiles {
    /// Replaces both files by renames, the key last. For a moment the files do not belong together.
    pub(crate) fn replace(&self, pair: &Pair) {
        replace(&self.certificate, &pair.certificate);
        replace(&self.key, &pair.key);
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn arguments(&self) -> [&str; 4] {
        ["--tls-cert", self.certificate.to_str().unwrap(), "--tls-key", self.key.to_str().unwrap()]
    }
}

/// Replaces a file by a rename.
pub(crate) fn replace(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    fs::write(&draft, text).unwrap();
    fs::rename(&draft, path).unwrap();
}
