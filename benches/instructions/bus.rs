//! What the bus does for messages beside system calls and libzmq's code, which are not counted: workers publish, and the
//! thread of the bus takes, looks up who wants a topic, collects batches for each subscriber, and reads what peers send.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use adapter_gateway::bus::Waker;
use adapter_gateway::bus::inbox::Inbox;
use adapter_gateway::bus::{Bus, BusConfig, Publisher};
use adapter_gateway::message::publish::Publish;
use adapter_gateway::terms::limits::{Limits, MAX_TOPIC_BYTES};
use adapter_gateway::zmtp::{
    self, Exchange, GREETING, MAX_SUBSCRIBERS, Origin, PeerEvent, PeerSession, PlaceSet, SocketRole, Subscriptions,
    WireMessage,
};
use gungraun::{library_benchmark, library_benchmark_group};

use super::message::BODY;

library_benchmark_group!(name = hand_offs, benchmarks = [publish, take]);
library_benchmark_group!(name = peers, benchmarks = [shake_hands, receive]);
library_benchmark_group!(name = matches, benchmarks = [match_topic]);
library_benchmark_group!(name = exchanges, benchmarks = [exchange]);

const TOPIC: &str = "adapter/nodes/data";
const MESSAGES: usize = 31;
/// The number of messages that the bus thread takes at once.
const MOST_MESSAGES: usize = 500;
const LONG_TOPIC: &[u8] = b"adapter/nodes/data/living-room";
/// How much is read from a peer at once.
const READ_BYTES: usize = 64 * 1024;
/// More than any payload of the inputs.
const PAYLOAD_BYTES: u64 = 1024 * 1024;

#[library_benchmark(setup = running)]
#[bench::messages_31()]
fn publish((bus, publisher): (Bus, Publisher)) -> (Bus, Publisher) {
    fill(&publisher);
    (bus, publisher)
}

fn running() -> (Bus, Publisher) {
    let config = BusConfig { bind: vec!["tcp://127.0.0.1:*".parse().unwrap()], ..BusConfig::default() };
    let bus = Bus::start(config, |_| {}).unwrap();
    let publisher = bus.publisher();
    fill(&publisher);
    (bus, publisher)
}

fn fill(publisher: &Publisher) {
    for _ in 0..MESSAGES {
        publisher.publish(black_box(TOPIC), black_box(BODY).into()).unwrap();
    }
}

type Filled = Box<(Inbox, VecDeque<WireMessage>)>;

#[library_benchmark(setup = filled)]
#[bench::messages_31()]
fn take(mut filled: Filled) -> Filled {
    assert_eq!(drain(&mut filled), MESSAGES);
    filled
}

fn drain((inbox, batch): &mut (Inbox, VecDeque<WireMessage>)) -> usize {
    inbox.take(batch, false);
    // In the program, the exchange weighs each message, which its bench counts. All of these weigh the same.
    let weight_bytes = batch.front().map_or(0, WireMessage::weight_bytes);
    let messages = batch.drain(..).map(|message| drop(black_box(message))).count();
    inbox.give_back(messages as u64, messages * weight_bytes, false);
    messages
}

fn filled() -> Filled {
    let (endpoint, waker) = ("tcp://127.0.0.1:1".parse().unwrap(), Arc::new(Waker::new().unwrap()));
    let inbox = Inbox::new(&Limits::DEFAULT, waker, vec![endpoint], Vec::new());
    let mut filled = Box::new((inbox, VecDeque::new()));
    // Both buffers have room then.
    for _ in 0..3 {
        drain(&mut filled);
        for _ in 0..MESSAGES {
            filled.0.publish(TOPIC, BODY.into()).unwrap();
        }
    }
    filled
}

