//! ZMTP 3 as peers may speak it: heartbeats at any place, frames of any length, and both forms of subscriptions.

use super::*;

/// PINGs, whose answers may be more than may wait, and a subscription arrive within a message that is being written.
#[test]
fn what_arrives_within_a_message_is_answered_at_its_end_while_nothing_else_happens() {
    const CONTEXT: [u8; 16] = [7; 16];
    let cases = [1, 400].into_iter().flat_map(|pings| SIDES.map(|side| (side, pings)));
    side_by_side(cases, |(side, pings)| {
        let mut rig = Rig::open(side, Transport::Tcp);
        let peer = RawPeer::connect_with_receive_buffer(&rig.subscribers, 4_096);
        let mut peer = subscribed(peer, OWN_TOPIC);
        let mut other = RawPeer::speaking(&rig.subscribers, "SUB");
        let mut poster = Poster::to(&rig.gateway, OWN_TOPIC, 1_000_000);
        assert!(poster.post());
        assert!(peer.is_readable_within(PATIENCE));
        peer.send_all(&[ping(&CONTEXT).repeat(pings), subscribe(Form::Message, b"later")].concat());
        // What arrived before has been read, as far as it is read within a message.
        other.round_trip();
        other.round_trip();
        assert_eq!(number(&peer.receive_message()[1]), 0);
        (0..pings).for_each(|_| assert_eq!(peer.receive_pong(), CONTEXT));
        rig.gateway.wait_count("subscriptions", 2);
        rig.gateway.post(Message::new("later", "{}").body()).assert_accepted();
        assert_eq!(peer.receive_message()[0], b"later");
        assert_received(&rig, &poster.accepted);
        rig.assert_unharmed("commands within a message");
    });
}

/// Sockets of libzmq add what their program has set as `ZMQ_METADATA`.
#[test]
fn a_ready_of_8_kib_is_taken_and_a_longer_one_is_refused() {
    let ready = |bytes: usize| {
        let [greeting, ready] = handshake("PUB");
        let property = [&ready[2..], b"\x06X-Meta"].concat();
        let padding = vec![b'm'; bytes - property.len() - 4];
        let body = [&property, &(padding.len() as u32).to_be_bytes()[..], &padding].concat();
        [greeting, frame(COMMAND, &body)].concat()
    };
    side_by_side([Transport::Tcp, Transport::Ipc], |transport| {
        let rig = Rig::open(Side::Hub, transport);
        let mut peer = RawPeer::connect(rig.publishers());
        peer.send_all(&ready(8_192));
        peer.receive_greeting();
        assert_eq!([(); 2].map(|()| peer.receive_body())[1], b"\x09SUBSCRIBE");
        let mut peer = RawPeer::connect(rig.publishers());
        peer.send(&ready(8_193));
        peer.read_to_end();
        let refuses = format!("the bus refuses {} at {}", peer.name(), rig.publishers());
        rig.gateway.wait_log(&format!("{refuses}, which sends a READY of more than 8192 bytes\n"));
        rig.assert_unharmed("metadata");
    });
}

/// libzmq ends a connection on which a message comes before it has sent its own READY.
#[test]
fn a_publisher_is_subscribed_to_in_its_version_and_behind_its_ready() {
    let rig = Rig::open(Side::Hub, Transport::Tcp);
    for (minor_version, subscription) in [(0, &b"\0\x01\x01"[..]), (1, b"\x04\x0a\x09SUBSCRIBE")] {
        let mut peer = RawPeer::connect(rig.publishers());
        let [mut greeting, ready] = handshake("PUB");
        greeting[11] = minor_version;
        peer.send_all(&greeting);
        peer.receive_greeting();
        assert!(peer.receive_body().starts_with(b"\x05READY"));
        assert!(!peer.is_readable_within(PROBE_TIMEOUT), "something comes before its READY");
        peer.send_all(&ready);
        assert_eq!(peer.read_some(64), subscription);
    }
}

