//! The URL of a gateway, as a client has it.

use std::str::FromStr;

use super::listen_address::address_or_name;
use crate::sys::host::HostPort;

/// `https://localhost:12358`: an origin, perhaps with a path. The parser of the arguments shows each value that it
/// refuses, and this one may hold a token. So whoever uses the URL parses it, and no fault shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayUrl {
    /// Where to connect.
    pub address: HostPort,
    /// The name that the certificate must have; `None` for http.
    pub tls_name: Option<String>,
    /// The scheme and the authority, for people.
    pub origin: String,
    /// What `Host` says (RFC 9110 §7.2).
    pub authority: String,
    /// It may be empty.
    pub path: String,
}

impl FromStr for GatewayUrl {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let usual_port = match scheme {
            "https" => ":443",
            "http" => ":80",
            _ => return Err("must begin with https:// or http://"),
        };
        if rest.contains(['?', '#', '@']) {
            return Err("has a query, a fragment or a user; the token comes from the settings file");
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a white space, a control character or a character that is not ASCII");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let with_port = format!("{authority}{}", if has_port { "" } else { usual_port });
        let address = address_or_name(&with_port).ok().filter(|address| address.port != 0);
        let address = address.ok_or("names no host, or no port that exists")?;
        // Other machines and certificates do not know the interface of an address.
        let name = match address.without_brackets().split('%').next() {
            // It leads to this computer, and no certificate names it.
            Some("0.0.0.0" | "::") => "localhost",
            name => name.unwrap_or_default(),
        };
        let (start, zone) = authority.split_once('%').unwrap_or((authority, ""));
        Ok(Self {
            tls_name: Some(name.into()).filter(|_| scheme == "https"),
            address,
            origin: format!("{scheme}://{authority}"),
            authority: format!("{start}{}", zone.trim_start_matches(|character| character != ']')),
            path: path.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_leave_out_its_port_and_its_path() {
        for (url, origin, port, path) in [
            ("https://localhost", "https://localhost", 443, ""),
            ("http://[::1]/", "http://[::1]", 80, "/"),
            ("http://127.0.0.1:1/a/b", "http://127.0.0.1:1", 1, "/a/b"),
            ("https://[::1]:2", "https://[::1]:2", 2, ""),
            ("https://[fe80::1%2]:2", "https://[fe80::1%2]:2", 2, ""),
            ("https://[fe80::1%eth0]", "https://[fe80::1%eth0]", 443, ""),
        ] {
            let found: GatewayUrl = url.parse().unwrap();
            assert_eq!((found.origin.as_str(), found.address.port, found.path.as_str()), (origin, port, path));
        }
    }

    #[test]
    fn the_certificate_has_no_zone_and_names_this_computer() {
        for (url, authority, name) in [
            ("https://[fe80::1%2]:5", "[fe80::1]:5", "fe80::1"),
            ("https://[fe80::1%eth0]:5", "[fe80::1]:5", "fe80::1"),
            ("https://[fe80::1%eth0]", "[fe80::1]", "fe80::1"),
            ("https://[::1]:5", "[::1]:5", "::1"),
            ("https://0.0.0.0:5", "0.0.0.0:5", "localhost"),
            ("https://[0::0]:5", "[0::0]:5", "localhost"),
            ("https://h:5", "h:5", "h"),
        ] {
            let found: GatewayUrl = url.parse().unwrap();
            assert_eq!((found.authority.as_str(), found.tls_name.as_deref()), (authority, Some(name)), "{url}");
        }
    }

    #[test]
    fn a_fault_does_not_show_the_url() {
        for url in [
            "https://h/?token=s3cret",
            "s3cret",
            "http://s3cret@h",
            "http://h:s3cret",
            "http://",
            "http://é",
            "http://h:0",
        ] {
            let fault = url.parse::<GatewayUrl>().unwrap_err();
            assert!(!fault.contains("s3cret"), "{fault}");
        }
    }
}
