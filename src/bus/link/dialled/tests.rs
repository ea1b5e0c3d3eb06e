use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::*;
use crate::bus::endpoint::Endpoint;
use crate::bus::link::with_context;
use crate::sys::retry::retry_until;
use crate::zmtp::{CONNECTION_PREFIXES, GREETING_BYTES};

const PATIENCE: Duration = Duration::from_secs(30);

/// Does what a SUB socket does that subscribes to everything.
fn shake_hands(connection: &mut TcpStream) {
    let mut bytes = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL".to_vec();
    bytes.resize(GREETING_BYTES, 0);
    bytes.extend_from_slice(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB");
    connection.write_all(&bytes).unwrap();
    connection.read_exact(&mut [0; GREETING_BYTES + 2 + 26]).unwrap();
    connection.write_all(b"\0\x01\x01").unwrap();
}

/// A hub, which shows everything that reaches it: an XSUB socket does not filter.
struct XsubHub {
    socket: zmq::Socket,
    address: SocketAddr,
    /// What it subscribes to first.
    prefix: Option<String>,
}

impl XsubHub {
    fn at(address: &str, prefixes: &[&str]) -> Self {
        let socket = zmq::Context::new().socket(zmq::XSUB).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_sndhwm(0).unwrap(); // libzmq would drop the subscriptions beyond a bound
        prefixes.iter().for_each(|prefix| subscribe(&socket, b'\x01', prefix));
        eventually("the port is free", || socket.bind(&format!("tcp://{address}")).is_ok());
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        let prefix = prefixes.first().map(|prefix| (*prefix).to_owned());
        Self { socket, address: endpoint.strip_prefix("tcp://").unwrap().parse().unwrap(), prefix }
    }

    fn new(prefixes: &[&str]) -> Self {
        Self::at("127.0.0.1:*", prefixes)
    }

    /// Returns the next topic, and waits for it for at most so long.
    fn next(&self, patience: Duration) -> Option<String> {
        self.socket.set_rcvtimeo(patience.as_millis() as i32).unwrap();
        let frames = self.socket.recv_multipart(0).ok()?;
        assert_eq!(frames.len(), 2);
        Some(String::from_utf8(frames[0].clone()).unwrap())
    }
}

/// Subscribes (1) or cancels (0).
fn subscribe(socket: &zmq::Socket, mark: u8, prefix: &str) {
    socket.send([&[mark], prefix.as_bytes()].concat(), 0).unwrap();
}

/// The side that dials.
struct Dialler {
    dialled: Dialled,
    waker: Arc<Waker>,
}

impl Dialler {
    fn to(address: SocketAddr, pipe_messages: u16) -> Self {
        let endpoint = format!("tcp://{address}").parse().unwrap();
        let waker = Arc::new(Waker::new().unwrap());
        let poller = Poller::new(&waker).unwrap();
        let dial = |context: &_, endpoint: &_| {
            Dialled::connect(context, endpoint, NonZero::new(pipe_messages).unwrap(), &poller)
        };
        let mut dialled = with_context(&[endpoint], dial).unwrap();
        Self { dialled: dialled.remove(0), waker }
    }

    fn read_events(&mut self) {
        self.dialled.read_events(&self.waker, &|_| false);
    }

    /// Waits until the hub counts as connected, and its subscription was read, or until it does not. On a busy machine,
    /// it may count as connected before. A socket does its work only while its owner calls it, so this calls that of
    /// the hub.
    fn wait_connected(&mut self, is_connected: bool, hub: Option<&XsubHub>) {
        eventually("the connection changes", || {
            assert!(hub.is_none_or(|hub| hub.socket.get_events().is_ok()));
            self.read_events();
            let prefix = hub.and_then(|hub| hub.prefix.as_ref());
            let is_subscribed =
                prefix.is_none_or(|prefix| !self.subscriptions().matching(prefix.as_bytes()).is_empty());
            self.dialled.link.state.is_connected() == is_connected && is_subscribed
        });
    }

    fn subscriptions(&self) -> &Subscriptions {
        self.dialled.subscriptions.as_ref().unwrap()
    }

    fn try_send(&mut self, topic: &str, payload: &[u8]) -> bool {
        let message = WireMessage::copy_of(topic.as_bytes(), payload).unwrap();
        self.dialled.try_send(&message)
    }

    fn send(&mut self, topic: &str) {
        assert!(self.try_send(topic, b"payload"));
    }
}

fn eventually(what: &str, mut happens: impl FnMut() -> bool) {
    let attempt = || happens().then_some(()).ok_or("did not happen in time");
    retry_until(PATIENCE, Duration::from_millis(1), attempt, |_| true).expect(what);
}

#[test]
fn the_first_subscription_stands_for_everything_and_a_cancelled_one_changes_nothing() {
    let hub = XsubHub::new(&["a"]);
    let mut dialler = Dialler::to(hub.address, 256);
    dialler.wait_connected(true, Some(&hub));
    dialler.send("b");
    assert_eq!(hub.next(PATIENCE).as_deref(), Some("b"));
    subscribe(&hub.socket, 1, "c");
    subscribe(&hub.socket, 0, "a");
    subscribe(&hub.socket, 0, "c");
    let quiet_since = Instant::now();
    while quiet_since.elapsed() < Duration::from_millis(50) {
        hub.socket.get_events().unwrap();
        dialler.read_events();
    }
    dialler.send("d");
    assert_eq!(hub.next(PATIENCE).as_deref(), Some("d"));
}

/// A hub may bind a port that the dialler has got for its own side.
#[test]
fn a_port_of_the_dialler_can_be_bound_and_what_is_dialled_can_be_dialled_no_more() {
    for hub in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(hub) = TcpListener::bind(hub) else { continue };
        let mut dialler = Dialler::to(hub.local_addr().unwrap(), 256);
        let (_connection, own) = hub.accept().unwrap();
        TcpListener::bind(own).unwrap();
        let target = dialler.dialled.link.target.take().unwrap();
        dialler.dialled.link.socket.disconnect(&target.for_libzmq()).unwrap();
    }
}

