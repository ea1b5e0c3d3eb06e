use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, SockAddr, Socket, Type};

use super::*;
use crate::bus::config::HubEndpoints;
use crate::bus::poller::Waker;
use crate::zmtp::ready;

/// A server, and what the bus thread has beside it.
struct Rig {
    poller: Poller,
    server: Server,
    exchange: Exchange,
}

impl Rig {
    fn new(config: &BusConfig) -> Self {
        let poller = Poller::new(&Waker::new().unwrap()).unwrap();
        let server = Server::open(config, &poller).unwrap().unwrap();
        let exchange = Exchange::new(server.places.subscribers, 0);
        Self { poller, server, exchange }
    }

    fn of_hub() -> Self {
        let [publishers, subscribers] = [(); 2].map(|()| "ipc://*".parse().unwrap());
        Self::new(&BusConfig { hub: Some(HubEndpoints { publishers, subscribers }), ..BusConfig::default() })
    }

    fn bound_with(endpoint: &str, max_peers: usize) -> Self {
        Self::new(&BusConfig { bind: vec![endpoint.parse().unwrap()], max_peers, ..BusConfig::default() })
    }

    /// Connects to the first endpoint, over TCP from this host.
    fn connect(&self, from: Ipv4Addr) -> Socket {
        let (endpoint, _) = self.server.endpoints().next().unwrap();
        let address = match endpoint.as_str().strip_prefix("ipc://") {
            Some(path) => SockAddr::unix(path).unwrap(),
            None => endpoint.as_str().strip_prefix("tcp://").unwrap().parse::<SocketAddr>().unwrap().into(),
        };
        let socket = Socket::new(address.domain(), Type::STREAM, None).unwrap();
        if address.domain() == Domain::IPV4 {
            socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        }
        socket.connect(&address).unwrap();
        socket
    }

    /// Connects, and sends the greeting.
    fn greet(&self) -> Socket {
        let mut peer = self.connect(Ipv4Addr::LOCALHOST);
        peer.write_all(&GREETING).unwrap();
        peer
    }

    fn publisher(&mut self) -> Socket {
        let mut peer = self.greet();
        peer.write_all(ready(SocketRole::Subscribes)).unwrap();
        self.take_in(Duration::ZERO);
        peer.set_nonblocking(true).unwrap();
        peer
    }

    /// Adds a subscriber of the hub, which is never written to.
    fn subscribe(&mut self, prefix: &[u8]) {
        let place = self.exchange.join(true).unwrap();
        self.exchange.subscriptions.subscribe(place, prefix).unwrap();
    }

    fn take_in(&mut self, now: Duration) {
        self.poller.look();
        self.poller.changes().for_each(|ready| self.server.on_ready(&ready));
        self.server.take_in(&mut self.exchange, &self.poller, now);
    }

    fn has_read_last(&mut self, now: Duration) -> bool {
        self.take_in(now);
        self.server.read_last(&self.exchange, now)
    }
}

/// To forget subscribers is a walk over all messages that wait. There would be a walk for each subscriber if newcomers
/// got the places one by one within a turn.
#[test]
fn all_who_leave_in_a_turn_are_forgotten_together_and_newcomers_get_their_places_then() {
    let mut rig = Rig::bound_with("ipc://*", 5);
    let places = rig.server.places.subscribers;
    let enter = |mut peer: &Socket| peer.write_all(ready(SocketRole::Publishes)).unwrap();
    let subscribers: Vec<_> = (0..places).map(|_| rig.greet()).collect();
    subscribers.iter().for_each(enter);
    let newcomers: Vec<_> = (0..places).map(|_| rig.greet()).collect();
    rig.take_in(Duration::ZERO);
    let subscribers_of = |rig: &Rig| rig.server.peers.ids(|peer| matches!(peer.phase, Phase::Subscriber(_))).len();
    assert_eq!((places, subscribers_of(&rig), rig.server.peers.in_handshake().count()), (2, 2, 2));

    for (subscriber, newcomer) in subscribers.into_iter().zip(&newcomers) {
        drop(subscriber);
        enter(newcomer);
    }
    rig.take_in(Duration::ZERO);
    assert_eq!((rig.server.left.len(), subscribers_of(&rig)), (2, 0));
    assert!(rig.server.give_out(&mut rig.exchange, Duration::ZERO), "newcomers can be read at once");
    rig.take_in(Duration::ZERO);
    assert_eq!((subscribers_of(&rig), rig.server.peers.in_handshake().count()), (2, 0));
}