#[library_benchmark(setup = subscribed)]
#[bench::prefixes_1000(thousand_prefixes(), LONG_TOPIC.to_vec(), 1)]
#[bench::prefixes_of_each_length(prefixes_of_each_length(), vec![b'a'; MAX_TOPIC_BYTES], MAX_SUBSCRIBERS)]
fn match_topic((subscriptions, topic): (Subscriptions, Vec<u8>)) -> (PlaceSet, Subscriptions, Vec<u8>) {
    (subscriptions.matching(black_box(&topic)), subscriptions, topic)
}

/// Lets a subscriber at each place in turn subscribe, and looks the topic up once.
fn subscribed(prefixes: Vec<Vec<u8>>, topic: Vec<u8>, wanted_by: usize) -> (Subscriptions, Vec<u8>) {
    let mut subscriptions = Subscriptions::default();
    for (prefix, place) in prefixes.into_iter().zip((0..=u8::MAX).cycle()) {
        assert!(subscriptions.subscribe(place, &prefix));
    }
    assert_eq!(subscriptions.matching(&topic).len(), wanted_by);
    (subscriptions, topic)
}

/// One of them is the topic.
fn thousand_prefixes() -> Vec<Vec<u8>> {
    let others = (1..1_000).map(|number| format!("adapter/nodes/data/{number}").into_bytes());
    others.chain([LONG_TOPIC.to_vec()]).collect()
}

fn prefixes_of_each_length() -> Vec<Vec<u8>> {
    (1..=MAX_TOPIC_BYTES).map(|length| vec![b'a'; length]).collect()
}

#[library_benchmark(setup = filled_exchange)]
#[bench::one_subscriber(1)]
#[bench::ten_subscribers(10)]
fn exchange((mut exchange, messages, mut buffer): (Exchange, Vec<WireMessage>, Vec<u8>)) -> (Exchange, Vec<u8>) {
    pass_on(&mut exchange, messages, &mut buffer);
    (exchange, buffer)
}

fn pass_on(exchange: &mut Exchange, messages: Vec<WireMessage>, buffer: &mut Vec<u8>) {
    for message in messages {
        exchange.take(black_box(message), Origin::Posted, Duration::ZERO);
    }
    while !exchange.waiting().is_empty() {
        for place in exchange.waiting().iter() {
            let referenced_bytes = exchange.batch(place, false, buffer).len();
            let written_bytes = black_box(&*buffer).len() + referenced_bytes;
            exchange.written(place, written_bytes, || 0);
        }
    }
    assert_eq!(exchange.take_freed().posted, MOST_MESSAGES as u64);
}

/// Returns an exchange with so many subscribers to everything, which have had as many messages before.
fn filled_exchange(subscribers: u8) -> (Exchange, Vec<WireMessage>, Vec<u8>) {
    let mut exchange = Exchange::new(MAX_SUBSCRIBERS, 0);
    for _ in 0..subscribers {
        let place = exchange.join(false).unwrap();
        assert!(exchange.subscriptions.subscribe(place, b""));
    }
    let messages =
        || (0..MOST_MESSAGES).map(|_| WireMessage::copy_of(TOPIC.as_bytes(), BODY.as_bytes()).unwrap()).collect();
    let mut buffer = Vec::new();
    pass_on(&mut exchange, messages(), &mut buffer);
    (exchange, messages(), buffer)
}

/// What an XPUB socket sends is what we send to subscribers.
fn handshake_of_a_publisher() -> Vec<u8> {
    [&GREETING[..], zmtp::ready(SocketRole::Subscribes)].concat()
}

#[library_benchmark(setup = new_session)]
#[bench::publisher()]
fn shake_hands((mut session, handshake): (PeerSession, Vec<u8>)) -> (PeerSession, Vec<u8>) {
    assert_eq!(messages(&mut session, &handshake), 0);
    (session, handshake)
}

fn new_session() -> (PeerSession, Vec<u8>) {
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
    let message = WireMessage::copy_of(TOPIC.as_bytes(), &payload).unwrap().wire().concat();
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
