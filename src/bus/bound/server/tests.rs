use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};

use proptest::prelude::*;
use socket2::{Domain, SockAddr, Socket, Type};

use super::*;
use crate::bus::config::HubEndpoints;
use crate::bus::poller::Waker;
use crate::zmtp::{RESERVABLE_BYTES, WireMessage, ready};

/// A `PING` with the longest context, and how long its `PONG` is.
const PING: &[u8] = b"\x04\x17\x04PING\0\0abcdefghijklmnop";
const PONG_BYTES: usize = PING.len() - 2;

/// A server, and what the bus thread has beside it.
struct Rig {
    poller: Poller,
    server: Server,
    exchange: Exchange,
}

impl Rig {
    fn new(config: &BusConfig) -> Self {
        let poller = Poller::new(&Waker::new().unwrap()).unwrap();
        let server = Server::open(config, &poller).unwrap();
        let exchange = Exchange::new(server.places.subscribers, 0);
        Self { poller, server, exchange }
    }

    fn of_hub() -> Self {
        Self::of_hub_up_to(BusConfig::default().payload_bytes)
    }

    /// Returns a hub whose publishers may send payloads of so many bytes.
    fn of_hub_up_to(payload_bytes: u64) -> Self {
        let [publishers, subscribers] = [(); 2].map(|()| "ipc://*".parse().unwrap());
        let hub = Some(HubEndpoints { publishers, subscribers });
        Self::new(&BusConfig { hub, payload_bytes, ..BusConfig::default() })
    }

    fn bound_with(endpoint: &str, max_peers: usize) -> Self {
        Self::new(&BusConfig { bind: vec![endpoint.parse().unwrap()], max_peers, ..BusConfig::default() })
    }

    /// Connects to the first endpoint, over TCP from this host.
    fn connect(&self, from: Ipv4Addr) -> Socket {
        let endpoint = &self.server.reports.sides[0].endpoint;
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
        self.peer(ready(SocketRole::Subscribes))
    }

    /// Connects a peer that sends this `READY`.
    fn peer(&mut self, ready: &[u8]) -> Socket {
        let mut peer = self.greet();
        peer.write_all(ready).unwrap();
        self.take_in(Duration::ZERO);
        peer.set_nonblocking(true).unwrap();
        peer
    }

    /// Adds a subscriber of the hub, which is never written to.
    fn subscribe(&mut self, prefix: &[u8]) {
        let place = self.exchange.join(true).unwrap();
        assert!(self.exchange.subscriptions.subscribe(place, prefix));
    }

    /// Does what the bus thread does after each wait. Returns whether there is more to do at once.
    fn turn(&mut self) -> bool {
        self.take_in(Duration::ZERO);
        self.server.give_out(&mut self.exchange, Duration::ZERO)
    }

    fn take_in(&mut self, now: Duration) {
        self.poll();
        self.server.take_in(&mut self.exchange, &self.poller, now);
    }

