//! Peers of a bound endpoint that mean harm. None of them receives a message of the run, and none may hold it up.

use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use crate::support::peer::message;
use crate::support::{Form, Random, RawPeer, frame, subscribe};

/// The topic of what hostile publishers send, which does not count.
pub(crate) const HOSTILE_TOPIC: &[u8] = b"hostile";
/// Publishers that come and leave.
const PUBLISHERS: usize = 10;
/// How long one of them tries to send.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);
/// Peers that come and leave.
const PEERS: usize = 100;
/// Connections that send nothing.
const SILENT: usize = 200;
/// Changes of a subscription by one peer, far beyond the bound.
const CHANGES: usize = 50_000;

/// Peers subscribe to much, each with prefixes of its own, and leave.
pub(crate) fn subscribe_and_leave(endpoint: &str, random: &mut Random) {
    for peer_number in 0..PEERS {
        let mut peer = RawPeer::speaking(endpoint, "SUB");
        let prefix_bytes = random.within(8..1_000);
        let subscriptions = (0..random.within(1..300)).flat_map(|number| {
            let mut prefix = format!("\u{1}{number} of {peer_number}").into_bytes();
            prefix.resize(prefix.len().max(prefix_bytes), b'x');
            subscribe(Form::Message, &prefix)
        });
        peer.send(&subscriptions.collect::<Vec<_>>());
        if random.permille(500) {
            sleep(random.pause_ms(0..20));
        }
    }
}

/// A peer subscribes and cancels until it is disconnected.
pub(crate) fn change_the_mind(endpoint: &str) {
    let mut peer = RawPeer::speaking(endpoint, "SUB");
    let change = [subscribe(Form::Message, b"\x01"), frame(0, b"\x00\x01")].concat();
    peer.send(&change.repeat(CHANGES));
}

/// Returns a subscriber to everything. It reads nothing for as long as it lives.
pub(crate) fn subscribe_and_not_read(endpoint: &str) -> RawPeer {
    let mut peer = RawPeer::speaking(endpoint, "SUB");
    peer.send(&subscribe(Form::Message, b""));
    peer
}

/// Publishers send messages of all sizes, as long as these are taken, and leave. The last message may be incomplete.
pub(crate) fn publish_and_leave(endpoint: &str, random: &mut Random) {
    for _ in 0..PUBLISHERS {
        let mut peer = RawPeer::hasty_publisher(endpoint, SEND_TIMEOUT);
        let sent = message(&[HOSTILE_TOPIC, &vec![b' '; random.within(0..200_000)]]);
        let _taken = (0..random.within(1..20)).take_while(|_| peer.send(&sent)).count();
        peer.send(&sent[..random.within(0..sent.len())]);
    }
}

/// Connections are open for a while, and send nothing.
pub(crate) fn be_silent(endpoint: &str, time: Duration) {
    let address = endpoint.strip_prefix("tcp://").expect("a tcp endpoint");
    let silent: Vec<_> = (0..SILENT).map(|_| TcpStream::connect(address)).collect();
    sleep(time);
    drop(silent);
}
