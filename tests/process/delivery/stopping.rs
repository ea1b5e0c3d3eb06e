//! The end of the gateway, in each way there is, with a hub that is another process.

use super::*;
use crate::guard::rig::{OWN_TOPIC, Poster, Rig, Side, Transport, assert_received, payload};

const SOME: usize = 2_000;
/// The longest time that a stop may take on an idle machine that is asked to end at once, or within a second.
const SOON: Duration = Duration::from_secs(5);

/// Sends SIGTERM. An idle machine takes so long at most. Returns the time, what was written, and the last event.
pub(crate) fn stop_within(gateway: &mut Gateway, at_most: Duration) -> (Duration, Transcript, Value) {
    let (lateness, asked) = (Lateness::watch(), Instant::now());
    gateway.signal(Signal::TERM);
    let (written, last) = gateway.wait_stopped();
    let took = asked.elapsed();
    lateness.assert_took(took, at_most);
    (took, written, last)
}

#[test]
fn a_stop_under_load_by_sigterm_sigint_or_the_end_of_stdin_loses_nothing() {
    let means: [fn(&mut Gateway); 3] = [
        |gateway| gateway.signal(Signal::TERM),
        |gateway| gateway.signal(Signal::INT),
        |gateway| gateway.close_stdin(),
    ];
    for (ask, workers) in means.into_iter().zip(["1", "2", "2"]) {
        let (endpoints, _hub, subscriber) = start_hub_with_subscriber();
        let builder = Gateway::serve().listen(free_address()).connect(&endpoints[0]).stdin(Stdio::piped());
        let mut gateway = builder.arguments(["--watch-stdin", "--workers", workers]).start_connected();
        let load = Load::on(&gateway, 3, 200);
        assert_nothing_is_lost_by_a_stop(&mut gateway, &subscriber, load, SOME, ask);
    }

    // Neither where subscribers connect to the gateway itself, without a hub.
    let (_directory, endpoint) = temporary_endpoint();
    let mut gateway = Gateway::serve().listen(free_address()).bind(&endpoint).start();
    let subscriber = Subscriber::connected(&endpoint, "");
    gateway.wait_subscribed("the bound endpoints");
    let load = Load::on(&gateway, 3, 200);
    assert_nothing_is_lost_by_a_stop(&mut gateway, &subscriber, load, SOME, |gateway| gateway.signal(Signal::TERM));
}

/// Starts a gateway, stops its hub, and posts until the queue of the gateway is full.
fn full_deployment(arguments: &[&str]) -> (Deployment, Vec<Posted>) {
    let arguments = ["--queue", "100", "--drain-timeout"].iter().chain(arguments).copied();
    let deployment = Deployment::with(arguments);
    deployment.hub().signal(Signal::STOP);
    let load = Load::on(&deployment.gateway, 2, 16_000);
    load.wait_for(100, "503", Instant::now(), refused_as("subscriber-stalled"));
    (deployment, load.finish())
}

/// The gateway ends soon, and reports what it could not deliver, with this cause. Returns how long it took.
fn assert_undelivered_reported(deployment: &mut Deployment, answers: &[Posted], cause: &str) -> Duration {
    let (took, written, last) = stop_within(&mut deployment.gateway, SOON);
    let undelivered = count(&last, "undelivered");
    assert_eq!(undelivered, 100, "the queue: {last}");
    assert_eq!(count(&last, "accepted"), count(&last, "published") + undelivered, "{last}");
    written.stderr.has(format!("100 accepted messages could not be handed to the bus{cause}\n"));
    assert!(answers.iter().any(|it| it.outcome == Outcome::Accepted));
    took
}

/// A hub that is gone may come back, so the gateway waits for the whole timeout.
#[test]
fn the_drain_timeout_ends_a_drain_to_a_stalled_hub_and_without_a_hub() {
    for is_gone in [false, true] {
        let (mut deployment, answers) = full_deployment(&["1"]);
        if is_gone {
            deployment.lose_hub();
        }
        let took = assert_undelivered_reported(&mut deployment, &answers, " in time");
        let hub = if is_gone { "without a hub" } else { "with a stalled hub" };
        println!("SIGTERM {hub}, --drain-timeout 1: ended after {took:?}");
        assert!(took >= Duration::from_millis(900), "the drain ended too early, after {took:?}");
    }
}

#[test]
fn a_second_signal_ends_the_drain() {
    let (mut deployment, answers) = full_deployment(&["600"]);
    deployment.gateway.begin_drain();
    assert!(deployment.gateway.is_running());
    let took = assert_undelivered_reported(&mut deployment, &answers, ": stopped at the second signal");
    println!("a second SIGTERM with a stalled hub, --drain-timeout 600: ended after {took:?}");
}