/// The peer goes on when it reads.
#[test]
fn pings_whose_answers_are_not_read_cost_a_bounded_amount() {
    const PINGS: u32 = 1_000;
    let context = [7; 16];
    let mut rig = Rig::open(Side::Hub, Transport::Tcp);
    for (endpoint, socket_type) in rig.endpoints().iter().zip(["PUB", "SUB"]) {
        let mut peer = RawPeer::speaking(endpoint, socket_type);
        (0..PINGS).for_each(|_| peer.send_all(&ping(&context)));
        (0..PINGS).for_each(|_| assert_eq!(peer.receive_pong(), context));
        // Much more than that, until the gateway takes no more of it, or drops it.
        let pings = ping(&context).repeat(10_000);
        peer.give_up_after(Duration::from_millis(500));
        let (mut sent, mut part_at) = (0, 0);
        while sent < 64 << 20 {
            let taken = peer.send_some(&pings[part_at..]);
            if taken == 0 {
                break;
            }
            part_at = (part_at + taken) % pings.len();
            sent += taken;
        }
        rig.assert_small(&format!("{sent} bytes of PINGs at {endpoint}"));
        rig.assert_served();
        // What is left of a PING, and another one, are taken as soon as answers are read.
        let rest = part_at.next_multiple_of(ping(&context).len());
        let last = [&pings[part_at..rest], &ping(b"last")].concat();
        let mut last_at = 0;
        while last_at < last.len() {
            last_at += peer.send_some(&last[last_at..]);
            if last_at < last.len() {
                peer.read_some(65_536);
            }
        }
        peer.read_until(b"\x04\x09\x04PONGlast");
    }
    rig.assert_unharmed("PINGs whose answers are not read");
}

/// The same prefix twice of one peer counts once, in whichever form it comes, and one cancel removes it. What is no
/// subscription, or too long for one, is dropped, and the peer stays a subscriber.
#[test]
fn both_forms_of_subscriptions_count() {
    side_by_side([Form::Message, Form::Command], |form| {
        let other_form = if matches!(form, Form::Message) { Form::Command } else { Form::Message };
        let mut rig = Rig::open(Side::Bind, Transport::Tcp);
        let mut peer = RawPeer::speaking(&rig.subscribers, "SUB");
        let post = |topic: &str| rig.gateway.post(Message::new(topic, "{}").body()).assert_accepted();
        for _ in 0..100 {
            peer.send_all(&message(&[b"topic", b"{}"]));
            peer.send_all(&frame(0, b"\x02no subscription"));
        }
        peer.send_all(&subscribe(form, &[b'x'; 1_025]));
        peer.send_all(&subscribe(other_form, &[b'x'; 1_025]));
        peer.send_all(&subscribe(Form::Message, &[b'x'; 3_000_000]));
        peer.send_all(&subscribe(form, b"once"));
        peer.send_all(&subscribe(form, b"twice"));
        peer.send_all(&subscribe(other_form, b"twice"));
        peer.send_all(&subscribe(form, b"marker"));
        peer.round_trip();
        post("once/1");
        post("twice/1");
        for topic in ["once/1", "twice/1"] {
            assert_eq!(peer.receive_message()[0], topic.as_bytes());
        }
        peer.send_all(&cancel(other_form, b"twice"));
        peer.send_all(&cancel(form, b"never subscribed to"));
        peer.round_trip();
        // A marker follows what must not come.
        for topic in ["twice/2", "once/2", "marker"] {
            post(topic);
        }
        for topic in ["once/2", "marker"] {
            assert_eq!(peer.receive_message()[0], topic.as_bytes(), "{form:?}");
        }
        let peers = rig.gateway.wait_count("subscriptions", 3)["peers"].take();
        assert_eq!((&peers["disconnected"], &peers["messages_dropped"]), (&0.into(), &200.into()), "{peers}");
        rig.gateway.wait_log(&format!("a message of {} at {}, which may only subscribe", peer.name(), rig.subscribers));
        rig.assert_unharmed("subscriptions in both forms");
    });
}