#[test]
fn a_hub_behind_a_slow_link_is_connected() {
    let hub = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut dialler = Dialler::to(hub.local_addr().unwrap(), 256);
    let hub = thread::spawn(move || {
        let (mut connection, _) = hub.accept().unwrap();
        thread::sleep(Duration::from_millis(2_500));
        shake_hands(&mut connection);
        (hub, connection)
    });
    dialler.wait_connected(true, None);
    hub.join().unwrap();
}

/// As publish/subscribe has it: nobody has subscribed.
#[test]
fn what_a_hub_is_sent_before_it_subscribes_to_anything_is_dropped() {
    let hub = XsubHub::new(&[]);
    let (started, mut dialler) = (Instant::now(), Dialler::to(hub.address, 256));
    dialler.wait_connected(true, Some(&hub));
    assert!(started.elapsed() >= Duration::from_millis(250));
    dialler.send("dropped");
    subscribe(&hub.socket, 1, "a");
    eventually("the subscription arrives", || {
        dialler.read_events();
        dialler.send("b");
        hub.next(Duration::from_millis(1)).is_some_and(|topic| topic == "b")
    });
}

#[test]
fn a_hub_that_starts_again_gets_everything_though_it_subscribes_to_nothing() {
    let hub = XsubHub::new(&["a"]);
    let address = hub.address;
    let mut dialler = Dialler::to(address, 256);
    dialler.wait_connected(true, Some(&hub));
    drop(hub);
    dialler.wait_connected(false, None);
    let hub = XsubHub::at(&address.to_string(), &[]);
    dialler.wait_connected(true, Some(&hub));
    dialler.send("b");
    assert_eq!(hub.next(PATIENCE).as_deref(), Some("b"));
}

/// Passes bytes on between the next connection and the hub. Returns both connections.
fn relay(listener: &TcpListener, hub: SocketAddr) -> [TcpStream; 2] {
    let (client, server) = (listener.accept().unwrap().0, TcpStream::connect(hub).unwrap());
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
    }
    [client, server]
}

#[test]
fn a_hub_whose_connection_is_lost_gets_every_message_that_follows() {
    let hub = XsubHub::new(&["a"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut dialler = Dialler::to(listener.local_addr().unwrap(), 256);
    for round in 0..5 {
        let connections = relay(&listener, hub.address);
        dialler.wait_connected(true, Some(&hub));
        for number in 0..100 {
            dialler.send(&format!("{round}.{number}"));
        }
        for number in 0..100 {
            assert_eq!(hub.next(PATIENCE), Some(format!("{round}.{number}")));
        }
        connections.iter().for_each(|connection| connection.shutdown(Shutdown::Both).unwrap());
        dialler.wait_connected(false, None);
    }
}

#[test]
fn the_first_message_after_a_protocol_error_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut dialler = Dialler::to(address, 256);
    let (mut connection, _) = listener.accept().unwrap();
    shake_hands(&mut connection);
    dialler.wait_connected(true, None);
    // A subscription that is perhaps read after the loss, and a frame that is too long.
    connection.write_all(b"\0\x02\x01z\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff").unwrap();
    let _ = connection.read_to_end(&mut Vec::new());
    dialler.wait_connected(false, None);
    drop((connection, listener));
    let hub = XsubHub::at(&address.to_string(), &["a"]);
    dialler.wait_connected(true, Some(&hub));
    dialler.send("b");
    assert_eq!(hub.next(PATIENCE).as_deref(), Some("b"));
}

/// libzmq would take the first byte for the length of an identity, and subscribe by itself. If the socket is closed just
/// then, it aborts the process.
#[test]
fn what_passes_for_an_old_version_of_the_protocol_is_no_hub() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut dialler = Dialler::to(server.local_addr().unwrap(), 256);
    let (mut connection, _) = server.accept().unwrap();
    connection.write_all(&[b"HTTP/1.1 400".as_slice(), &[b' '; 61]].concat()).unwrap();
    // It may be reset.
    let _ = connection.read_to_end(&mut Vec::new());
    dialler.read_events();
    assert!(!dialler.subscriptions().have_everything());
}

