//! Long messages wait for room in their order: who sends is never disconnected, who does not holds nobody up.

use super::*;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn long_message(number: usize, payload_bytes: usize) -> Vec<u8> {
    own_message(number as u32, &"x".repeat(payload_bytes))
}

fn publishers<const N: usize>(rig: &Rig) -> [RawPeer; N] {
    [(); N].map(|()| rig.publisher())
}

/// Sends a message of each publisher at the same time, at so many bytes a second, and checks that all arrive.
fn assert_arrive_at_pace<const N: usize>(rig: &Rig, payload_bytes: usize, bytes_per_s: usize) {
    let mut publishers = publishers::<N>(rig);
    publishers.iter_mut().for_each(|peer| peer.give_up_after(SEND_TIMEOUT));
    let messages: Vec<_> = (0..N).map(|number| long_message(number, payload_bytes)).collect();
    let (mut sent, since) = ([0; N], Instant::now());
    while sent.iter().zip(&messages).any(|(sent, message)| *sent < message.len()) {
        let due = (since.elapsed().as_secs_f64() * bytes_per_s as f64) as usize;
        for ((peer, sent), message) in publishers.iter_mut().zip(&mut sent).zip(&messages) {
            *sent += peer.send_some(&message[*sent..due.clamp(*sent, message.len())]);
        }
        thread::sleep(Duration::from_millis(20));
    }
    let mut arrived = [(); N].map(|()| number(rig.subscriber.next().payload.as_bytes()));
    arrived.sort_unstable();
    assert!(arrived.iter().copied().eq(0..N as u32), "{arrived:?}");
}

#[test]
fn long_messages_behind_slow_links_arrive() {
    let builder = Gateway::serve().arguments(["--max-body", "67108864", "--drain-timeout", "1"]);
    let rig = Rig::start(builder, Side::Hub, Transport::Tcp, OWN_TOPIC);
    assert_arrive_at_pace::<1>(&rig, 24 * MIB, 10_000_000);
    // Together they are longer than what may be reserved.
    let mut rig = Rig::open(Side::Hub, Transport::Tcp);
    assert_arrive_at_pace::<20>(&rig, MIB - KIB, 1_000_000);
    assert_arrive_at_pace::<20>(&rig, MIB - KIB, 250_000);
    assert_eq!(rig.peers("disconnected"), 0);
}

#[test]
fn who_does_not_send_the_rest_of_a_message_goes_and_who_sends_stays() {
    let mut rig = Rig::of_patient_hub(["--drain-timeout", "1"]);
    let begun = [frame(MORE, b"unfinished"), frame_head(0, MIB), vec![b' '; 950 * KIB]].concat();
    let mut strangers = publishers::<40>(&rig);
    strangers.iter_mut().for_each(|peer| assert!(peer.send(&begun)));
    let mut honest = rig.publisher();
    (0..30).for_each(|number| honest.send_all(&long_message(number, MIB - KIB)));
    assert_received(&rig, &(0..30).collect::<Vec<_>>());
    rig.assert_gained_less_than(MOST_HELD_KIB, "messages that are not completed");
    assert!(!honest.is_ended());
    // 31 of them have room beside the message that comes.
    assert!(rig.peers("disconnected") >= 9);
    rig.assert_unharmed("messages that are not completed");
}

#[test]
fn a_short_message_waits_for_no_long_one() {
    let rig = Rig::open(Side::Hub, Transport::Tcp);
    let long = long_message(1, 256 * KIB);
    let (last, begun) = long.split_last().unwrap();
    let mut strangers = publishers::<120>(&rig);
    strangers.iter_mut().for_each(|peer| assert!(peer.send(begun)));
    let mut other = rig.publisher();
    other.send_all(&own_message(0, ""));
    let is_short = |payload: &str| number(payload.as_bytes()) == 0;
    let arrives = strangers.iter_mut().take(30).any(|stranger| {
        stranger.give_up_after(SEND_TIMEOUT);
        stranger.send(&[*last]);
        std::iter::from_fn(|| rig.subscriber.next_within(PROBE_TIMEOUT)).any(|message| is_short(&message.payload))
    });
    assert!(arrives, "it waits until others have completed their messages");
}

/// The rest of it comes behind the time in which publishers that go on are read.
#[test]
fn a_message_that_has_begun_to_arrive_at_the_stop_arrives() {
    let mut rig = Rig::of_patient_hub(["--drain-timeout", "60"]);
    let mut reader = rig.subscribed(OWN_TOPIC);
    let [mut publisher, mut other] = publishers::<2>(&rig);
    let whole = long_message(7, 900_000);
    let (begun, rest) = whole.split_at(300_000);
    publisher.send_all(begun);
    rig.gateway.signal(Signal::TERM);
    // The time is over when the hub takes no more of another one.
    other.give_up_after(SEND_TIMEOUT);
    let busy = message(&[b"busy", &[b' '; 10_000]]).repeat(10);
    while other.send(&busy) {}
    publisher.send_all(rest);
    assert_eq!(number(&reader.receive_message()[1]), 7);
    drop((publisher, other, reader));
    assert_eq!(rig.gateway.wait_exit(), 0);
}

/// A read ends where a descriptor is attached, so that a short one does not say that nothing is left.
#[test]
fn over_ipc_all_messages_arrive_also_with_descriptors_attached() {
    let rig = Rig::open(Side::Hub, Transport::Ipc);
    let [mut publisher] = publishers::<1>(&rig);
    for number in 0..50 {
        publisher.send_with_descriptor(&own_message(number, ""));
    }
    assert_received(&rig, &(0..50).collect::<Vec<_>>());
}
