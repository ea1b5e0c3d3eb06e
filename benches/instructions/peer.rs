//! What one peer of the bus has sent, read to messages: a handshake, and the reads of a publisher that sends all the
//! time. The system calls that read are not counted.

use std::hint::black_box;

use adapter_gateway::zmtp::{self, GREETING, PeerEvent, PeerSession, SocketRole, WireMessage};
use gungraun::{library_benchmark, library_benchmark_group};

use super::inputs::BODY;

library_benchmark_group!(name = peers, benchmarks = [shake_hands, receive]);

/// How much is read from a peer at once.
const READ_BYTES: usize = 64 * 1024;
/// More than any payload of the inputs.
const PAYLOAD_BYTES: u64 = 1024 * 1024;

/// What an XPUB socket sends is what we send to subscribers.
fn handshake_of_a_publisher() -> Vec<u8> {
    [&GREETING[..], zmtp::ready(SocketRole::Subscribes)].concat()
}

#[library_benchmark(setup = new)]
#[bench::publisher()]
fn shake_hands((mut session, handshake): (PeerSession, Vec<u8>)) -> (PeerSession, Vec<u8>) {
    assert_eq!(messages(&mut session, &handshake), 0);
    (session, handshake)
}

fn new() -> (PeerSession, Vec<u8>) {
    ready();
    (PeerSession::new(SocketRole::Publishes, PAYLOAD_BYTES), handshake_of_a_publisher())
}

#[library_benchmark(setup = reads)]
#[bench::small(BODY.len(), READ_BYTES)]
#[bench::a_mebibyte(1_000_000, READ_BYTES)]
#[bench::torn(BODY.len(), BODY.len())]
fn receive((mut session, reads): (PeerSession, Vec<Vec<u8>>)) -> (PeerSession, Vec<Vec<u8>>) {
    assert!(receive_all(&mut session, &reads) > 0);
    (session, reads)
}

/// Returns a session behind its handshake, and messages of such payloads, in reads of so many bytes.
fn reads(payload_bytes: usize, read_bytes: usize) -> (PeerSession, Vec<Vec<u8>>) {
    let payload = vec![b'p'; payload_bytes];
    let message = WireMessage::copy_of(b"adapter/nodes/data", &payload).unwrap().wire().concat();
    let stream = message.repeat((READ_BYTES / message.len()).max(1));
    let reads: Vec<_> = stream.chunks(read_bytes).map(<[u8]>::to_vec).collect();
    let mut session = ready();
    assert_eq!(receive_all(&mut session, &reads), stream.len() / message.len());
    // Memory that was free here would be split for what is counted, in as many steps as the heap happens to need.
    std::mem::forget((payload, message, stream));
    (session, reads)
}

fn ready() -> PeerSession {
    let mut session = PeerSession::new(SocketRole::Publishes, PAYLOAD_BYTES);
    assert_eq!(messages(&mut session, &handshake_of_a_publisher()), 0);
    assert!(session.is_ready());
    session
}

fn receive_all(session: &mut PeerSession, reads: &[Vec<u8>]) -> usize {
    reads.iter().map(|read| messages(session, read)).sum()
}

fn messages(session: &mut PeerSession, bytes: &[u8]) -> usize {
    let mut messages = 0;
    let on = &mut |event: PeerEvent<'_>| messages += usize::from(matches!(black_box(event), PeerEvent::Message(_)));
    session.receive(black_box(bytes), on).unwrap();
    messages
}
