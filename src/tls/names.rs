//! The names and addresses that a certificate is valid for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use rustls::pki_types::{DnsName, ServerName};
use yasna::{ASN1Result, BERReader, Tag};

use super::certificate::first_then_skip;

/// The object identifier 2.5.29.17 in DER: subjectAltName (RFC 5280 §4.2.1.6).
const SUBJECT_ALT_NAME: &[u8] = b"\x06\x03\x55\x1d\x11";

/// The tags of `extensions` in a certificate, and of `dNSName` and `iPAddress` in a name of it (RFC 5280 §4.1, §4.2.1.6).
const EXTENSIONS: u64 = 3;
const DNS_NAME: u64 = 2;
const IP_ADDRESS: u64 = 7;

/// One name or address of a computer, as clients write it in a URL: no wildcard, and no address that means any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateName(ServerName<'static>);

impl CertificateName {
    /// Returns the name as clients compare it with a certificate.
    pub(super) fn server_name(&self) -> &ServerName<'static> {
        &self.0
    }

    /// Returns the address; `None` for a name.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self.0 {
            ServerName::IpAddress(address) => Some(address.into()),
            _ => None,
        }
    }

    fn of_address(address: IpAddr) -> Option<Self> {
        (!address.is_unspecified()).then(|| Self(address.into()))
    }
}

impl FromStr for CertificateName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = match text.parse() {
            Ok(address) => Self::of_address(address),
            // A client leaves out the dot at the end of a name before it compares the name (RFC 6066 §3).
            Err(_) if text.ends_with('.') => None,
            Err(_) => DnsName::try_from(text.to_ascii_lowercase()).ok().map(|name| Self(ServerName::DnsName(name))),
        };
        name.ok_or(
            "not the name or the address of one computer, such as raspberrypi.local or 192.168.1.7, without a wildcard \
             or a port",
        )
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_str())
    }
}

/// Returns the names by which clients on this machine address the gateway.
pub(super) fn own_names() -> impl Iterator<Item = CertificateName> {
    let localhost = "localhost".parse();
    debug_assert!(localhost.is_ok(), "the constant is a DNS name");
    let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    localhost.into_iter().chain(addresses.into_iter().filter_map(CertificateName::of_address))
}

/// Returns the names in a certificate that are each for one computer. There are none where `der` is no certificate.
pub(super) fn names_in(der: &[u8]) -> Vec<CertificateName> {
    let mut names = Vec::new();
    let read = yasna::parse_der(der, |certificate| {
        certificate.read_sequence(|parts| first_then_skip(parts, |body| names_of_body(body, &mut names)))
    });
    read.map(|()| names).unwrap_or_default()
}

/// ```text
/// TBSCertificate ::= SEQUENCE { ..., extensions [3] EXPLICIT SEQUENCE OF Extension OPTIONAL }
/// Extension ::= SEQUENCE { extnID OBJECT IDENTIFIER, critical BOOLEAN DEFAULT FALSE, extnValue OCTET STRING }
/// ```
fn names_of_body(body: BERReader<'_, '_>, names: &mut Vec<CertificateName>) -> ASN1Result<()> {
    let tag = Tag::context(EXTENSIONS);
    let mut extension = |extension: BERReader<'_, '_>| {
        extension.read_sequence(|parts| {
            let identifier = parts.next().read_der()?;
            parts.read_optional(|critical| critical.read_bool())?;
            let value = parts.next().read_bytes()?;
            if identifier == SUBJECT_ALT_NAME {
                yasna::parse_der(&value, |list| list.read_sequence_of(|one| name(one).map(|name| names.extend(name))))?;
            }
            Ok(())
        })
    };
    body.read_sequence(|fields| {
        let mut field = |field: BERReader<'_, '_>| match field.lookahead_tag()? == tag {
            true => field.read_tagged(tag, |list| list.read_sequence_of(&mut extension)),
            false => field.read_der().map(drop),
        };
        while fields.read_optional(&mut field)?.is_some() {}
        Ok(())
    })
}

/// Reads a `GeneralName`.
fn name(name: BERReader<'_, '_>) -> ASN1Result<Option<CertificateName>> {
    let tag = name.lookahead_tag()?;
    if tag == Tag::context(DNS_NAME) {
        return Ok(name.read_tagged_implicit(tag, |text| text.read_ia5_string())?.parse().ok());
    }
    if tag == Tag::context(IP_ADDRESS) {
        let bytes = name.read_tagged_implicit(tag, |bytes| bytes.read_bytes())?;
        let v4 = <[u8; 4]>::try_from(bytes.as_slice()).map(IpAddr::from);
        let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes.as_slice()).map(IpAddr::from));
        return Ok(address.ok().and_then(CertificateName::of_address));
    }
    name.read_der().map(|_| None)
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
        let names: Vec<_> = names_in(certificate.der()).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["pi.local", "192.0.2.7", "2001:db8::1"]);
        let cut = &certificate.der()[..certificate.der().len() - 1];
        assert!([cut, b"", b"\x30\x00"].iter().all(|der| names_in(der).is_empty()));
    }
}
