//! Where messages are posted, and a connection to it: the address comes from the arguments, the token and the
//! certificate from the settings file and what stands beside it.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
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
use crate::cli::{DEFAULT_PORT, GatewayUrl, SendArguments};
use crate::commands::serve::settings_path;
use crate::gateway::Failure;
use crate::http::admission::ENDPOINT;
use crate::settings::{self, Access, DisabledReason};
use crate::sys::advice::{Refused, advice, of_clock, path_option};
use crate::sys::on_joined_thread;
use crate::sys::retry::{PAUSE, retry_until};
use crate::tls::source::CertificateSource;

/// The most that one address gets to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How young a settings file is that the gateway may not have read yet.
const YOUNG_SETTINGS_S: f64 = 2.0;

/// A gateway and its settings file.
pub(super) struct Destination {
    url: GatewayUrl,
    /// The path of the Unix socket to connect to in the place of the address of the URL.
    socket: Option<PathBuf>,
    /// The address for people. It has no path and no query, which could hold a secret.
    pub(super) name: String,
    pub(super) settings: PathBuf,
}

impl Destination {
    /// Returns what the arguments name, and by default the gateway of the user's settings.
    pub(super) fn new(arguments: &SendArguments) -> Result<Self, Failure> {
        let settings = settings_path(arguments.settings.as_ref())?;
        let (default, socket) = (format!("https://localhost:{DEFAULT_PORT}"), arguments.unix.clone());
        let (url, name) = match (&arguments.url, &socket) {
            (Some(_), Some(_)) => return Err(Failure::new(Failure::USAGE, "--url and --unix exclude each other")),
            (None, Some(path)) => ("http://localhost", Some(format!("unix:{}", path.display()))),
            (url, None) => (url.as_ref().unwrap_or(&default).as_str(), None),
        };
        let fault = |fault| Failure::new(Failure::USAGE, format_args!("the value of --url {fault}"));
        let url: GatewayUrl = url.parse().map_err(fault)?;
        Ok(Self { name: name.unwrap_or_else(|| url.origin.clone()), url, socket, settings })
    }

    /// Reads the settings file, and returns what each request begins with, up to the value of its `Content-Length`.
    pub(super) fn request_head(&self) -> Result<Vec<u8>, Failure> {
        let open_by_default = true;
        let token = match settings::read(&self.settings, open_by_default).access {
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
        let GatewayUrl { path, authority, .. } = &self.url;
        let target = if matches!(path.as_str(), "" | "/") { ENDPOINT } else { path };
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
        // A clock before 1970 says that they are old.
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
        let session = self.url.tls_name.as_deref().map(|name| tls_session(name, &self.trust_anchor())).transpose();
        let session = session.map_err(|error| self.untrusted(&error))?;
        GatewayConnection::open(socket, session, deadline, stop).map_err(|error| self.refused(&error))
    }

    /// Connects to the first address that accepts.
    fn socket(&self, deadline: Instant, stop: &Stop) -> io::Result<Socket> {
        let addresses = match &self.socket {
            Some(path) => vec![SockAddr::unix(path)?],
            None => self.look_up(stop)?.into_iter().map(SockAddr::from).collect(),
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

    /// Returns the addresses of the URL. Behind the stop, nobody waits for a name server.
    fn look_up(&self, stop: &Stop) -> io::Result<Vec<SocketAddr>> {
        let (address, (ended, held)) = (self.url.address.clone(), io::pipe()?);
        let lookup = on_joined_thread("lookup", move || {
            // The pipe closes behind the lookup.
            let _held = held;
            address.addresses_in_time()
        })?;
        stop.wait_to_connect(PollFd::new(&ended, PollFlags::IN), None)?;
        lookup.recv().map_err(io::Error::other)?
    }

    fn trust_anchor(&self) -> PathBuf {
        let [certificate, _key] = CertificateSource::beside(&self.settings, Vec::new()).files();
        certificate
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
        let (gateway, no_gateway) = (&self.name, Failure::NO_GATEWAY);
        let text = match error.get_ref().and_then(|it| it.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })) => format!(
                "the certificate of the gateway at {gateway} has other names; start the gateway with `--cert-name {}`, and \
                 copy its new gateway-cert.pem to {}",
                self.url.tls_name.as_deref().unwrap_or("NAME"),
                self.trust_anchor().display()
            ),
            Some(rustls::Error::InvalidCertificate(
                CertificateError::NotValidYetContext { .. } | CertificateError::ExpiredContext { .. },
            )) => {
                let cure = of_clock(SystemTime::now());
                format!("the certificate of the gateway at {gateway} is not valid now; {cure}")
            }
            Some(rustls::Error::InvalidCertificate(reason)) => return self.untrusted(reason),
            _ => return Failure::new(no_gateway, format_args!("no gateway that speaks https at {gateway}: {error}")),
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
                stop.wait_to_connect(PollFd::new(&socket, PollFlags::OUT), Some(timeout))?;
                socket.take_error()?.map_or(Ok(()), Err)?;
                socket.peer_addr().map_err(|_| io::ErrorKind::TimedOut)?;
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
            let (url, name) = ("http://h".parse().unwrap(), String::new());
            let destination = Destination { url, socket: None, name, settings: settings.path().into() };
            let head = String::from_utf8(destination.request_head().unwrap_or_default()).unwrap();
            let expected = format!(
                "POST /api/message{query} HTTP/1.1\r\nHost: h\r\n{field}Content-Type: application/json\r\nContent-Length: "
            );
            assert_eq!(head, expected);
        }
    }
}
