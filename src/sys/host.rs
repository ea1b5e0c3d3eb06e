//! The address that a host stands for, where it is bound.
//!
//! | host | address |
//! |---|---|
//! | `*`, `[*]` | every address: of IPv4, or of both families |
//! | `127.0.0.1`, `[::1]`, `[fe80::1%eth0]`, `[fe80::1%2]` | itself |
//! | `eth0`, `[eth0]` | the first address of the interface: of IPv4, or of IPv6 |
//! | `localhost`, `[localhost]` | the first address of the name: of IPv4, or of IPv6 if it has one |

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::os::unix::net::UnixDatagram;
use std::sync::LazyLock;
use std::time::Duration;
use std::{fs, io};

use rustix::net::netdevice;

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

/// Returns the address of the `host:port` of an endpoint: one of IPv6 if `is_ipv6`. Fails if the host is no interface,
/// no address and no name whose address is told in time, or the zone names no interface.
pub(crate) fn resolve(host_and_port: &str, is_ipv6: bool) -> io::Result<SocketAddr> {
    let (host, port) = host_and_port.rsplit_once(':').ok_or(io::ErrorKind::InvalidInput)?;
    let port = if port == "*" { 0 } else { port.parse().map_err(|_| io::ErrorKind::InvalidInput)? };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let (host, zone) = match host.rsplit_once('%') {
        Some((host, zone)) => (host, Some(interface_number(zone)?)),
        None => (host, None),
    };
    let found = find_address(host, is_ipv6);
    let (address, scope) =
        found.ok_or_else(|| io::Error::other("the host is no interface, no address and no known name"))?;
    Ok(match address {
        IpAddr::V4(_) => SocketAddr::new(address, port),
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, zone.unwrap_or(scope)).into(),
    })
}

/// Returns the number of the interface that a zone names, or that it is. The kernel takes any socket for the question.
fn interface_number(zone: &str) -> io::Result<u32> {
    match zone.parse() {
        Ok(0) => Err(io::ErrorKind::InvalidInput.into()),
        Ok(number) => Ok(number),
        Err(_) => Ok(netdevice::name_to_index(UnixDatagram::unbound()?, zone)?),
    }
}

/// Returns the name of an interface, or its number if it has no name.
pub(crate) fn interface_name(number: u32) -> String {
    let name = UnixDatagram::unbound().and_then(|socket| Ok(netdevice::index_to_name(socket, number)?));
    name.unwrap_or_else(|_| number.to_string())
}

/// Returns the address, and the number of the interface that it belongs to, or 0.
fn find_address(host: &str, is_ipv6: bool) -> Option<(IpAddr, u32)> {
    let any: IpAddr = if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let written = if host == "*" { Some(any) } else { host.parse().ok() };
    let of_family = |address: &IpAddr| address.is_ipv6() == is_ipv6;
    if let Some(address) = written.filter(of_family) {
        return Some((address, 0));
    }
    // Where the system does not tell its interfaces, there are still addresses and names.
    let mut interfaces = if_addrs::get_if_addrs().unwrap_or_default().into_iter();
    if let Some(found) = interfaces.find(|it| it.name == host && of_family(&it.ip())) {
        return Some((found.ip(), found.index.unwrap_or_default()));
    }
    let found = look_up_in_time(host, 0).unwrap_or_default();
    let mut addresses = found.iter().map(SocketAddr::ip);
    let found = addresses.clone().find(of_family).or_else(|| match addresses.next()? {
        IpAddr::V4(address) if is_ipv6 => Some(address.to_ipv6_mapped().into()),
        _ => None,
    })?;
    Some((found, 0))
}

/// Returns the addresses as [`look_up`] does, or an error if nobody tells them in [`LOOKUP_TIMEOUT`].
pub(crate) fn look_up_in_time(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let asked = name.to_owned();
    let thread = on_joined_thread("name-lookup", move || look_up(&asked, port)).ok();
    let found = thread.and_then(|thread| thread.recv_timeout(LOOKUP_TIMEOUT).ok());
    found.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::TimedOut, "no name server answers")))
}

/// Returns the addresses of a name, at least one (getaddrinfo(3)), each once. It takes as long as its name servers.
pub(crate) fn look_up(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found = (name, port).to_socket_addrs().map_err(|error| {
        // The standard library puts two sentences into one error.
        let text = error.to_string();
        io::Error::new(error.kind(), text.strip_prefix("failed to lookup address information: ").unwrap_or(&text))
    })?;
    // `/etc/hosts` may have an address of a name twice.
    let mut seen = HashSet::new();
    Ok(found.filter(|address| seen.insert(*address)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_an_interface_or_a_name() {
        for (host_and_port, is_ipv6, address) in [
            ("*:*", false, "0.0.0.0:0"),
            ("0.0.0.0:65535", false, "0.0.0.0:65535"),
            ("127.0.0.1:5", false, "127.0.0.1:5"),
            ("127.1:5", false, "127.0.0.1:5"),
            ("127.0.0.1%lo:5", false, "127.0.0.1:5"),
            ("lo:5", false, "127.0.0.1:5"),
            ("localhost:5", false, "127.0.0.1:5"),
            ("[*]:0", true, "[::]:0"),
            ("[::]:5", true, "[::]:5"),
            ("[::1]:5", true, "[::1]:5"),
            ("[fe80::1%1]:5", true, "[fe80::1%1]:5"),
            ("[fe80::1%lo]:5", true, "[fe80::1%1]:5"),
            ("[127.0.0.1]:5", true, "[::ffff:127.0.0.1]:5"),
        ] {
            let found = resolve(host_and_port, is_ipv6).map(|it| it.to_string());
            assert_eq!(found.ok().as_deref(), Some(address), "{host_and_port}");
        }
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
    fn a_host_in_brackets_has_an_address_of_ipv6() {
        for host_and_port in ["[lo]:5", "[localhost]:5"] {
            let found = resolve(host_and_port, true).unwrap();
            assert!(found.is_ipv6() && found.ip().to_canonical().is_loopback(), "{host_and_port}: {found}");
        }
    }

    #[test]
    fn an_unknown_host_and_an_unknown_zone_have_an_error() {
        for (host_and_port, is_ipv6, reason) in [
            ("nowhere0:5", false, "no interface, no address and no known name"),
            ("[nowhere0]:5", true, "no interface, no address and no known name"),
            ("1.2.3.4.5:5", false, "no interface, no address and no known name"),
            ("[fe80::1%]:5", true, "No such device"),
            ("[fe80::1%0]:5", true, "invalid"),
            ("[fe80::1%nowhere0]:5", true, "No such device"),
        ] {
            let error = resolve(host_and_port, is_ipv6).unwrap_err().to_string();
            assert!(error.contains(reason), "{host_and_port}: {error}");
        }
    }

    #[test]
    fn an_interface_has_a_number_and_a_name() {
        assert_eq!(interface_name(interface_number("lo").unwrap()), "lo");
        assert_eq!(interface_name(u32::MAX >> 1), "2147483647");
    }
}
