//! Where to listen, as the command line has it.

use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::{fmt, io};

use super::values::digits;
use crate::sys::host::look_up_in_time;

/// A value of `--listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `127.0.0.1:12358` or `localhost:12358`: TCP.
    Tcp(TcpAddress),
    /// `unix:PATH`: a Unix socket at this path.
    Path(PathBuf),
    /// `fd:N`: an inherited listening socket.
    Descriptor(RawFd),
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("unix", "")) => Err("a path must follow `unix:`"),
            // Every process of the machine could connect to an abstract name, which has no mode.
            Some(("unix", path)) if path.starts_with('@') => {
                Err("an abstract name is not supported, since it has no permissions")
            }
            Some(("unix", path)) => Ok(Self::Path(path.into())),
            // Those below 3 are the standard streams.
            Some(("fd", number)) => {
                let number = digits(number).filter(|number| *number >= 3);
                number.map(Self::Descriptor).ok_or("the descriptor is not a number from 3 on")
            }
            _ => text.parse().map(Self::Tcp),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Path(path) => write!(f, "unix:{}", path.display()),
            Self::Descriptor(number) => write!(f, "fd:{number}"),
        }
    }
}

/// `127.0.0.1:12358`, `[::1]:12358`, or a name with its port, such as `localhost:12358`, which stands for every address
/// of the name. In `[fe80::1%eth0]:12358`, the system tells the number of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TcpAddress {
    pub host: String,
    pub port: u16,
}

impl TcpAddress {
    /// Returns the addresses, at least one, without repetitions.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match self.to_string().parse() {
            Ok(address) => Ok(vec![address]),
            Err(_) => look_up_in_time(self.host.trim_matches(['[', ']']), self.port),
        }
    }
}

const NO_ADDRESS: &str = "neither an address nor a name with a port, such as 127.0.0.1:12358 or localhost:12358";

impl FromStr for TcpAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or(NO_ADDRESS)?;
        let port = digits(port).ok_or("the port is not a number up to 65535")?;
        let is_host = is_host_name(host) || has_zone(host) || text.parse::<SocketAddr>().is_ok();
        is_host.then(|| Self { host: host.into(), port }).ok_or(NO_ADDRESS)
    }
}

/// Returns whether this is the name of a host in ASCII (RFC 1123 §2.1) whose last label is no number, so that no
/// mistyped IPv4 address is looked up.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && !label.starts_with('-') && label.bytes().all(is_inner)
    };
    let mut labels = text.strip_suffix('.').unwrap_or(text).split('.');
    labels.clone().all(is_label)
        && labels.next_back().is_some_and(|last| last.bytes().any(|byte| !byte.is_ascii_digit()))
}

/// Returns whether this is an address of IPv6 with the name of its interface, in brackets. Only a link-local address
/// has one (RFC 4007 §11).
fn has_zone(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inside.and_then(|text| text.split_once('%')).is_some_and(|(address, zone)| {
        let is_name = !zone.is_empty() && zone.bytes().all(|byte| byte.is_ascii_graphic() && byte != b']');
        address.parse::<Ipv6Addr>().is_ok_and(|it| it.is_unicast_link_local()) && is_name
    })
}

impl fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests;