#[test]
fn a_second_signal_ends_the_stop_of_the_hub() {
    let builder = Gateway::serve().arguments(["--drain-timeout", "600"]);
    let mut rig = Rig::start(builder, Side::Hub, Transport::Ipc, OWN_TOPIC);
    let _staller = rig.subscribed("large");
    assert!(Poster::to(&rig.gateway, "large", 100_000).post_together(100));
    rig.gateway.begin_drain();
    wait_until("the stop of the hub", || !threads(rig.gateway.id()).any(|thread| status(&thread, "Name") == "worker"));
    assert!(rig.gateway.is_running());
    stop_within(&mut rig.gateway, SOON);
    for endpoint in [rig.publishers(), &rig.subscribers] {
        assert!(!Path::new(endpoint.strip_prefix("ipc://").unwrap()).exists(), "{endpoint} is left behind");
    }
}

#[test]
fn publishers_that_go_on_do_not_lengthen_the_stop_of_a_hub() {
    for (publishers, pause_ms) in [(1, 100), (8, 0)] {
        let mut rig = Rig::of_patient_hub([]);
        let count = if pause_ms > 0 { 1 } else { 10 };
        let bytes = message(&[b"busy", &[b' '; 10_000]]).repeat(count);
        let publish = |_| {
            let (mut publisher, bytes) = (rig.publisher(), bytes.clone());
            Task::start(move |over| {
                // As a socket of libzmq, it leaves when the hub ends the connection.
                while !is_over(over) && !publisher.is_ended() && publisher.send(&bytes) {
                    thread::sleep(Duration::from_millis(pause_ms));
                }
            })
        };
        let _publishing: Vec<_> = (0..publishers).map(publish).collect();
        wait_until("they publish", || rig.gateway.stats()["hub"]["forwarded"].as_u64() > Some(10));
        stop_within(&mut rig.gateway, Duration::from_secs(1));
    }
}

/// All of it has come when the signal comes. The publisher reads nothing, as one that is stopped, and holds nobody up.
#[test]
fn what_a_publisher_has_just_sent_arrives_at_the_stop_of_a_hub() {
    const MESSAGES: u32 = 2_000;
    let builder = Gateway::serve().arguments(["--drain-timeout", "600"]);
    let mut rig = Rig::start(builder, Side::Hub, Transport::Ipc, OWN_TOPIC);
    let mut publisher = rig.publisher();
    let numbered = |number| message(&[OWN_TOPIC.as_bytes(), payload(number, "").as_bytes()]);
    publisher.send_all(&(0..MESSAGES).flat_map(numbered).collect::<Vec<_>>());
    stop_within(&mut rig.gateway, Duration::from_secs(1));
    assert_received(&rig, &(0..MESSAGES).collect::<Vec<_>>());
}

/// The messages in the pipe of libzmq are delivered too.
#[test]
fn a_hub_that_comes_back_or_continues_during_the_drain_receives_the_waiting_messages() {
    for is_gone in [true, false] {
        let (mut deployment, answers) = full_deployment(&["600"]);
        if is_gone {
            deployment.lose_hub();
        }
        deployment.gateway.begin_drain();
        if is_gone {
            deployment.restart_hub();
        } else {
            deployment.hub().signal(Signal::CONT);
        }
        let (_, last) = deployment.gateway.wait_stopped();
        assert_eq!(count(&last, "accepted"), count(&last, "published"), "{last}");
        // The last accepted message arrives, and those before it in their order.
        let accepted: Vec<_> = answers.iter().filter(|it| it.outcome == Outcome::Accepted).collect();
        let newest = accepted.last().map(|newest| (newest.client, newest.number));
        let (mut received, mut of_load, mut has_newest) = (Vec::new(), 0, false);
        while !has_newest || (!is_gone && of_load < accepted.len()) {
            let message = deployment.subscriber.next();
            let is_of_load = message.topic == TOPIC;
            of_load += usize::from(is_of_load);
            has_newest |= is_of_load && Some(client_and_number(&message)) == newest;
            received.push(message);
        }
        let report = DeliveryReport::of(&answers, &received);
        println!("SIGTERM, and the hub is back during the drain, from the start: {is_gone}: {report}");
        assert!(is_gone || report.lost.is_empty(), "lost: {report}");
    }
}

/// A parent may rely on this after a crash, even if connections are open. The kernel may remove a ring some 10 ms after
/// its process was reaped, and a pending accept of the ring keeps the listening socket open until then.
#[test]
fn each_of_ten_gateways_can_use_the_port_of_the_one_killed_before() {
    let (endpoints, _hub, subscriber) = start_hub_with_subscriber();
    let address = free_address();
    let start = || Gateway::serve().listen(address).connect(&endpoints[0]).start_connected();
    let mut gateway = start();
    let load = Load::on(&gateway, 3, 200);
    for _ in 0..10 {
        load.wait_for(SOME / 10, "200s", Instant::now(), accepted);
        gateway.signal(Signal::KILL);
        gateway.end();
        gateway = start();
    }
    load.wait_for(SOME, "200s", Instant::now(), accepted);
    let report = DeliveryReport::of(&load.finish(), &take_all(&gateway, &subscriber));
    println!("gateways killed: {report}");
    // Messages in the queue, in the pipe and on the way to the hub are lost. None arrived twice or out of order.
    let expected = |outcome: &Outcome| matches!(outcome, Outcome::Unknown | Outcome::Refused(503, _));
    assert!(report.refused.keys().all(expected), "{report}");
}
