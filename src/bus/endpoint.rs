//! Addresses of ZeroMQ sockets, checked before libzmq sees them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use socket2::TcpKeepalive;

/// Longest path of an `ipc://` endpoint, in bytes: the size of the path in `sockaddr_un` without its NUL.
const IPC_PATH_MAX: usize = 107;

/// A TCP connection that was idle for so long is probed with so many probes, so far apart, before it ends.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
pub(super) const KEEPALIVE_PROBES: u32 = 3;

/// An address of the form `tcp://host:port` or `ipc://path`. A clone costs one reference count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(Arc<str>);

/// Where an [`Endpoint`] leads.
pub(super) enum Location<'a> {
    Tcp(&'a str),
    /// The path of a Unix socket, or its abstract name after an `@`.
    Ipc(&'a str),
}

/// The reason why a string is no [`Endpoint`], or why nothing can connect to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointFault(&'static str);

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Endpoint {
    /// Returns the address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the endpoint itself, or a fault if the host is `*`, or the port is `*` or 0, which can only be bound.
    pub fn connectable(self) -> Result<Self, EndpointFault> {
        let is_wild = match self.location() {
            Location::Tcp(address) => address.rsplit_once(':').is_some_and(|(host, port)| {
                // A port may be written with leading zeros.
                host == "*" || port == "*" || port.parse() == Ok(0_u16)
            }),
            Location::Ipc(path) => path == "*",
        };
        if is_wild { Err(EndpointFault("a wildcard can be bound, not connected to")) } else { Ok(self) }
    }

    /// Returns whether the host stands in brackets: an IPv6 address, or a name that is to be looked up as one.
    pub(super) fn is_ipv6(&self) -> bool {
        self.0.starts_with("tcp://[")
    }

    pub(super) fn at(address: SocketAddr) -> Self {
        Self(format!("tcp://{address}").into())
    }

    /// Returns the TCP address that is written here, without its zone; `None` for a name and a Unix socket.
    pub(super) fn numeric(&self) -> Option<SocketAddr> {
        let Location::Tcp(address) = self.location() else { return None };
        let (host, port) = address.rsplit_once(':')?;
        let ip = match host.strip_prefix('[') {
            Some(host) => IpAddr::V6(host.trim_end_matches(']').split('%').next()?.parse().ok()?),
            None => IpAddr::V4(host.parse().ok()?),
        };
        Some(SocketAddr::new(ip, port.parse().ok()?))
    }

    /// Returns whether the host has to be looked up: a name, or an address with a zone. libzmq as the `zmq-sys` crate
    /// builds it takes a zone by number alone.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.location(), Location::Tcp(address) if address.contains('%') || self.numeric().is_none())
    }

    pub(super) fn location(&self) -> Location<'_> {
        match self.0.strip_prefix("ipc://") {
            Some(path) => Location::Ipc(path),
            None => Location::Tcp(self.0.trim_start_matches("tcp://")),
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(address) = text.strip_prefix("tcp://") {
            check_tcp(address)?;
        } else if let Some(path) = text.strip_prefix("ipc://") {
            // A control character is always a mistake, and libzmq would end the path at a NUL.
            if path.is_empty() || path.len() > IPC_PATH_MAX || path.contains(char::is_control) {
                return Err(EndpointFault("an ipc path has 1 to 107 bytes and no control characters"));
            }
        } else {
            return Err(EndpointFault("an endpoint starts with tcp:// or ipc://"));
        }
        Ok(Self(text.into()))
    }
}

/// Returns how the kernel finds out that the peer of a TCP connection has disappeared without closing it.
pub(super) fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_PROBES)
}

