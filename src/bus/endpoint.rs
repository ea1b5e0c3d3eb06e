//! Addresses of ZeroMQ sockets, checked before libzmq sees them.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;

use crate::sys::host::{EPHEMERAL_PORTS, HostPort};

/// Longest path of an `ipc://` endpoint, in bytes: the size of the path in `sockaddr_un` without its NUL.
const IPC_PATH_MAX: usize = 107;

/// An address of the form `tcp://host:port` or `ipc://path`. A clone costs two reference counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Endpoint {
    text: Arc<str>,
    /// `None` for a Unix socket.
    #[serde(skip)]
    pub(super) address: Option<HostPort>,
}

impl Endpoint {
    /// Returns the address as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the endpoint itself, or a fault if the host is `*`, or the port is `*` or 0, which can only be bound.
    pub fn connectable(self) -> Result<Self, &'static str> {
        let is_any_port = self.address.as_ref().is_some_and(|address| address.is_wild() || address.port == 0);
        if is_any_port || self.ipc_path() == "*" { Err("a wildcard can be bound, not connected to") } else { Ok(self) }
    }

    /// Returns whether the host stands in brackets: an IPv6 address, or a name that is to be looked up as one.
    pub(super) fn is_ipv6(&self) -> bool {
        self.address.as_ref().is_some_and(HostPort::is_ipv6)
    }

    pub(super) fn at(address: SocketAddr) -> Self {
        Self { text: format!("tcp://{address}").into(), address: Some(address.into()) }
    }

    /// Returns the path of a Unix socket, or its abstract name after an `@`; nothing for a TCP address.
    pub(super) fn ipc_path(&self) -> &str {
        self.text.strip_prefix("ipc://").unwrap_or_default()
    }

    /// Returns the TCP address that is written here; `None` for a host that is looked up and a Unix socket.
    pub(super) fn numeric(&self) -> Option<SocketAddr> {
        self.address.as_ref()?.numeric()
    }

    /// Returns whether both are the same place, as far as that shows without a name server. Every address of this host
    /// includes that of loopback. A port or a path that the system chooses is another one each time.
    pub fn is_same_as(&self, other: &Self) -> bool {
        match (&self.address, &other.address) {
            (Some(one), Some(other)) => one.port != 0 && one.on_loopback() == other.on_loopback(),
            _ => self.text == other.text && self.ipc_path() != "*",
        }
    }

    /// Returns whether the host has to be looked up: a name, or an address with the name of its zone. libzmq as the
    /// `zmq-sys` crate builds it takes a zone by number alone.
    pub(super) fn is_named(&self) -> bool {
        self.address.is_some() && self.numeric().is_none()
    }

    /// Returns what libzmq is to dial. An ephemeral port of this host where nobody listens may become the dialler's own
    /// port, which is then connected to itself (RFC 9293 §3.5), and no hub could bind it for a minute afterwards
    /// (TIME_WAIT). Where a source is written, libzmq sets `SO_REUSEADDR`, so that a hub can. A source takes a port for
    /// itself, while connections to different places share ports, so it is written for these ports alone.
    pub(super) fn for_libzmq(&self) -> String {
        let is_ephemeral = self.numeric().is_some_and(|address| EPHEMERAL_PORTS.contains(&address.port()));
        let source = if self.is_ipv6() { "tcp://[::]:0;" } else { "tcp://0.0.0.0:0;" };
        if is_ephemeral { self.text.replacen("tcp://", source, 1) } else { self.text.to_string() }
    }
}

impl FromStr for Endpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = if let Some(address) = text.strip_prefix("tcp://") {
            let any_port = address.strip_suffix(":*").map(|host| format!("{host}:0"));
            Some(any_port.as_deref().unwrap_or(address).parse()?)
        } else if let Some(path) = text.strip_prefix("ipc://") {
            // A control character is always a mistake, and libzmq would end the path at a NUL.
            if path.is_empty() || path.len() > IPC_PATH_MAX || path.contains(char::is_control) {
                return Err("an ipc path has 1 to 107 bytes and no control characters");
            }
            None
        } else {
            return Err("an endpoint starts with tcp:// or ipc://");
        };
        Ok(Self { text: text.into(), address })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
