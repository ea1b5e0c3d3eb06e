//! Addresses as a person writes them: where to listen, on TCP, at a Unix socket or a descriptor, and the endpoints of
//! the bus. What is accepted is what a plain reader accepts, and is written as it was read.

use std::net::{SocketAddr, SocketAddrV6};
use std::path::PathBuf;

use adapter_gateway::bus::Endpoint;
use adapter_gateway::cli::ListenAddress;
use adapter_gateway::sys::host::HostPort;

const PATH_BYTES: usize = 107;

/// The input is read as it stands, and behind each of the words that an address begins with.
pub(crate) fn addresses(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for prefix in ["", "unix:", "fd:", "localhost:", "tcp://", "tcp://host:", "ipc://"] {
        let text = format!("{prefix}{text}");
        listens(&text);
        connects(&text);
    }
}

fn listens(text: &str) {
    let read = text.parse::<ListenAddress>().ok();
    assert_eq!(read, listen_address(text), "{text:?}");
    if let Some(address) = read {
        assert_eq!(address.to_string().parse::<ListenAddress>().as_ref(), Ok(&address));
        assert!(is_written_alike(&address, text));
    }
}

/// Returns whether the address is written as it was read, except for zeros before a number and in an address of IPv6.
fn is_written_alike(address: &ListenAddress, text: &str) -> bool {
    let without_zeros = |text: &str| {
        let (before, number) = text.rsplit_once(':').unwrap();
        let number = number.trim_start_matches('0');
        format!("{before}:{}", if number.is_empty() { "0" } else { number })
    };
    let as_read = match (address, text.parse::<SocketAddr>()) {
        (ListenAddress::Path(_), _) => text.to_owned(),
        (_, Ok(numeric)) => numeric.to_string(),
        _ => without_zeros(text),
    };
    address.to_string() == as_read
}

fn listen_address(text: &str) -> Option<ListenAddress> {
    if let Some(path) = text.strip_prefix("unix:") {
        let is_path = path.chars().next().is_some_and(|first| first != '@');
        return is_path.then(|| ListenAddress::Path(PathBuf::from(path)));
    }
    if let Some(number) = text.strip_prefix("fd:") {
        let number = digits(number, i32::MAX as u64).filter(|number| *number > 2);
        return number.map(|number| ListenAddress::Descriptor(number as i32));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(ListenAddress::Tcp(address.into()));
    }
    let colon = text.rfind(':')?;
    let (host, port) = (&text[..colon], digits(&text[colon + 1..], 65_535)?);
    (is_name(host) || is_on_interface(host))
        .then(|| ListenAddress::Tcp(HostPort { host: host.into(), port: port as u16 }))
}

/// Returns a number that is written in digits alone and is not greater than `greatest`.
fn digits(text: &str, greatest: u64) -> Option<u64> {
    let is_in_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_in_digits && *number <= greatest)
}

fn is_name(name: &str) -> bool {
    let labels: Vec<_> = name.strip_suffix('.').unwrap_or(name).split('.').collect();
    let is_of_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_label = |label: &&str| !label.is_empty() && !label.starts_with('-') && label.chars().all(is_of_label);
    labels.iter().all(is_label) && !labels[labels.len() - 1].bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads an address of fe80::/10 with the name of its interface.
fn is_on_interface(host: &str) -> bool {
    let Some((address, name)) = host.split_once('%') else { return false };
    let Some(name) = name.strip_suffix(']') else { return false };
    format!("{address}]:0").parse::<SocketAddrV6>().is_ok_and(|it| it.ip().segments()[0] & 0xffc0 == 0xfe80)
        && !name.is_empty()
        && !name.chars().any(is_in_no_host)
}

fn is_in_no_host(c: char) -> bool {
    matches!(c, '/' | ';' | '[' | ']') || c.is_control() || c.is_whitespace()
}

fn connects(text: &str) {
    let read = text.parse::<Endpoint>();
    assert_eq!(read.is_ok(), is_endpoint(text), "{text:?}");
    let Ok(endpoint) = read else { return };
    assert_eq!(endpoint.as_str(), text);
    let is_wild = match text.strip_prefix("tcp://") {
        Some(address) => {
            address.starts_with("*:")
                || address.starts_with("[*]:")
                || address.ends_with(":*")
                || address.trim_end_matches('0').ends_with(':')
        }
        None => text == "ipc://*",
    };
    assert_eq!(endpoint.connectable().is_err(), is_wild, "{text:?}");
}

fn is_endpoint(text: &str) -> bool {
    if let Some(path) = text.strip_prefix("ipc://") {
        return (1..=PATH_BYTES).contains(&path.len()) && !path.chars().any(char::is_control);
    }
    let Some(address) = text.strip_prefix("tcp://") else { return false };
    let Some(colon) = address.rfind(':') else { return false };
    let (host, port) = (&address[..colon], &address[colon + 1..]);
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let name = inside.unwrap_or(host);
    let is_host = !name.is_empty() && (inside.is_some() || !host.contains(':')) && !name.chars().any(is_in_no_host);
    is_host && (port == "*" || digits(port, 65_535).is_some())
}
