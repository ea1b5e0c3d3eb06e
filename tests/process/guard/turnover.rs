//! As many peers as there are places come, leave and come back, or change their subscriptions without a pause. Another
//! subscriber waits hardly longer than while they do so at another gateway, and what they cost is given back.

use super::*;

/// Peers that come and go together, nearly as many as the bus has places for subscribers.
const PEERS: usize = 250;
/// What each of them subscribes to: 19,000 prefixes together, nearly as many as may be.
const PREFIXES: usize = 76;
/// How long the other subscriber is watched beside peers that come and go, there and here: so many spans of this time.
const SPANS: usize = 9;
const SPAN: Duration = Duration::from_millis(500);
/// How much longer another subscriber may wait because of what peers do.
const MOST_LONGER: Duration = Duration::from_millis(100);
/// How often a thread of the test or of the gateway may have to wait for a processor between a post and its receipt.
const WAITS: u32 = 8;

fn subscriptions(prefix_bytes: usize) -> Vec<Vec<u8>> {
    let mut random = Random(prefix_bytes as u64);
    (0..PEERS).map(|_| random_subscriptions(&mut random, PREFIXES, prefix_bytes)).collect()
}

/// Starts two threads that let half of the peers leave and come back, each while the others of its thread stay.
fn turnover(endpoint: &str, peers: &[Vec<u8>]) -> Vec<Task<usize>> {
    let come_and_go = |half: &[Vec<u8>]| {
        let hello = |bytes: &Vec<u8>| [&handshake("SUB").concat(), &bytes[..]].concat();
        let (endpoint, hellos) = (endpoint.to_owned(), half.iter().map(hello).collect::<Vec<_>>());
        Task::start(move |over| {
            let mut connections: Vec<Option<RawPeer>> = hellos.iter().map(|_| None).collect();
            let mut visits = 0;
            while !is_over(over) {
                for (connection, hello) in connections.iter_mut().zip(&hellos).take_while(|_| !is_over(over)) {
                    *connection = None;
                    // The port is closed when the gateway stops.
                    let Ok(mut peer) = RawPeer::try_connect(&endpoint) else { continue };
                    peer.give_up_after(Duration::from_secs(1));
                    peer.send(hello);
                    visits += 1;
                    *connection = Some(peer);
                }
            }
            visits
        })
    };
    peers.chunks(peers.len().div_ceil(2)).map(come_and_go).collect()
}

/// Returns the longest time from a post to its receipt, in the median of the spans, and the most memory gained, in KiB.
/// Who is held up by peers is so in most spans; other programs take the processors in some.
fn longest_wait(rig: &Rig) -> (Duration, u64) {
    let mut poster = Poster::to(&rig.gateway, OWN_TOPIC, 0);
    let (mut longest, mut most_kib) = ([Duration::ZERO; SPANS], 0);
    for longest in &mut longest {
        let started = Instant::now();
        while started.elapsed() < SPAN {
            let posted = Instant::now();
            assert!(poster.post(), "a message is refused");
            let message = rig.subscriber.next();
            *longest = posted.elapsed().max(*longest);
            most_kib = most_kib.max(rig.growth_kib());
            assert_eq!(Some(&number(message.payload.as_bytes())), poster.accepted.last(), "a message is lost");
        }
    }
    longest.sort_unstable();
    println!("{} messages, {longest:?} at most, {most_kib} KiB more at most", poster.accepted.len());
    (longest[SPANS / 2], most_kib)
}

/// Fails if the other subscriber waits much longer than it did `before`, on a machine that was so late meanwhile.
fn assert_hardly_longer(waited: Duration, before: Duration, lateness: &Lateness) {
    let allowance = WAITS * lateness.longest();
    println!("{before:?} before, then {waited:?}, {allowance:?} for a busy machine");
    assert!(waited < before + MOST_LONGER + allowance, "{waited:?}, {before:?} before");
}

