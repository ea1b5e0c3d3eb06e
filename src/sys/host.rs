//! A host and its port as people write them, and the addresses that they stand for.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use std::{fmt, fs, io};

use super::on_joined_thread;

/// The longest wait for the addresses of a name without which the program cannot go on.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The ports that the kernel gives to connections (ip(7)): every port where it does not tell. Whoever is to read no file
/// uses it after another thread has.
pub(crate) static EPHEMERAL_PORTS: LazyLock<RangeInclusive<u16>> = LazyLock::new(|| {
    let told = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    told.ok().and_then(|told| port_range(&told)).unwrap_or(0..=u16::MAX)
});

fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut ports = text.split_whitespace().map_while(|port| port.parse().ok());
    Some(ports.next()?..=ports.next()?)
}

/// Returns a number that is written in digits alone. `from_str` would also accept `+5`.
pub(crate) fn digits<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A host and a port, such as `127.0.0.1:12358`, `[fe80::1%eth0]:12358` or `localhost:12358`. Two are equal if they mean
/// the same, however an address is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// An address in its usual form, a name, or `*`. What stands in brackets is an address of IPv6, or is looked up as
    /// one: an address with the name of its zone, for example.
    pub host: Arc<str>,
    /// 0 for any port.
    pub port: u16,
}

impl HostPort {
    pub(crate) fn is_ipv6(&self) -> bool {
        self.host.starts_with('[')
    }

    /// Returns whether it stands for every address.
    pub(crate) fn is_wild(&self) -> bool {
        self.without_brackets() == "*"
    }

    pub(crate) fn without_brackets(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }

    /// Returns where this machine reaches it, as far as that is known without a name server.
    pub(crate) fn on_loopback(&self) -> (&str, u16) {
        let host = match &*self.host {
            "*" | "[*]" | "0.0.0.0" | "[::]" | "localhost" => "127.0.0.1",
            "[localhost]" => "[::1]",
            host => host,
        };
        (host, self.port)
    }

    /// Returns the address that is written here; `None` for a host that is looked up.
    pub(crate) fn numeric(&self) -> Option<SocketAddr> {
        self.to_string().parse().ok()
    }

    /// Returns the addresses of both families, at least one, each once. It takes as long as the name servers take.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let found = (self.without_brackets(), self.port).to_socket_addrs().map_err(|error| {
            // The standard library puts two sentences into one error.
            let text = error.to_string();
            io::Error::new(error.kind(), text.strip_prefix("failed to lookup address information: ").unwrap_or(&text))
        })?;
        // `/etc/hosts` may have an address of a name twice.
        let mut seen = HashSet::new();
        Ok(found.filter(|address| seen.insert(*address)).collect())
    }

    /// Returns the same, or an error if nobody tells the addresses in [`LOOKUP_TIMEOUT`].
    pub(crate) fn addresses_in_time(&self) -> io::Result<Vec<SocketAddr>> {
        if let Some(address) = self.numeric() {
            return Ok(vec![address]);
        }
        let asked = self.clone();
        let thread = on_joined_thread("name-lookup", move || asked.addresses()).ok();
        let found = thread.and_then(|thread| thread.recv_timeout(LOOKUP_TIMEOUT).ok());
        found.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::TimedOut, "no name server answers")))
    }

    /// Returns the address to listen at: every one of IPv4 for `*`, and of both families for `[*]`; otherwise the first
    /// one of IPv4, or of IPv6 for a host in brackets.
    pub(crate) fn address_to_bind(&self) -> io::Result<SocketAddr> {
        match &*self.host {
            "*" => Ok((Ipv4Addr::UNSPECIFIED, self.port).into()),
            "[*]" => Ok((Ipv6Addr::UNSPECIFIED, self.port).into()),
            _ => {
                let mut found = self.addresses_in_time()?.into_iter();
                let of_family = found.find(|address| address.is_ipv6() == self.is_ipv6());
                of_family.ok_or_else(|| io::Error::other("no address of the right family"))
            }
        }
    }
}

