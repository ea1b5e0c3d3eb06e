use super::*;

#[test]
fn addresses_and_names_are_told_apart() {
    for text in ["127.0.0.1:80", "[::1]:0", "0.0.0.0:65535", "[fe80::1%2]:80"] {
        let address: TcpAddress = text.parse().unwrap();
        assert_eq!(address.resolve().unwrap(), [text.parse().unwrap()]);
    }
    for text in
        ["localhost:12358", "a.example.org:1", "a.example.org.:1", "host_1:80", "x-1.0x:80", "[fe80::1%eth0]:80"]
    {
        let parsed: ListenAddress = text.parse().unwrap();
        assert!(matches!(parsed, ListenAddress::Tcp(_)) && text.parse::<SocketAddr>().is_err(), "{text}");
        assert_eq!(parsed.to_string(), text);
    }
}

#[test]
fn paths_and_descriptors_are_told_from_addresses() {
    for (text, expected) in [
        ("unix:/run/user/1/gateway", ListenAddress::Path("/run/user/1/gateway".into())),
        ("unix:here", ListenAddress::Path("here".into())),
        ("unix:./@name", ListenAddress::Path("./@name".into())),
        ("unix:localhost:80", ListenAddress::Path("localhost:80".into())),
        ("fd:3", ListenAddress::Descriptor(3)),
        ("fd:2147483647", ListenAddress::Descriptor(i32::MAX)),
    ] {
        let parsed: ListenAddress = text.parse().unwrap();
        assert_eq!(parsed, expected);
        assert_eq!(parsed.to_string(), text);
    }
}

#[test]
fn everything_else_is_refused() {
    for text in [
        "",
        ":80",
        "localhost",
        "localhost:",
        "localhost:+1",
        "localhost:65536",
        "localhost:http",
        "127.1:80",
        "127.1.:80",
        "256.0.0.1:80",
        "1:80",
        "*:80",
        "a b:80",
        "a..b:80",
        ".:80",
        "-a:80",
        "::1:80",
        "[localhost]:80",
        "[localhost%eth0]:80",
        "[::1%lo]:80",
        "[fe80::1%]:80",
        "[fe80::1%e]]:80",
        "[fe80::1%e th]:80",
        "fe80::1%eth0:80",
        "http://a:80",
        "user@host:80",
        "grüße.example:80",
        "unix:",
        "unix:@name",
        "Unix:/a",
        "fd:",
        "fd:2",
        "fd:-1",
        "fd:+3",
        "fd:3x",
        "fd: 3",
        "fd:2147483648",
    ] {
        assert!(text.parse::<ListenAddress>().is_err(), "{text}");
    }
}

#[test]
fn a_zone_is_the_number_of_its_interface() {
    let address: TcpAddress = "[fe80::1%lo]:7".parse().unwrap();
    assert_eq!(address.resolve().unwrap(), ["[fe80::1%1]:7".parse().unwrap()]);
}

#[test]
fn localhost_is_each_of_its_addresses_once() {
    let name: TcpAddress = "localhost:7".parse().unwrap();
    let addresses = name.resolve().unwrap();
    assert!(addresses.contains(&"127.0.0.1:7".parse().unwrap()), "{addresses:?}");
    assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 7), "{addresses:?}");
    assert!((1..addresses.len()).all(|at| !addresses[..at].contains(&addresses[at])), "{addresses:?}");
}