#[test]
fn of_too_many_strangers_the_silent_ones_go_first_then_those_of_the_commonest_address_then_the_oldest() {
    let mut rig = Rig::bound_with("tcp://127.0.0.1:*", 0);
    let strangers = [(1, true), (2, false), (1, true), (2, true), (1, false), (1, false)];
    let connect = |(second, (host, speaks))| {
        let mut peer = rig.connect(Ipv4Addr::new(127, 0, 0, host));
        peer.write_all(if speaks { &GREETING } else { b"" }).unwrap();
        rig.take_in(Duration::from_secs(second));
        peer
    };
    let peers: Vec<_> = (0..).zip(strangers).map(connect).collect();
    let next_to_go = || {
        let id = rig.server.least_welcome()?;
        let address = rig.server.peers.all.get(&id).unwrap().address;
        rig.server.end(id);
        peers.iter().position(|peer| peer.local_addr().unwrap().as_socket() == address)
    };
    assert_eq!(std::iter::from_fn(next_to_go).collect::<Vec<_>>(), [4, 5, 1, 0, 2, 3]);
}

/// What one message costs is known when it was read, and a read of 64 KiB holds 13,000 of the smallest.
#[test]
fn a_quiet_publisher_waits_for_a_bounded_number_of_messages_of_busy_ones() {
    const BUSY: usize = 100;
    const MOST_MESSAGES: usize = 20_000;
    let mut rig = Rig::of_hub();
    rig.subscribe(b"quiet");
    let mut busy: Vec<_> = (0..BUSY).map(|_| (rig.publisher(), 0)).collect();
    let mut quiet = rig.publisher();
    let messages = b"\x01\x01b\0\0".repeat(10_000);
    let mut turn = |rig: &mut Rig| {
        for (peer, at) in &mut busy {
            loop {
                match peer.write(&messages[*at..]) {
                    Ok(written) => *at = (*at + written) % messages.len(),
                    Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        }
        rig.take_in(Duration::ZERO);
        rig.exchange.take_freed().forwarded as usize
    };
    for number in 1..=4 {
        // How much is read of each at once has settled by then.
        (0..50).for_each(|_| _ = turn(&mut rig));
        quiet.write_all(b"\x01\x05quiet\0\0").unwrap();
        let mut others = 0;
        while rig.exchange.messages() < number {
            others += turn(&mut rig);
        }
        assert!(others <= MOST_MESSAGES, "it waits for {others} messages of others");
    }
}

#[test]
fn publishers_that_go_on_are_read_for_a_bounded_time_at_the_stop_and_quiet_ones_for_a_shorter_one() {
    for (goes_on, expected) in [(true, LAST_READS), (false, QUIET)] {
        let mut rig = Rig::of_hub();
        let mut publisher = rig.publisher();
        assert!(!rig.has_read_last(Duration::ZERO));
        let mut times = (1..100).map(|tens| Duration::from_millis(10 * tens));
        let end = times.find(|now| {
            publisher.write_all(if goes_on { b"\x01\x01t\0\0" } else { b"" }).unwrap();
            rig.has_read_last(*now)
        });
        assert_eq!(end, Some(expected));
    }
}

#[test]
fn what_had_come_at_the_stop_is_read_and_the_end_of_a_message_that_has_begun_and_nothing_else() {
    const MESSAGES: usize = 1_000;
    let message = [&b"\x01\x05topic\0\x64"[..], &[b' '; 100]].concat();
    for begun in [0, 1, 2, 4, 7, 8, 9, 50, 108] {
        let mut rig = Rig::of_hub();
        rig.subscribe(b"");
        let mut publisher = rig.publisher();
        publisher.write_all(&[&message.repeat(MESSAGES), &message[..begun]].concat()).unwrap();
        assert!(![Duration::ZERO, LAST_READS].iter().any(|now| rig.server.read_last(&rig.exchange, *now)));
        publisher.write_all(&[&message[begun..], &message.repeat(10)].concat()).unwrap();
        let turns = (0..1_000).find(|_| rig.has_read_last(LAST_READS));
        assert_eq!((turns.is_some(), rig.exchange.messages()), (true, MESSAGES + usize::from(begun > 0)), "{begun}");
    }
}