fn check_tcp(address: &str) -> Result<(), EndpointFault> {
    let no_port = EndpointFault("a tcp endpoint ends in :PORT, 0 to 65535");
    let (host, port) = address.rsplit_once(':').ok_or(no_port)?;
    // libzmq also reads `source;destination:port`, which is not supported here.
    let is_invalid = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | ';');
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || host.contains(is_invalid) || bare_ipv6 {
        return Err(EndpointFault("no usable host before the port"));
    }
    // Only digits: `parse` alone would accept `+5`.
    let all_digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    if port == "*" || (all_digits && port.parse::<u16>().is_ok()) { Ok(()) } else { Err(no_port) }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for EndpointFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for EndpointFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_and_ipc_addresses_are_kept_as_they_were_written() {
        for good in [
            "tcp://127.0.0.1:16130",
            "tcp://hub.local:1",
            "tcp://[::1]:16130",
            "tcp://*:*",
            "tcp://127.0.0.1:0",
            "ipc:///run/hub",
            "ipc://@abstract",
        ] {
            assert_eq!(good.parse::<Endpoint>().unwrap().as_str(), good);
        }
    }

    #[test]
    fn each_malformed_address_has_its_error() {
        const TRANSPORT: &str = "an endpoint starts with tcp:// or ipc://";
        const HOST: &str = "no usable host before the port";
        const PORT: &str = "a tcp endpoint ends in :PORT, 0 to 65535";
        const PATH: &str = "an ipc path has 1 to 107 bytes and no control characters";
        for (bad, why) in [
            ("", TRANSPORT),
            ("inproc://x", TRANSPORT),
            ("127.0.0.1:1", TRANSPORT),
            ("tcp://:1", HOST),
            ("tcp://::1:1", HOST),
            ("tcp://[::1:1", HOST),
            ("tcp://::1]:1", HOST),
            ("tcp://a;b:1", HOST),
            ("tcp://a\0:1", HOST),
            ("tcp://host", PORT),
            ("tcp://host:", PORT),
            ("tcp://host:+5", PORT),
            ("tcp://host:65536", PORT),
            ("tcp://host:1/x", PORT),
            ("ipc://", PATH),
            ("ipc:///a\0b", PATH),
        ] {
            assert_eq!(bad.parse::<Endpoint>().unwrap_err().to_string(), why, "{bad}");
        }
        let ipc = |bytes| format!("ipc://{}", "x".repeat(bytes)).parse::<Endpoint>();
        assert!(ipc(IPC_PATH_MAX).is_ok());
        assert_eq!(ipc(IPC_PATH_MAX + 1).unwrap_err().to_string(), PATH);
    }

    #[test]
    fn a_wildcard_cannot_be_connected_to() {
        for wild in
            ["tcp://*:1", "tcp://1.2.3.4:*", "tcp://1.2.3.4:0", "tcp://1.2.3.4:00", "tcp://[::1]:000", "ipc://*"]
        {
            let endpoint = wild.parse::<Endpoint>().unwrap();
            let fault = endpoint.connectable().unwrap_err().to_string();
            assert_eq!(fault, "a wildcard can be bound, not connected to", "{wild}");
        }
        for plain in ["tcp://1.2.3.4:5", "tcp://1.2.3.4:010", "tcp://1.2.3.4:10"] {
            assert!(plain.parse::<Endpoint>().unwrap().connectable().is_ok(), "{plain}");
        }
    }

    #[test]
    fn a_name_is_told_from_an_address() {
        for (text, expected, is_named) in [
            ("tcp://127.0.0.1:1", Some("127.0.0.1:1"), false),
            ("tcp://[::1]:16130", Some("[::1]:16130"), false),
            ("tcp://[fe80::1%eth0]:1", Some("[fe80::1]:1"), true),
            ("tcp://localhost:1", None, true),
            ("tcp://[localhost]:1", None, true),
            ("tcp://[127.0.0.1]:1", None, true),
        ] {
            let endpoint = text.parse::<Endpoint>().unwrap();
            assert_eq!(endpoint.numeric(), expected.map(|address| address.parse().unwrap()), "{text}");
            assert_eq!(endpoint.is_named(), is_named, "{text}");
        }
        let ipc = "ipc:///run/hub".parse::<Endpoint>().unwrap();
        assert_eq!((ipc.numeric(), ipc.is_named()), (None, false));
        let address = "[fe80::1%7]:5".parse().unwrap();
        assert_eq!(Endpoint::at(address).as_str(), "tcp://[fe80::1%7]:5");
    }

    #[test]
    fn only_bracketed_hosts_are_ipv6() {
        assert!("tcp://[::1]:1".parse::<Endpoint>().unwrap().is_ipv6());
        assert!(!"tcp://localhost:1".parse::<Endpoint>().unwrap().is_ipv6());
    }
}