const NO_PORT: &str = "no port from 0 to 65535 at the end, as in localhost:12358";

impl FromStr for HostPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let (host, port) = text.rsplit_once(':').ok_or(NO_PORT)?;
        let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        // libzmq also reads `source;destination:port`, which is not supported here.
        let is_invalid = |c: char| {
            let is_bare_ipv6 = c == ':' && inside.is_none();
            is_bare_ipv6 || matches!(c, '/' | ';' | '[' | ']') || c.is_control() || c.is_whitespace()
        };
        let name = inside.unwrap_or(host);
        if name.is_empty() || name.contains(is_invalid) {
            return Err("no usable host before the port, such as localhost, 127.0.0.1 or [::1]");
        }
        Ok(Self { host: host.into(), port: digits(port).ok_or(NO_PORT)? })
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> Self {
        let text = address.to_string();
        Self { host: text.rsplit_once(':').map_or(&*text, |(host, _)| host).into(), port: address.port() }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_port(text: &str) -> HostPort {
        text.parse().unwrap()
    }

    #[test]
    fn a_host_is_equal_however_its_address_is_written() {
        for (one, other) in [("[0::0]:080", "[::]:80"), ("[FE80::1%2]:1", "[fe80::1%2]:1"), ("a:00", "a:0")] {
            assert_eq!(host_port(one), host_port(other));
            assert_eq!(host_port(one).to_string(), other);
        }
        let address: SocketAddr = "[fe80::1%2]:80".parse().unwrap();
        assert_eq!(HostPort::from(address), host_port("[fe80::1%2]:80"));
    }

    #[test]
    fn a_host_is_an_address_or_a_name_and_binds_one_address() {
        for (text, address) in [
            ("*:0", "0.0.0.0:0"),
            ("0.0.0.0:65535", "0.0.0.0:65535"),
            ("127.0.0.1:5", "127.0.0.1:5"),
            ("127.1:5", "127.0.0.1:5"),
            ("localhost:5", "127.0.0.1:5"),
            ("[*]:0", "[::]:0"),
            ("[::]:5", "[::]:5"),
            ("[::1]:5", "[::1]:5"),
            ("[fe80::1%1]:5", "[fe80::1%1]:5"),
            ("[fe80::1%lo]:5", "[fe80::1%1]:5"),
        ] {
            let found = host_port(text).address_to_bind().map(|it| it.to_string());
            assert_eq!(found.ok().as_deref(), Some(address), "{text}");
        }
    }

    #[test]
    fn a_name_is_each_of_its_addresses_once() {
        let addresses = host_port("localhost:7").addresses_in_time().unwrap();
        assert!(addresses.contains(&"127.0.0.1:7".parse().unwrap()), "{addresses:?}");
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 7), "{addresses:?}");
        assert!((1..addresses.len()).all(|at| !addresses[..at].contains(&addresses[at])), "{addresses:?}");
    }

    #[test]
    fn the_ports_of_connections_are_those_that_the_kernel_tells() {
        for (text, ports) in [
            ("32768\t60999\n", Some(32_768..=60_999)),
            ("1024 65535", Some(1_024..=65_535)),
            ("1 70000", None),
            ("", None),
        ] {
            assert_eq!(port_range(text), ports, "{text:?}");
        }
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(EPHEMERAL_PORTS.contains(&own.port()));
    }

    #[test]
    fn an_unknown_host_and_an_unknown_zone_have_an_error() {
        // Where there is no network, nobody knows whether there is such a name.
        let unknown = ["Name or service not known", "Temporary failure in name resolution"];
        for (text, reasons) in [
            ("nowhere0:5", &unknown[..]),
            ("[nowhere0]:5", &unknown),
            ("[fe80::1%nowhere0]:5", &unknown[..1]),
            ("[127.0.0.1]:5", &["no address of the right family"]),
        ] {
            let error = host_port(text).address_to_bind().unwrap_err().to_string();
            assert!(reasons.contains(&&*error), "{text}: {error}");
        }
    }
}
