//! Where messages are posted, and the head of every request: from the arguments and from the settings file.

use std::path::PathBuf;

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

use crate::cli::{DEFAULT_PORT, SendArguments};
use crate::commands::failure::{CommandFailure, NOT_TRUSTED, SETTINGS, TOKEN_REFUSED};
use crate::gateway::Failure;
use crate::server::listen_address::TcpAddress;
use crate::settings::{self, Access};
use crate::tls::source::CertificateSource;

/// The path of the one endpoint, for URLs that name none.
const PATH: &str = "/api/message";

/// Where a gateway listens.
pub(super) enum Address {
    Unix(PathBuf),
    Tcp {
        address: TcpAddress,
        /// The name that the certificate must have; `None` without TLS.
        tls_name: Option<String>,
    },
}

/// A gateway and its settings file.
pub(super) struct Destination {
    pub(super) address: Address,
    /// The address for people. It has no path and no query, which could hold a secret.
    pub(super) name: String,
    settings: PathBuf,
    target: String,
    authority: String,
}

impl Destination {
    /// Returns what the arguments name, and by default the gateway of the user's settings.
    pub(super) fn new(arguments: &SendArguments) -> Result<Self, CommandFailure> {
        let settings = match &arguments.settings {
            Some(path) => path.clone(),
            None => settings::default_path().map_err(Failure::configuration)?,
        };
        let (path, authority) = (PATH.into(), String::from("localhost"));
        match (&arguments.url, &arguments.unix) {
            (Some(_), Some(_)) => Err(Failure::Usage("--url and --unix exclude each other".into()).into()),
            (None, Some(socket)) => {
                let name = format!("unix:{}", socket.display());
                Ok(Self { address: Address::Unix(socket.clone()), name, settings, target: path, authority })
            }
            (url, None) => {
                let default = format!("https://localhost:{DEFAULT_PORT}");
                Self::of_url(url.as_deref().unwrap_or(&default), settings)
                    .map_err(|fault| Failure::Usage(format!("the value of --url {fault}")).into())
            }
        }
    }

    /// Returns the gateway at this URL, or a fault that does not show the URL, which may hold a token.
    fn of_url(url: &str, settings: PathBuf) -> Result<Self, &'static str> {
        let (is_tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err("must begin with https:// or http://"),
        };
        if rest.contains(['?', '#', '@']) {
            return Err("has a query, a fragment or a user; the token comes from the settings file");
        }
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has a white space, a control character or a character that is not ASCII");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let with_port = format!(
            "{authority}{}",
            if has_port {
                ""
            } else if is_tls {
                ":443"
            } else {
                ":80"
            }
        );
        let address: TcpAddress = with_port.parse().map_err(|_| "names no host, or no port that exists")?;
        let tls_name = is_tls.then(|| match &address {
            TcpAddress::Address(address) => address.ip().to_string(),
            TcpAddress::Name { host, .. } => host.clone(),
        });
        let scheme = if is_tls { "https" } else { "http" };
        Ok(Self {
            address: Address::Tcp { address, tls_name },
            name: format!("{scheme}://{authority}"),
            settings,
            target: if matches!(path, "" | "/") { PATH } else { path }.into(),
            authority: authority.into(),
        })
    }

    /// Reads the settings file, and returns what each request begins with, up to the value of its `Content-Length`.
    pub(super) fn request_head(&self) -> Result<Vec<u8>, CommandFailure> {
        let refused = |reason: String| CommandFailure::new(SETTINGS, reason);
        let token = match settings::read(&self.settings).access {
            Ok(Access::Open(token)) => token,
            Ok(Access::Disabled(reason)) => {
                let reason = reason.describe(&self.settings);
                return Err(refused(format!(
                    "{reason}, so the gateway does not listen; write OPEN_REST_API = True and a TOKEN into the file, or \
                     name another one with --settings"
                )));
            }
            Err(error) => return Err(refused(format!("the settings cannot be used: {error}"))),
        };
        let (target, authority) = (&self.target, &self.authority);
        // A URL ends in the logs of proxies, so that the token is there only if no field can carry it.
        let (query, field) = if is_field_content(token.secret()) {
            (String::new(), [b"Authorization: Bearer ", token.secret(), b"\r\n"].concat())
        } else {
            (format!("?token={}", percent_encode(token.secret(), NON_ALPHANUMERIC)), Vec::new())
        };
        let before = format!("POST {target}{query} HTTP/1.1\r\nHost: {authority}\r\n");
        Ok([before.as_bytes(), &field, b"Content-Type: application/json\r\nContent-Length: "].concat())
    }

    /// Returns the failure of a gateway that refuses the token.
    pub(super) fn token_refused(&self) -> CommandFailure {
        CommandFailure::new(
            TOKEN_REFUSED,
            format!(
                "the gateway at {} refuses the token of {}; name the settings file of that gateway with --settings",
                self.name,
                self.settings.display()
            ),
        )
    }

    /// Returns the file with the certificate of the gateway.
    pub(super) fn certificate(&self) -> Result<PathBuf, CommandFailure> {
        let source = CertificateSource::beside(&self.settings, Vec::new());
        source.trust_anchor().ok_or_else(|| CommandFailure::new(NOT_TRUSTED, "there is no certificate to trust"))
    }
}

