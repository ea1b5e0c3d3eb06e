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
    const HOST: &str = "no usable host before the port, such as localhost, 127.0.0.1 or [::1]";
    const PORT: &str = "no port from 0 to 65535 at the end, as in localhost:12358";
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
        ("tcp://[]:1", HOST),
        ("tcp://[a:1", HOST),
        ("tcp://a]:1", HOST),
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
    for wild in [
        "tcp://*:1",
        "tcp://[*]:1",
        "tcp://1.2.3.4:*",
        "tcp://1.2.3.4:0",
        "tcp://1.2.3.4:00",
        "tcp://[::1]:000",
        "ipc://*",
    ] {
        let endpoint = wild.parse::<Endpoint>().unwrap();
        let fault = endpoint.connectable().unwrap_err().to_string();
        assert_eq!(fault, "a wildcard can be bound, not connected to", "{wild}");
    }
    for plain in ["tcp://1.2.3.4:5", "tcp://1.2.3.4:010", "tcp://1.2.3.4:10"] {
        assert!(plain.parse::<Endpoint>().unwrap().connectable().is_ok(), "{plain}");
    }
}

#[test]
fn what_is_the_same_place_is_known_without_a_name_server() {
    let is_same = |one: &str, other: &str| one.parse::<Endpoint>().unwrap().is_same_as(&other.parse().unwrap());
    let here = ["127.0.0.1", "localhost", "*", "0.0.0.0", "[*]", "[::]"].map(|host| format!("tcp://{host}:5"));
    assert!(here.iter().all(|one| here.iter().all(|other| is_same(one, other))));
    for other in ["tcp://127.0.0.1:6", "tcp://127.0.0.2:5", "tcp://[::1]:5", "tcp://hub:5", "ipc:///localhost:5"] {
        assert!(is_same(other, other) && here.iter().all(|here| !is_same(here, other)), "{other}");
    }
    for (one, other) in [
        ("tcp://127.0.0.1:5", "tcp://0.0.0.0:05"),
        ("tcp://[::1]:5", "tcp://[localhost]:5"),
        ("tcp://[0::2]:5", "tcp://[::0002]:5"),
    ] {
        assert!(is_same(one, other), "{one} {other}");
    }
    assert!(["tcp://*:*", "tcp://[::1]:0", "ipc://*"].iter().all(|chosen| !is_same(chosen, chosen)));
}

#[test]
fn a_name_is_told_from_an_address() {
    for (text, expected, is_named) in [
        ("tcp://127.0.0.1:1", Some("127.0.0.1:1"), false),
        ("tcp://[::1]:16130", Some("[::1]:16130"), false),
        ("tcp://[fe80::1%eth0]:1", None, true),
        ("tcp://[fe80::1%7]:1", Some("[fe80::1%7]:1"), false),
        ("tcp://localhost:1", None, true),
        ("tcp://[localhost]:1", None, true),
        ("tcp://[127.0.0.1]:1", None, true),
    ] {
        let endpoint = text.parse::<Endpoint>().unwrap();
        assert_eq!(endpoint.numeric(), expected.map(|address| address.parse().unwrap()), "{text}");
        assert_eq!((endpoint.is_named(), endpoint.is_ipv6()), (is_named, text.contains('[')), "{text}");
    }
    let ipc = "ipc:///run/hub".parse::<Endpoint>().unwrap();
    assert_eq!((ipc.numeric(), ipc.is_named()), (None, false));
    let address = "[fe80::1%7]:5".parse().unwrap();
    assert_eq!(Endpoint::at(address), "tcp://[fe80::1%7]:5".parse().unwrap());
}
