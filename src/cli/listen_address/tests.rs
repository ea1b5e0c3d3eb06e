use super::*;

#[test]
fn addresses_and_names_are_told_apart() {
    for (text, is_numeric) in [
        ("127.0.0.1:80", true),
        ("[::1]:0", true),
        ("0.0.0.0:65535", true),
        ("[fe80::1%2]:80", true),
        ("localhost:12358", false),
        ("a.example.org:1", false),
        ("a.example.org.:1", false),
        ("host_1:80", false),
        ("x-1.0x:80", false),
        ("[fe80::1%eth0]:80", false),
    ] {
        let parsed: ListenAddress = text.parse().unwrap();
        assert_eq!(parsed.to_string(), text);
        let ListenAddress::Tcp(address) = parsed else { panic!("{text}") };
        assert_eq!(address.numeric(), text.parse().ok().filter(|_| is_numeric));
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