/// Returns whether a field carries these bytes as they are: a recipient drops blanks at the ends of a value (RFC 9110
/// §5.5).
fn is_field_content(bytes: &[u8]) -> bool {
    bytes.trim_ascii() == bytes && bytes.iter().all(|byte| !byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_in_a_field_unless_no_field_can_carry_it() {
        for (token, query, field) in [
            ("'s3cret+/= x'", "", "Authorization: Bearer s3cret+/= x\r\n"),
            ("'\u{e9}'", "", "Authorization: Bearer \u{e9}\r\n"),
            ("' s3cret'", "?token=%20s3cret", ""),
            ("'s3cret\\t'", "?token=s3cret%09", ""),
            ("'s3\\ncret'", "?token=s3%0Acret", ""),
        ] {
            let settings = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(settings.path(), format!("OPEN_REST_API = True\nTOKEN = {token}\n")).unwrap();
            let destination = Destination::of_url("http://h", settings.path().into()).unwrap();
            let head = String::from_utf8(destination.request_head().unwrap_or_default()).unwrap();
            let expected = format!(
                "POST /api/message{query} HTTP/1.1\r\nHost: h\r\n{field}Content-Type: application/json\r\nContent-Length: "
            );
            assert_eq!(head, expected);
        }
    }

    #[test]
    fn a_url_may_leave_out_its_port_and_its_path() {
        for (url, name, port, target) in [
            ("https://localhost", "https://localhost", 443, PATH),
            ("http://[::1]/", "http://[::1]", 80, PATH),
            ("http://127.0.0.1:1/a/b", "http://127.0.0.1:1", 1, "/a/b"),
            ("https://[::1]:2", "https://[::1]:2", 2, PATH),
        ] {
            let destination = Destination::of_url(url, PathBuf::new()).unwrap();
            assert_eq!((destination.name.as_str(), destination.target.as_str()), (name, target));
            let Address::Tcp { address, .. } = destination.address else { panic!("{url}") };
            let found = match address {
                TcpAddress::Address(address) => address.port(),
                TcpAddress::Name { port, .. } => port,
            };
            assert_eq!(found, port, "{url}");
        }
    }

    #[test]
    fn a_fault_does_not_show_the_url() {
        for url in ["https://h/?token=s3cret", "s3cret", "http://s3cret@h", "http://h:s3cret", "http://", "http://é"] {
            let fault = Destination::of_url(url, PathBuf::new()).err().unwrap();
            assert!(!fault.contains("s3cret"), "{fault}");
        }
    }
}
