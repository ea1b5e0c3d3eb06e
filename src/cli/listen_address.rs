//! Where to listen, as the command line has it.

use std::fmt;
use std::net::Ipv6Addr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;

use crate::sys::host::{HostPort, digits};

/// A value of `--listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `127.0.0.1:12358` or `localhost:12358`: TCP.
    Tcp(HostPort),
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
            _ => address_or_name(text).map(Self::Tcp),
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

/// Reads an address, or the name of a host, which stands for every address of the name, with a port. A host of another
/// kind, which only an endpoint of the bus has, is refused, and so is a mistyped address.
pub(super) fn address_or_name(text: &str) -> Result<HostPort, &'static str> {
    let address: HostPort = text.parse()?;
    // Only a link-local address has the name of its interface (RFC 4007 §11).
    let has_zone = |host: &str| {
        host.split_once('%').is_some_and(|(ip, zone)| {
            !zone.is_empty() && ip.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_unicast_link_local())
        })
    };
    let host = address.without_brackets();
    let is_usable = address.numeric().is_some() || if address.is_ipv6() { has_zone(host) } else { is_host_name(host) };
    let fault = "neither an address nor a name with a port, such as 127.0.0.1:12358 or localhost:12358";
    if is_usable { Ok(address) } else { Err(fault) }
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

#[cfg(test)]
mod tests;
