use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{FdFlags, fcntl_getfd};
use rustix::net::sockopt;
use socket2::{Domain, SockRef, Socket, Type};

use super::*;
use crate::bus::liveness::{KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES};
use crate::sys::retry::retry_until;

fn listen_at(endpoint: &str) -> io::Result<Listener> {
    listen(&endpoint.parse().unwrap(), SocketRole::Subscribes, false)
}

fn has_ipv6() -> bool {
    TcpListener::bind("[::1]:0").is_ok()
}

/// The `host:port` of a bound TCP endpoint.
fn address_of(listener: &Listener) -> &str {
    listener.side.endpoint.as_str().strip_prefix("tcp://").unwrap()
}

fn port_of(listener: &Listener) -> u16 {
    address_of(listener).rsplit_once(':').unwrap().1.parse().unwrap()
}

#[test]
fn each_form_of_a_host_is_bound_and_reported_as_an_address() {
    for (host, reported, peers) in [
        ("127.0.0.1", "127.0.0.1", &["127.0.0.1"][..]),
        ("127.9.9.9", "127.9.9.9", &["127.9.9.9"]),
        ("*", "0.0.0.0", &["127.0.0.1", "127.0.0.2"]),
        ("0.0.0.0", "0.0.0.0", &["127.0.0.1"]),
        ("localhost", "127.0.0.1", &["127.0.0.1"]),
        ("[::1]", "[::1]", &["[::1]"]),
        ("[::]", "[::]", &["[::1]", "127.0.0.1"]),
        ("[*]", "[::]", &["[::1]", "127.0.0.1"]),
        ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]", &["127.0.0.1"]),
    ] {
        for port in ["0", "*"] {
            if host.starts_with('[') && !has_ipv6() {
                continue;
            }
            let listener = listen_at(&format!("tcp://{host}:{port}")).unwrap();
            let port = port_of(&listener);
            assert_eq!(listener.side.endpoint.as_str(), format!("tcp://{reported}:{port}"));
            for peer in peers {
                TcpStream::connect(format!("{peer}:{port}")).unwrap();
            }
        }
    }
}

#[test]
fn a_port_in_use_a_foreign_address_and_an_unknown_zone_have_an_error() {
    let first = listen_at("tcp://127.0.0.1:*").unwrap();
    for (endpoint, reason) in [
        (first.side.endpoint.as_str(), "Address already in use"),
        (&format!("tcp://*:{}", port_of(&first)), "Address already in use"),
        ("tcp://192.0.2.254:*", "Cannot assign requested address"),
        ("tcp://[fe80::1%nowhere0]:*", "not known"),
        ("tcp://[127.0.0.1]:*", "no address of the right family"),
    ] {
        let error = listen_at(endpoint).err().unwrap().to_string();
        assert!(error.contains(reason), "{endpoint}: {error}");
    }
}

#[test]
fn a_port_is_free_as_soon_as_its_listener_is_closed() {
    let listener = listen_at("tcp://127.0.0.1:*").unwrap();
    let endpoint = listener.side.endpoint.clone();
    let peer = TcpStream::connect(address_of(&listener)).unwrap();
    // The side that closes first keeps the port in TIME_WAIT.
    drop(rustix::net::accept(&listener.socket).unwrap());
    drop((peer, listener));
    listen_at(endpoint.as_str()).unwrap();
}

#[test]
fn accepted_sockets_have_the_options_of_the_listener() {
    for endpoint in ["tcp://127.0.0.1:*", "tcp://[::1]:*"] {
        if endpoint.contains('[') && !has_ipv6() {
            continue;
        }
        let listener = listen_at(endpoint).unwrap();
        let _peer = TcpStream::connect(address_of(&listener)).unwrap();
        let accepted = rustix::net::accept(&listener.socket).unwrap();
        for socket in [listener.socket.as_fd(), accepted.as_fd()] {
            let options = SockRef::from(&socket);
            assert!(options.reuse_address().unwrap() && !options.reuse_port().unwrap());
            assert!(options.tcp_nodelay().unwrap() && options.keepalive().unwrap());
            assert_eq!(options.tcp_keepalive_time().unwrap(), KEEPALIVE_IDLE);
            assert_eq!(options.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
            assert_eq!(options.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
            assert_eq!(options.tcp_notsent_lowat().unwrap(), UNSENT_BYTES);
        }
    }
}

#[test]
fn listeners_neither_block_nor_reach_other_programs() {
    for endpoint in ["tcp://127.0.0.1:*", "ipc://*"] {
        let listener = listen_at(endpoint).unwrap();
        assert!(sockopt::socket_acceptconn(&listener.socket).unwrap());
        assert!(fcntl_getfl(&listener.socket).unwrap().contains(OFlags::NONBLOCK));
        assert!(fcntl_getfd(&listener.socket).unwrap().contains(FdFlags::CLOEXEC));
    }
}

#[test]
fn many_peers_connect_before_one_is_accepted() {
    const PEERS: usize = 300;
    let (tcp, ipc) = (listen_at("tcp://127.0.0.1:*").unwrap(), listen_at("ipc://*").unwrap());
    let path = ipc.side.endpoint.as_str().strip_prefix("ipc://").unwrap();
    // Over TCP, a peer beyond the backlog would wait for a second, and over ipc for ever.
    let timeout = Duration::from_millis(900);
    let over_tcp = (0..PEERS).map(|_| TcpStream::connect_timeout(&address_of(&tcp).parse().unwrap(), timeout));
    let over_ipc = (0..PEERS).map(|_| {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.connect(&socket2::SockAddr::unix(path)?).map(|()| socket)
    });
    assert!(over_tcp.collect::<io::Result<Vec<_>>>().is_ok());
    assert!(over_ipc.collect::<io::Result<Vec<_>>>().is_ok());
}

#[test]
fn an_ipc_endpoint_is_reported_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bus");
    let written = [format!("ipc://{}", path.display()), format!("ipc://@adapter-gateway-{}", std::process::id())];
    for endpoint in &written {
        assert_eq!(listen_at(endpoint).unwrap().side.endpoint.as_str(), endpoint);
    }
    assert!(!path.exists());
}

#[test]
fn any_path_is_reported_free_and_in_the_temporary_directory() {
    let listeners = [(); 3].map(|()| listen_at("ipc://*").unwrap());
    let paths =
        listeners.each_ref().map(|it| Path::new(it.side.endpoint.as_str().strip_prefix("ipc://").unwrap()).to_owned());
    for path in &paths {
        assert_eq!(path.parent(), Some(&*std::env::temp_dir()));
        UnixStream::connect(path).unwrap();
    }
    drop(listeners);
    // Another test may take a path that is free again, and gives it back.
    let are_free = || if paths.iter().any(|path| path.exists()) { Err(()) } else { Ok(()) };
    retry_until(Duration::from_secs(60), Duration::from_millis(1), are_free, |()| true).unwrap();
}

#[test]
fn an_abstract_name_is_taken_once_and_is_no_file() {
    let name = format!("@adapter-gateway-test-{}", std::process::id());
    let listener = open_ipc(&name).unwrap();
    assert_eq!(open_ipc(&name).map(drop).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert!(!Path::new(&name).exists());
    drop(listener);
    open_ipc(&name).unwrap();
    assert_eq!(open_ipc("@").map(drop).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}
