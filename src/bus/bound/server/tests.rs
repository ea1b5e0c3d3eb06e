use std::io::Write;
use std::os::unix::net::UnixStream;

use super::*;
use crate::bus::poller::Waker;
use crate::zmtp::ready;

/// To forget subscribers is a walk over all messages that wait. There would be a walk for each subscriber if newcomers
/// got the places one by one within a turn.
#[test]
fn all_who_leave_in_a_turn_are_forgotten_together_and_newcomers_get_their_places_then() {
    const MAX_PEERS: usize = 5;
    let mut poller = Poller::new(&Waker::new().unwrap()).unwrap();
    let bind = vec!["ipc://*".parse().unwrap()];
    let config = BusConfig { bind, max_peers: MAX_PEERS, ..BusConfig::default() };
    let mut server = Server::open(&config, &poller).unwrap().unwrap();
    let places = server.places.subscribers;
    let mut exchange = Exchange::new(places, 0);
    let (endpoint, _) = server.endpoints().next().unwrap();
    let path = endpoint.as_str().strip_prefix("ipc://").unwrap();
    let connect = || {
        let mut peer = UnixStream::connect(path).unwrap();
        peer.write_all(&GREETING).unwrap();
        peer
    };
    let enter = |mut peer: &UnixStream| peer.write_all(ready(SocketRole::Publishes)).unwrap();
    let mut take_in = |server: &mut Server, exchange: &mut Exchange| {
        poller.look();
        poller.changes().for_each(|ready| server.on_ready(&ready));
        server.take_in(exchange, &poller, Duration::ZERO);
    };

    let subscribers: Vec<_> = (0..places).map(|_| connect()).collect();
    subscribers.iter().for_each(enter);
    let newcomers: Vec<_> = (0..places).map(|_| connect()).collect();
    take_in(&mut server, &mut exchange);
    assert_eq!((places, server.subscribers.len(), server.handshakes.len()), (2, 2, 2));

    for (subscriber, newcomer) in subscribers.into_iter().zip(&newcomers) {
        drop(subscriber);
        enter(newcomer);
    }
    take_in(&mut server, &mut exchange);
    assert_eq!((server.left.len(), server.subscribers.len()), (2, 0));
    assert!(server.give_out(&mut exchange, Duration::ZERO), "newcomers can be read at once");
    take_in(&mut server, &mut exchange);
    assert_eq!((server.subscribers.len(), server.handshakes.len()), (2, 0));
}
