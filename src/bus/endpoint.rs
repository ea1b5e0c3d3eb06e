//! Addresses of ZeroMQ sockets, checked before libzmq sees them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;

use crate::sys::host::EPHEMERAL_PORTS;

/// Longest path of an `ipc://` endpoint, in bytes: the size of the path in `sockaddr_un` without its NUL.
const IPC_PATH_MAX: usize = 107;

/// An address of the form `tcp://host:port` or `ipc://path`. A clone costs one reference count.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Endpoint(Arc<str>);

/// Where an [`Endpoint`] leads.
pub(super) enum Location<'a> {
    Tcp(&'a str),
    /// The path of a Unix socket, or its abstract name after an `@`.
    Ipc(&'a str),
}

impl Endpoint {
    /// Returns the address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the endpoint itself, or a fault if the host is `*`, or the port is `*` or 0, which can only be bound.
    pub fn connectable(self) -> Result<Self, &'static str> {
        let is_wild = match self.location() {
            Location::Tcp(address) => address.rsplit_once(':').is_some_and(|(host, port)| {
                // A port may be written with leading zeros.
                host == "*" || port == "*" || port.parse() == Ok(0_u16)
            }),
            Location::Ipc(path) => path == "*",
        };
        if is_wild { Err("a wildcard can be bound, not connected to") } else { Ok(self) }
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

    /// Returns whether both are the same place, as far as that shows without a name server. Every address of this host
    /// includes that of loopback. A port or a path that the system chooses is another one each time.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|endpoint| {
            let local = ["localhost", "*", "0.0.0.0", "[*]", "[::]"];
            local.iter().fold(endpoint.0.to_string(), |url, host| url.replace(&format!("//{host}:"), "//127.0.0.1:"))
        });
        one == other && ![":*", ":0", "//*"].iter().any(|chosen| one.ends_with(chosen))
    }

    /// Returns whether the host has to be looked up: a name, or an address with a zone. libzmq as the `zmq-sys` crate
    /// builds it takes a zone by number alone.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.location(), Location::Tcp(address) if address.contains('%') || self.numeric().is_none())
    }

    /// Returns what libzmq is to dial. An ephemeral port of this host where nobody listens may become the dialler's own
    /// port, which is then connected to itself (RFC 9293 §3.5), and no hub could bind it for a minute afterwards
    /// (TIME_WAIT). Where a source is written, libzmq sets `SO_REUSEADDR`, so that a hub can. A source takes a port for
    /// itself, while connections to different places share ports, so it is written for these ports alone.
    pub(super) fn for_libzmq(&self) -> String {
        let is_ephemeral = self.numeric().is_some_and(|address| EPHEMERAL_PORTS.contains(&address.port()));
        let source = if self.is_ipv6() { "tcp://[::]:0;" } else { "tcp://0.0.0.0:0;" };
        if is_ephemeral { self.0.replacen("tcp://", source, 1) } else { self.0.to_string() }
    }

    pub(super) fn location(&self) -> Location<'_> {
        match self.0.strip_prefix("ipc://") {
            Some(path) => Location::Ipc(path),
            None => Location::Tcp(self.0.trim_start_matches("tcp://")),
        }
    }
}

impl FromStr for Endpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(address) = text.strip_prefix("tcp://") {
            check_tcp(address)?;
        } else if let Some(path) = text.strip_prefix("ipc://") {
            // A control character is always a mistake, and libzmq would end the path at a NUL.
            if path.is_empty() || path.len() > IPC_PATH_MAX || path.contains(char::is_control) {
                return Err("an ipc path has 1 to 107 bytes and no control characters");
            }
        } else {
            return Err("an endpoint starts with tcp:// or ipc://");
        }
        Ok(Self(text.into()))
    }
}

fn check_tcp(address: &str) -> Result<(), &'static str> {
    let no_port = "a tcp endpoint ends in :PORT, 0 to 65535";
    let (host, port) = address.rsplit_once(':').ok_or(no_port)?;
    // libzmq also reads `source;destination:port`, which is not supported here.
    let is_invalid = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | ';');
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || host.contains(is_invalid) || bare_ipv6 {
        return Err("no usable host before the port");
    }
    // `parse` alone would accept `+5`.
    if port == "*" || !port.starts_with('+') && port.parse::<u16>().is_ok() { Ok(()) } else { Err(no_port) }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