#[test]
fn peers_that_come_and_go_hold_nobody_up() {
    for prefix_bytes in [20, 1_000] {
        side_by_side(SIDES, |side| {
            raise_descriptors();
            let mut rig = Rig::open(side, Transport::Tcp);
            let peers = subscriptions(prefix_bytes);
            let endpoint = rig.subscribers.clone();
            let resting: Vec<_> =
                peers.iter().map(|bytes| with_subscriptions(RawPeer::connect(&endpoint), bytes)).collect();
            let other = Rig::open(side, Transport::Tcp);
            let elsewhere = turnover(&other.subscribers, &peers);
            let (before, _) = longest_wait(&rig);
            elsewhere.into_iter().for_each(|peers| _ = peers.finish());
            let subscriptions = rig.gateway.stats()["subscriptions"].as_u64().unwrap();
            drop(resting);
            rig.gateway.wait_count("subscriptions", 1);

            let lateness = Lateness::watch();
            let turnover = turnover(&endpoint, &peers);
            let (in_turnover, most_kib) = longest_wait(&rig);
            let visits: usize = turnover.into_iter().map(Task::finish).sum();
            assert!(visits > PEERS, "only {visits} visits");
            assert_hardly_longer(in_turnover, before, &lateness);
            assert!(most_kib < GROWTH_KIB, "{most_kib} KiB more");
            rig.gateway.wait_count("subscriptions", 1);
            wait_until("the memory is given back", || rig.growth_kib() < REMAINING_KIB);
            assert_eq!(subscriptions, (PEERS * PREFIXES + 1) as u64, "subscriptions within the bounds are refused");
            rig.assert_unharmed("peers that come and go");
        });
    }
}

/// Peers may change their subscriptions as often as they like: no rate is prescribed.
#[test]
fn peers_that_change_their_mind_hold_nobody_up() {
    side_by_side(SIDES, |side| {
        const CHANGING: usize = 8;
        let (mut rig, other) = (Rig::open(side, Transport::Tcp), Rig::open(side, Transport::Tcp));
        let change = [subscribe(Form::Message, b"come and go"), cancel(Form::Message, b"come and go")].concat();
        let change = change.repeat(1_000);
        let sent = Arc::new(AtomicUsize::new(0));
        let change_at = |rig: &Rig| {
            let mut peer = RawPeer::speaking(&rig.subscribers, "SUB");
            peer.hold_little();
            let (change, sent) = (change.clone(), Arc::clone(&sent));
            Task::start(move |over| {
                while !is_over(over) {
                    peer.send_all(&change);
                    sent.fetch_add(change.len(), Ordering::Relaxed);
                }
                peer.round_trip();
            })
        };
        let elsewhere = [&other; CHANGING].map(change_at);
        let (before, _) = longest_wait(&rig);
        elsewhere.into_iter().for_each(Task::finish);
        let lateness = Lateness::watch();
        let changing = [&rig; CHANGING].map(change_at);
        let (meanwhile, most_kib) = longest_wait(&rig);
        // Each of them is still connected.
        changing.into_iter().for_each(Task::finish);
        println!("{} bytes of changes", sent.load(Ordering::Relaxed));
        assert_hardly_longer(meanwhile, before, &lateness);
        assert!(most_kib < GROWTH_KIB, "{most_kib} KiB more");
        assert_eq!(rig.gateway.stats()["peers"]["disconnected"], 0);
        rig.assert_unharmed("peers that change their mind");
    });
}

#[test]
fn a_stop_in_a_turnover_counts_what_is_lost() {
    side_by_side(SIDES, |side| {
        raise_descriptors();
        let drain = ["--drain-timeout", "2"];
        let mut rig = Rig::start(Gateway::serve().arguments(drain), side, Transport::Tcp, OWN_TOPIC);
        let before = rig.gateway.stats()["published"].as_u64().unwrap();
        let turnover = turnover(&rig.subscribers, &subscriptions(1_000));
        let mut poster = Poster::to(&rig.gateway, OWN_TOPIC, 2_000);
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(2) {
            poster.post_together(8);
        }
        let (_, written, last) = stop_within(&mut rig.gateway, Duration::from_secs(2) + Duration::from_secs(1));
        drop(turnover);
        let events = written.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let count = |name: &str| last[name].as_u64().unwrap_or(0);
        assert_eq!(count("accepted"), count("published") + count("undelivered"), "{last}");
        let lost: u64 = events.filter_map(|event| event["lost"].as_u64()).sum();
        let due = (count("published") - before).saturating_sub(lost) as usize;
        let mut received = 0;
        // What must arrive is waited for. More may have arrived, since no more than `lost` were lost.
        let left = |received| if received < due { PATIENCE } else { Duration::from_secs(1) };
        while let Some(message) = rig.subscriber.next_within(left(received)) {
            assert_eq!(number(message.payload.as_bytes()), poster.accepted[received], "lost, or in another order");
            received += 1;
        }
        println!("{} accepted, {received} received, {lost} lost, {last}", poster.accepted.len());
        assert!(received >= due, "{received} received, {due} at least, {last}");
    });
}
