//! Where messages are posted, and a connection to it: the address comes from the arguments, the token and the
//! certificate from the settings file and what stands beside it.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};
use socket2::{SockAddr, Socket, Type};

use super::connection::{GatewayConnection, time_left};
use super::stop::Stop;
use crate::cli::{DEFAULT_PORT, SendArguments, TcpAddress};
use crate::commands::serve::settings_path;
use crate::gateway::Failure;
use crate::http::admission::ENDPOINT;
use crate::settings::{self, Access, DisabledReason};
use crate::sys::advice::{Refused, advice, of_clock};
use crate::sys::retry::{PAUSE, retry_until};
use crate::sys::terminal::path_option;
use crate::tls::source::CertificateSource;

/// The most that one address gets to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How young a settings file is that the gateway may not have read yet.
const YOUNG_SETTINGS_S: f64 = 2.0;

/// What is wrong with a URL that names no place to connect to.
const NO_ADDRESS: &str = "names no host, or no port that exists";

enum Address {
    Unix(PathBuf),
    Tcp(TcpAddress),
}

/// A gateway and its settings file.
pub(super) struct Destination {
    address: Address,
    /// The name that the certificate must have; `None` without TLS.
    tls_name: Option<String>,
    /// The address for people. It has no path and no query, which could hold a secret.
    pub(super) name: String,
    pub(super) settings: PathBuf,
    target: String,
    authority: String,
}

/// Returns a host without the interface of an address of IPv6, which other machines and certificates do not know.
fn without_zone(text: &str) -> String {
    let (start, zone) = text.split_once('%').unwrap_or((text, ""));
    format!("{start}{}", zone.trim_start_matches(|character| character != ']'))
}

impl Destination {
    /// Returns what the arguments name, and by default the gateway of the user's settings.
    pub(super) fn new(arguments: &SendArguments) -> Result<Self, Failure> {
        let settings = settings_path(arguments.settings.as_ref())?;
        match (&arguments.url, &arguments.unix) {
            (Some(_), Some(_)) => Err(Failure::new(Failure::USAGE, "--url and --unix exclude each other")),
            (None, Some(socket)) => Ok(Self {
                address: Address::Unix(socket.clone()),
                tls_name: None,
                name: format!("unix:{}", socket.display()),
                settings,
                target: ENDPOINT.into(),
                authority: "localhost".into(),
            }),
            (url, None) => {
                let default = format!("https://localhost:{DEFAULT_PORT}");
                Self::of_url(url.as_deref().unwrap_or(&default), settings)
                    .map_err(|fault| Failure::new(Failure::USAGE, format_args!("the value of --url {fault}")))
            }
        }
    }