#[test]
fn nothing_is_said_of_a_hub_that_subscribes_to_more_than_is_kept_until_its_next_connection() {
    let hub = XsubHub::new(&["a"]);
    let mut dialler = Dialler::to(hub.address, 256);
    dialler.wait_connected(true, Some(&hub));
    dialler.send("b");
    assert_eq!(dialler.dialled.unsubscribed_topics.take_new().len(), 1);
    // The last ones come behind the one that is too many.
    (0..CONNECTION_PREFIXES + 100).for_each(|number| subscribe(&hub.socket, 1, &format!("n{number}")));
    subscribe(&hub.socket, 0, "a");
    eventually("there are too many", || {
        hub.socket.get_events().unwrap();
        dialler.read_events();
        dialler.dialled.subscriptions.is_none() && !dialler.dialled.is_unread
    });
    let address = hub.address;
    dialler.send("c");
    assert_eq!(dialler.dialled.unsubscribed_topics.take_new().len(), 0);
    drop(hub);
    dialler.wait_connected(false, None);
    let hub = XsubHub::at(&address.to_string(), &["a"]);
    dialler.wait_connected(true, Some(&hub));
    dialler.send("d");
    assert_eq!(dialler.dialled.unsubscribed_topics.take_new().len(), 1);
}

#[test]
fn the_first_message_to_a_hub_at_another_address_arrives() {
    let mut hub = XsubHub::new(&["a"]);
    let mut dialler = Dialler::to(hub.address, 256);
    for number in 0..20 {
        dialler.wait_connected(true, Some(&hub));
        dialler.send(&number.to_string());
        assert_eq!(hub.next(PATIENCE), Some(number.to_string()));
        // Perhaps it is read after the loss.
        subscribe(&hub.socket, 1, "z");
        let next = XsubHub::new(&["a"]);
        drop(hub);
        hub = next;
        dialler.wait_connected(false, None);
        let link = &mut dialler.dialled.link;
        let former = link.target.clone().and_then(|target| target.numeric()).unwrap();
        link.dial_one_of(&[hub.address, former], Instant::now());
        assert_eq!(link.target, Some(Endpoint::at(former)), "the name has this address still");
        link.dial_one_of(&[hub.address], Instant::now());
        assert_eq!(link.target, Some(Endpoint::at(hub.address)));
    }
}

#[test]
fn a_full_pipe_refuses_whole_messages_and_keeps_large_payloads_until_they_are_sent() {
    let hub = XsubHub::new(&["a"]);
    hub.socket.set_rcvhwm(1).unwrap();
    let mut dialler = Dialler::to(hub.address, 4);
    dialler.wait_connected(true, Some(&hub));
    let buffer = Arc::new(vec![7; 1 + 256 * 1024]);
    let mut sent = 0;
    let mut send = |sent: &mut u32| {
        let message = WireMessage::part_of(sent.to_string().as_bytes(), &buffer, 1..buffer.len()).unwrap();
        let is_sent = dialler.dialled.try_send(&message);
        assert_eq!(dialler.dialled.is_full, !is_sent);
        *sent += u32::from(is_sent);
        is_sent
    };
    // The kernel takes some megabytes.
    let (started, mut full_since) = (Instant::now(), Instant::now());
    let is_filling = || Arc::strong_count(&buffer) <= 4 && started.elapsed() < PATIENCE;
    while full_since.elapsed() < Duration::from_millis(300) || is_filling() {
        if send(&mut sent) {
            full_since = Instant::now();
        }
    }
    assert!(Arc::strong_count(&buffer) > 4, "{}", Arc::strong_count(&buffer));
    for number in 0..sent {
        assert_eq!(hub.next(PATIENCE), Some(number.to_string()));
    }
    eventually("libzmq is done with the payloads", || Arc::strong_count(&buffer) == 1);
    assert!(dialler.try_send("last", b""));
    assert_eq!((hub.next(PATIENCE).as_deref(), dialler.dialled.is_full), (Some("last"), false));
    while dialler.try_send("more", &buffer) {}
    drop(hub);
    dialler.wait_connected(false, None);
    assert!(!dialler.dialled.is_full, "nobody waits for room at a hub that is away");
}