    fn poll(&mut self) {
        self.poller.poll();
        self.poller.changes.drain(..).for_each(|(token, flags)| self.server.on_ready(token, flags));
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

/// Reads all that has come. Returns how many bytes these are.
fn read_all(mut peer: &Socket) -> usize {
    let mut buffer = vec![0; 1 << 20];
    std::iter::from_fn(|| peer.read(&mut buffer).ok().filter(|bytes| *bytes > 0)).sum()
}

/// Answers that wait for the end of a message keep their peer from being read. What it had sent behind them was announced
/// before, so nothing else announces it once they are written.
#[test]
fn what_came_behind_answers_that_waited_for_a_message_is_read_without_another_event() {
    let mut rig = Rig::bound_with("ipc://*", 16);
    let mut subscriber = rig.peer(ready(SocketRole::Publishes));
    subscriber.write_all(b"\0\x01\x01").unwrap();
    rig.turn();
    rig.exchange.take(WireMessage::copy_of(b"t", &vec![0; 300_000]).unwrap(), Origin::Posted, Duration::ZERO);
    rig.turn();
    subscriber.write_all(&[&PING.repeat(400), &b"\0\x02\x01s"[..]].concat()).unwrap();
    let mut is_more = rig.turn();
    assert_eq!((rig.exchange.messages(), rig.exchange.subscriptions.prefixes(), is_more), (1, 1, false));
    while rig.exchange.messages() > 0 {
        assert!(read_all(&subscriber) > 0, "nothing is written any more");
        is_more = rig.turn();
    }
    while is_more {
        rig.server.take_in(&mut rig.exchange, &rig.poller, Duration::ZERO);
        is_more = rig.server.give_out(&mut rig.exchange, Duration::ZERO);
    }
    assert_eq!(rig.exchange.subscriptions.prefixes(), 2);
}

#[test]
fn answers_that_waited_for_room_are_written_as_soon_as_there_is_some_though_nothing_is_sent() {
    let mut rig = Rig::of_hub();
    let mut publisher = rig.publisher();
    let (mut pings, mut read_bytes) = (0, read_all(&publisher));
    assert_eq!(read_bytes, GREETING.len() + ready(SocketRole::Publishes).len() + b"\x04\x0a\x09SUBSCRIBE".len());
    read_bytes = 0;
    while rig.server.peers.all.values().all(|peer| peer.commands.is_empty()) {
        publisher.write_all(PING).unwrap();
        pings += 1;
        while rig.turn() {}
    }
    while read_bytes < pings * PONG_BYTES {
        let bytes = read_all(&publisher);
        assert!(bytes > 0, "{pings} answers, and {read_bytes} bytes of them");
        read_bytes += bytes;
        rig.turn();
    }
}

/// No `PONG` can be written any more, and what came behind the `PING` is not read in the same turn.
#[test]
fn what_a_publisher_had_sent_behind_a_ping_when_it_left_is_taken() {
    for is_known_to_leave in [false, true] {
        let mut rig = Rig::of_hub();
        let mut publisher = rig.publisher();
        publisher.write_all(&[PING.repeat(300), b"\x01\x01t\0\0".repeat(1_000)].concat()).unwrap();
        if is_known_to_leave {
            publisher.shutdown(Shutdown::Both).unwrap();
        }
        rig.poll();
        drop(publisher);
        rig.server.take_in(&mut rig.exchange, &rig.poller, Duration::ZERO);
        while rig.turn() {}
        assert_eq!((rig.exchange.take_freed().forwarded, rig.server.is_empty()), (1_000, true));
    }
}

/// A publisher of the model, and what is left of what it sends.
struct Sender {
    socket: Socket,
    rest: Vec<u8>,
    /// The message that it sends is within the bounds.
    counts: bool,
}

impl Sender {
    const LONGEST_BYTES: usize = 8 << 20;

    fn begin(&mut self, payload_bytes: usize) {
        let length = (payload_bytes as u64).to_be_bytes();
        self.rest = [&b"\x01\x01t\x02"[..], &length, &vec![b' '; payload_bytes]].concat();
        self.counts = payload_bytes <= Self::LONGEST_BYTES;
    }

    /// Sends so many bytes, if there is room for them. Returns how many messages end with them.
    fn send(&mut self, most_bytes: usize) -> usize {
        let part = self.rest.get(..most_bytes).unwrap_or(&self.rest);
        let Ok(written) = self.socket.write(part) else { return 0 };
        self.rest.drain(..written);
        usize::from(self.rest.is_empty() && std::mem::take(&mut self.counts))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Publishers come, ping, send long and short messages, and leave at any moment. What each has sent whole is taken,
    /// and nothing that they leave behind holds up who comes later. Each step says who does something, and what.
    #[test]
    fn publishers_that_leave_at_any_moment_lose_nothing_and_hold_up_nobody(
        steps in prop::collection::vec((0_usize..24, 0_usize..100), 100..600),
    ) {
        let mut rig = Rig::of_hub_up_to(Sender::LONGEST_BYTES as u64);
        let mut senders: Vec<Option<Sender>> = (0..24).map(|_| None).collect();
        let (mut sent, mut taken, mut reserved_bytes) = (0, 0, 0);
        for (who, what) in steps {
            match (&mut senders[who], what) {
                (None, _) => senders[who] = Some(Sender { socket: rig.publisher(), rest: Vec::new(), counts: false }),
                (Some(sender), 0..8) => {
                    reserved_bytes += if sender.counts { sender.rest.len() } else { 0 };
                    senders[who] = None;
                }
                (Some(sender), _) if !sender.rest.is_empty() => sent += sender.send(what << 12),
                (Some(sender), 8..20) => sender.rest = PING.repeat(what),
                (Some(sender), _) => {
                    let sizes = [0, 1_000, 65_536, 1 << 20, Sender::LONGEST_BYTES, Sender::LONGEST_BYTES + 1];
                    sender.begin(sizes[what % sizes.len()]);
                }
            }
            // Now and then, several do something in one turn.
            if what % 4 > 0 {
                rig.turn();
            }
            taken += rig.exchange.take_freed().forwarded as usize;
        }
        drop(senders);
        let mut newcomer = Sender { socket: rig.publisher(), rest: Vec::new(), counts: false };
        newcomer.begin(Sender::LONGEST_BYTES);
        for turn in 0.. {
            prop_assert!(turn < 10_000, "{taken} of {sent}, and {reserved_bytes} of {RESERVABLE_BYTES} bytes were left");
            sent += newcomer.send(usize::MAX);
            rig.turn();
            taken += rig.exchange.take_freed().forwarded as usize;
            if newcomer.rest.is_empty() && taken == sent {
                break;
            }
        }
    }
}

/// No time passes, so nobody is late.
#[test]
fn who_leaves_within_a_long_message_gives_its_reservation_to_who_waits() {
    let mut rig = Rig::of_hub();
    // 33 of them are less than 32 MiB.
    let begun = [&b"\x01\x01t\x02"[..], &1_000_000_u64.to_be_bytes()].concat();
    let mut publishers: Vec<_> = (0..34).map(|_| rig.publisher()).collect();
    publishers.iter_mut().for_each(|peer| peer.write_all(&begun).unwrap());
    rig.take_in(Duration::ZERO);
    assert!(rig.server.reservations.has_waiting());
    publishers.remove(0);
    rig.take_in(Duration::ZERO);
    assert!(!rig.server.reservations.has_waiting());
}