    /// Returns the gateway at this URL, or a fault that does not show the URL, which may hold a token.
    fn of_url(url: &str, settings: PathBuf) -> Result<Self, &'static str> {
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
        let address: TcpAddress = with_port.parse().map_err(|_| NO_ADDRESS)?;
        if address.port == 0 {
            return Err(NO_ADDRESS);
        }
        let host = without_zone(&address.host);
        let host = match host.trim_matches(['[', ']']) {
            // It leads to this computer, and no certificate names it.
            host if host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) => "localhost",
            host => host,
        };
        Ok(Self {
            address: Address::Tcp(address),
            tls_name: Some(host.to_owned()).filter(|_| scheme == "https"),
            name: format!("{scheme}://{authority}"),
            settings,
            target: if matches!(path, "" | "/") { ENDPOINT } else { path }.into(),
            authority: without_zone(authority),
        })
    }

    /// Reads the settings file, and returns what each request begins with, up to the value of its `Content-Length`.
    pub(super) fn request_head(&self) -> Result<Vec<u8>, Failure> {
        let token = match settings::read(&self.settings, settings::parse_for_client).access {
            Ok(Access::Open(token)) => token,
            Ok(Access::Disabled(reason)) => {
                if reason == DisabledReason::SettingsAbsent
                    && let Some(cure) = advice(io::ErrorKind::NotFound, Refused::Path(&self.settings))
                {
                    return Err(Failure::configuration(reason.describe(&self.settings)).and(&cure));
                }
                let elsewhere = match reason {
                    DisabledReason::NotOpen { .. } => "",
                    _ => "; on another machine, write its TOKEN into the file",
                };
                let (reason, option) = (reason.describe(&self.settings), path_option("--settings", &self.settings));
                return Err(Failure::configuration(format_args!(
                    "{reason}; `adapter-gateway enable{option}` switches the gateway on{elsewhere}, or name another \
                     file with --settings"
                )));
            }
            Err(error) => return Err(Failure::configuration(format_args!("the settings cannot be used: {error}"))),
        };
        let (target, authority) = (&self.target, &self.authority);
        let secret = token.secret();
        // A URL ends in the logs of proxies, so that the token is there only if no field can carry it. A recipient
        // drops blanks at the ends of a field (RFC 9110 §5.5).
        let is_field_content = secret.trim_ascii() == secret && !secret.iter().any(u8::is_ascii_control);
        let (query, field) = if is_field_content {
            (String::new(), [b"Authorization: Bearer ", secret, b"\r\n"].concat())
        } else {
            (format!("?token={}", percent_encode(secret, NON_ALPHANUMERIC)), Vec::new())
        };
        let before = format!("POST {target}{query} HTTP/1.1\r\nHost: {authority}\r\n");
        Ok([before.as_bytes(), &field, b"Content-Type: application/json\r\nContent-Length: "].concat())
    }

    /// Returns whether the settings were written, or put in place with the time of an earlier write, so shortly before
    /// that the gateway may not have read them.
    pub(super) fn has_young_settings(&self) -> bool {
        let Ok(found) = std::fs::metadata(&self.settings) else { return false };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let times = [(found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())];
        let is_young = |(s, ns)| (0.0..YOUNG_SETTINGS_S).contains(&(now - s as f64 - ns as f64 * 1e-9));
        times.into_iter().any(is_young)
    }

    /// Connects, and does the TLS handshake, until the deadline or the stop at most.
    pub(super) fn connect(&self, deadline: Instant, stop: &Stop) -> Result<GatewayConnection, Failure> {
        let socket = self.socket(deadline, stop).map_err(|error| {
            let cure = "start it, or name its address with --url or --unix";
            Failure::new(Failure::NO_GATEWAY, format_args!("no gateway at {}: {error}; {cure}", self.name))
        })?;
        let session = self.tls_name.as_deref().map(|name| tls_session(name, &self.trust_anchor())).transpose();
        let session = session.map_err(|error| self.untrusted(&error))?;
        GatewayConnection::open(socket, session, deadline, stop).map_err(|error| self.refused(&error))
    }

    /// Connects to the first address that accepts.
    fn socket(&self, deadline: Instant, stop: &Stop) -> io::Result<Socket> {
        let addresses = match &self.address {
            Address::Unix(path) => vec![SockAddr::unix(path)?],
            Address::Tcp(address) => address.resolve()?.into_iter().map(SockAddr::from).collect(),
        };
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match connect(&address, time_left(deadline)?.min(CONNECT_TIMEOUT), stop) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn trust_anchor(&self) -> PathBuf {
        CertificateSource::beside(&self.settings, Vec::new()).trust_anchor().unwrap_or_default()
    }

    fn untrusted(&self, reason: &dyn Display) -> Failure {
        let text = format!(
            "the certificate of the gateway at {} is not trusted: {reason}; it must be the one in {}, which stands beside \
             the settings of that gateway (--settings)",
            self.name,
            self.trust_anchor().display()
        );
        Failure::new(Failure::NOT_TRUSTED, text)
    }

    /// The connection ended with this error before its handshake was complete.
    fn refused(&self, error: &io::Error) -> Failure {
        let gateway = &self.name;
        let text = match error.get_ref().and_then(|it| it.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })) => format!(
                "the certificate of the gateway at {gateway} has other names; start the gateway with `--cert-name {}`, and \
                 copy its new gateway-cert.pem to {}",
                self.tls_name.as_deref().unwrap_or_default(),
                self.trust_anchor().display()
            ),
            Some(rustls::Error::InvalidCertificate(
                CertificateError::NotValidYetContext { .. } | CertificateError::ExpiredContext { .. },
            )) => {
                let cure = of_clock(SystemTime::now());
                format!("the certificate of the gateway at {gateway} is not valid now; {cure}")
            }
            Some(rustls::Error::InvalidCertificate(reason)) => return self.untrusted(reason),
            _ => {
                let text = format!("no gateway that speaks https at {gateway}: {error}");
                return Failure::new(Failure::NO_GATEWAY, text);
            }
        };
        Failure::new(Failure::NOT_TRUSTED, text)
    }
}

fn connect(address: &SockAddr, timeout: Duration, stop: &Stop) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    if address.is_unix() {
        // While the queue of the socket is full, a blocking call would wait for ever.
        let is_full = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock && !stop.is_asked();
        let connected = retry_until(timeout, PAUSE, || socket.connect(address), is_full);
        connected.map_err(|error| if is_full(&error) { io::Error::other("its queue is full") } else { error })?;
    } else {
        match socket.connect(address) {
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {
                let [has_ended] = stop.wait([Some(PollFd::new(&socket, PollFlags::OUT))], Some(timeout))?;
                socket.take_error()?.map_or(Ok(()), Err)?;
                if !has_ended {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            connected => connected?,
        }
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}

/// Returns a session with the server of this name that trusts the certificates of this file. It is read for each
/// connection, since the gateway renews its certificate.
fn tls_session(name: &str, path: &Path) -> Result<ClientConnection, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?);
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    let name = ServerName::try_from(name.to_owned())?;
    let mut session = ClientConnection::new(Arc::new(builder.with_no_client_auth()), name)?;
    // A batch of requests is written at once.
    session.set_buffer_limit(None);
    Ok(session)
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
            ("https://localhost", "https://localhost", 443, ENDPOINT),
            ("http://[::1]/", "http://[::1]", 80, ENDPOINT),
            ("http://127.0.0.1:1/a/b", "http://127.0.0.1:1", 1, "/a/b"),
            ("https://[::1]:2", "https://[::1]:2", 2, ENDPOINT),
            ("https://[fe80::1%2]:2", "https://[fe80::1%2]:2", 2, ENDPOINT),
            ("https://[fe80::1%eth0]", "https://[fe80::1%eth0]", 443, ENDPOINT),
        ] {
            let destination = Destination::of_url(url, PathBuf::new()).unwrap();
            assert_eq!((destination.name.as_str(), destination.target.as_str()), (name, target));
            let Address::Tcp(address) = destination.address else { panic!("{url}") };
            assert_eq!(address.port, port, "{url}");
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
            let destination = Destination::of_url(url, PathBuf::new()).unwrap();
            assert_eq!(
                (destination.authority.as_str(), destination.tls_name.as_deref()),
                (authority, Some(name)),
                "{url}"
            );
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
            let fault = Destination::of_url(url, PathBuf::new()).err().unwrap();
            assert!(!fault.contains("s3cret"), "{fault}");
        }
    }
}
