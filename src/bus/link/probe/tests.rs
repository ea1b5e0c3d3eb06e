use std::net::TcpListener;

use super::*;
use crate::zmtp::PeerFault;

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap()
}

fn end_of_probe(endpoint: &Endpoint, role: SocketRole) -> LinkStatus {
    probe(endpoint, role, &|_| {})
}

fn unfit_kind(name: &str) -> NotConnected {
    NotConnected::Unfit(PeerFault::SocketType(name.into()))
}

fn bound(context: &zmq::Context, kind: zmq::SocketType, address: &str) -> (zmq::Socket, Endpoint) {
    let socket = context.socket(kind).unwrap();
    socket.bind(address).unwrap();
    let endpoint = socket.get_last_endpoint().unwrap().unwrap().parse().unwrap();
    (socket, endpoint)
}

#[test]
fn the_type_of_a_socket_decides() {
    let context = zmq::Context::new();
    let directory = tempfile::tempdir().unwrap();
    for (kind, expected) in [
        (zmq::PUB, Ok(())),
        (zmq::XPUB, Ok(())),
        (zmq::XSUB, Err(unfit_kind("XSUB"))),
        (zmq::ROUTER, Err(unfit_kind("ROUTER"))),
    ] {
        let file = format!("ipc://{}/{kind:?}", directory.path().display());
        let name = format!("ipc://@adapter-gateway-{}-{kind:?}", std::process::id());
        for address in ["tcp://127.0.0.1:*", &file, &name] {
            let (_socket, endpoint) = bound(&context, kind, address);
            assert_eq!(end_of_probe(&endpoint, SocketRole::Publishes), expected, "{endpoint}");
        }
    }
}

#[test]
fn a_security_mechanism_is_named() {
    let context = zmq::Context::new();
    let socket = context.socket(zmq::XSUB).unwrap();
    socket.set_plain_server(true).unwrap();
    socket.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = socket.get_last_endpoint().unwrap().unwrap().parse().unwrap();
    let plain = PeerFault::Mechanism("PLAIN".into());
    assert_eq!(end_of_probe(&endpoint, SocketRole::Subscribes), Err(NotConnected::Unfit(plain)));
}

#[test]
fn what_is_not_there_is_told_apart() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(end_of_probe(&endpoint(&format!("tcp://{free}")), SocketRole::Publishes), Err(NotConnected::Refused));
    assert_eq!(end_of_probe(&endpoint("ipc:///nonexistent/bus"), SocketRole::Publishes), Err(NotConnected::Refused));
    let unresolved = end_of_probe(&endpoint("tcp://nonexistent.invalid:1"), SocketRole::Publishes);
    assert!(matches!(unresolved, Err(NotConnected::Unresolved(_))), "{unresolved:?}");
}

#[test]
fn what_answers_is_told_apart() {
    let ready = |command: &[u8]| [&GREETING[..], command].concat();
    let unfit = |fault| Some(NotConnected::Unfit(fault));
    let curve = PeerFault::Mechanism("CURVE".into());
    for (answer, expected) in [
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), unfit(PeerFault::Greeting)),
        (b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE\0".to_vec(), unfit(curve)),
        (ready(b"\x06\0\0\0\0\0\0\0\x19\x05READY\x0bsocket-type\0\0\0\x03PUB"), None),
        (ready(b"\0\x05hello"), unfit(PeerFault::Handshake)),
        (Vec::new(), Some(NotConnected::Closed)),
        (GREETING.to_vec(), Some(NotConnected::Closed)),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = endpoint(&format!("tcp://{}", listener.local_addr().unwrap()));
        let is_hub = expected.is_none();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // A hub may be behind a slow link.
            thread::sleep(Duration::from_millis(if is_hub { 2_500 } else { 0 }));
            stream.read_exact(&mut [0; GREETING_VERSION_BYTES]).unwrap();
            stream.write_all(&answer).unwrap();
            // A hub stays until the probe has left.
            assert!(!is_hub || stream.read_to_end(&mut Vec::new()).is_ok());
        });
        assert_eq!(end_of_probe(&endpoint, SocketRole::Publishes).err(), expected);
        peer.join().unwrap();
    }
}

#[test]
fn the_first_address_with_the_right_peer_is_found_behind_others() {
    let (refused, stranger) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let [refused_at, stranger_at] = [&refused, &stranger].map(|it| SockAddr::from(it.local_addr().unwrap()));
    drop(refused);
    thread::spawn(move || stranger.incoming().for_each(|stream| drop(stream.unwrap().write_all(b"SSH-2.0-"))));
    let context = zmq::Context::new();
    let (_hub, hub) = bound(&context, zmq::XSUB, "tcp://127.0.0.1:*");
    let hub_at = SockAddr::from(hub.numeric().unwrap());
    let all = [&refused_at, &stranger_at, &hub_at].map(SockAddr::clone);
    assert_eq!(find_peer(&all, SocketRole::Subscribes).unwrap().as_socket(), hub.numeric());
    for unfit in [[&stranger_at, &refused_at], [&refused_at, &stranger_at]] {
        let found = find_peer(&unfit.map(SockAddr::clone), SocketRole::Subscribes).err();
        assert_eq!(found, Some(NotConnected::Unfit(PeerFault::Greeting)));
    }
}

#[test]
fn a_hub_that_accepts_no_more_over_ipc_gives_no_answer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hub");
    let unix = || Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).unwrap();
    let (hub, at) = (unix(), SockAddr::unix(&path).unwrap());
    hub.bind(&at).unwrap();
    hub.listen(0).unwrap();
    let mut waiting = Vec::new();
    while waiting.push_mut(unix()).connect(&at).is_ok() {}
    let endpoint = endpoint(&format!("ipc://{}", path.display()));
    assert_eq!(end_of_probe(&endpoint, SocketRole::Publishes), Err(NotConnected::Silent));
}

#[test]
fn a_stranger_that_says_nothing_is_waited_for_no_longer_than_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = endpoint(&format!("tcp://{}", listener.local_addr().unwrap()));
    assert_eq!(end_of_probe(&endpoint, SocketRole::Publishes), Err(NotConnected::Silent));
}

#[test]
fn all_addresses_are_reported_and_then_that_of_the_right_peer() {
    let context = zmq::Context::new();
    let (hub, at) = bound(&context, zmq::XSUB, "tcp://127.0.0.1:*");
    let (address, waker) = (at.numeric().unwrap(), Arc::new(Waker::new().unwrap()));
    let named = endpoint(&format!("tcp://localhost:{}", address.port()));
    let addresses = || ProbeReport::Addresses(vec![address]);
    let reports = |role| start(&named, role, &waker).iter().collect::<Vec<_>>();
    assert_eq!(reports(SocketRole::Subscribes), [addresses(), addresses(), ProbeReport::End(Ok(()))]);
    let unfit = ProbeReport::End(Err(unfit_kind("XSUB")));
    assert_eq!(reports(SocketRole::Publishes), [addresses(), unfit]);
    drop(hub);
}
