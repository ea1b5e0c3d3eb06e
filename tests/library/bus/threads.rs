//! Tests that a stop hands over what was accepted, and keeps its deadline; and that the thread of the bus sleeps while there is
//! nothing to do, and only then.

use std::num::NonZero;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use adapter_gateway::bus::{Bus, BusConfig, Endpoint, HubEndpoints, Subscriber, Unavailable};
use adapter_gateway::message::publish::Publish;

use super::{Hub, TOPIC, any_port, connecting, hub, number_in, receive, start, subscribed, wait_for_subscriber};
use crate::support::usage::{sleeps, voluntary_switches};
use crate::support::{Form, Lateness, PATIENCE, RawPeer, eventually, subscribe, wait_until};

/// What is counted as undelivered does not arrive. libzmq drops what is in its pipe at the deadline.
#[test]
fn stop_with_a_stalled_hub_keeps_its_deadline_and_counts_the_undelivered() {
    const DEADLINE: Duration = Duration::from_millis(300);
    let hub = Hub::at("tcp://127.0.0.1:*", 1);
    let mut config = connecting(&[&hub.url]);
    config.limits.queue_messages = NonZero::new(50).unwrap();
    config.pipe_messages = NonZero::<u16>::MIN;
    let running = start(config);
    running.expect_connected(&hub);
    let accepted = running.publish_until_stalled(0, 65_536);
    let (lateness, started) = (Lateness::watch(), Instant::now());
    let totals = running.bus.stop(DEADLINE);
    lateness.assert_took(started.elapsed(), DEADLINE + Duration::from_millis(300));
    assert_eq!((totals.accepted, totals.published), (u64::from(accepted), totals.accepted - totals.queue_depth));
    // The queue held 50 messages, and the kernel may have taken some of them late.
    assert!((1..=50).contains(&totals.queue_depth), "{totals:?}");
    let receive = || receive(&hub.socket, Duration::from_millis(500));
    let received = std::iter::from_fn(receive).zip(0..).map(|(it, number)| assert_eq!(number_in(&it), number)).count();
    assert!((1..=totals.published).contains(&(received as u64)), "{received} of {totals:?}");
    assert_eq!(running.publisher.publish(TOPIC, b"".into()), Err(Unavailable::Stopping));
}

/// Much of it still waits in the bus when the subscriber begins to read.
#[test]
fn stop_writes_out_what_waits_for_a_slow_subscriber() {
    const MESSAGES: u32 = 200;
    let running = hub(MESSAGES as usize);
    let slow = subscribed(10);
    slow.connect(running.subscribers_side().as_str()).unwrap();
    wait_for_subscriber(&running.bus);
    (0..MESSAGES).for_each(|number| running.publish(number, 65_532).unwrap());
    let publisher = running.bus.publisher();
    let stopping = thread::spawn(move || running.bus.stop(PATIENCE));
    wait_until("the stop begins", || publisher.available() == Err(Unavailable::Stopping));
    assert!(publisher.counters().queue_depth > 0, "the bus has nothing left to write");
    for expected in 0..MESSAGES {
        assert_eq!(number_in(&receive(&slow, PATIENCE).expect("lost")), expected);
    }
    let counters = stopping.join().unwrap();
    assert_eq!((counters.published, counters.queue_depth), (u64::from(MESSAGES), 0));
}

/// Nothing is left to hand over, so the deadline is not waited for.
#[test]
fn stop_without_a_hub_and_of_a_hub_without_publishers_is_immediate() {
    for running in [start(connecting(&["tcp://127.0.0.1:9"])), hub(100)] {
        let (lateness, started) = (Lateness::watch(), Instant::now());
        let totals = running.bus.stop(Duration::from_secs(3_600));
        lateness.assert_took(started.elapsed(), Duration::from_secs(1));
        assert_eq!((totals.accepted, totals.queue_depth), (0, 0));
    }
}

#[test]
fn a_bus_that_is_dropped_gives_its_ports_back() {
    let start_at = |[bound, publishers, subscribers]: [_; 3]| {
        let hub = Some(HubEndpoints { publishers, subscribers });
        Bus::start(BusConfig { bind: vec![bound], hub, ..BusConfig::default() }, |_event| {})
    };
    let bus = start_at([any_port(), any_port(), any_port()]).unwrap();
    let endpoints = <[_; 3]>::try_from(bus.bound().to_vec()).unwrap();
    drop(bus);
    eventually("the ports are free", || start_at(endpoints.clone()).ok());
}

/// A thread that never comes back stands for one that waits for libzmq.
#[test]
fn a_bus_whose_thread_never_ends_is_left_behind() {
    const DEADLINE: Duration = Duration::from_millis(300);
    let hub = Hub::new();
    let (entered, called) = channel();
    let (_never, wait) = channel::<()>();
    let bus = Bus::start(connecting(&[&hub.url]), move |_event| {
        entered.send(()).unwrap();
        assert!(wait.recv().is_err());
    });
    let bus = bus.unwrap();
    eventually("the callback", || {
        hub.socket.get_events().unwrap();
        called.try_recv().ok()
    });
    let publisher = bus.publisher();
    publisher.publish(TOPIC, b"{}".into()).unwrap();
    let started = Instant::now();
    let totals = bus.stop(DEADLINE);
    assert_eq!((totals.accepted, totals.published, totals.queue_depth), (1, 0, 1));
    drop(bus);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    assert_eq!(publisher.publish(TOPIC, b"{}".into()), Err(Unavailable::Stopping));
}

/// A subscriber of libzmq connects again at once, and so shows less.
#[test]
fn a_stop_ends_with_its_last_peer_whether_that_closes_the_connection_or_not() {
    const DEADLINE: Duration = Duration::from_secs(60);
    for closes in [true, false] {
        let running = hub(100);
        let mut peer = RawPeer::speaking(running.subscribers_side().as_str(), "SUB");
        peer.send_all(&subscribe(Form::Message, b""));
        wait_for_subscriber(&running.bus);
        let reader = thread::spawn(move || {
            peer.read_to_end();
            if closes { None } else { Some(peer) }
        });
        let started = Instant::now();
        running.bus.stop(DEADLINE);
        let took = started.elapsed();
        assert!(took < DEADLINE / 2, "the stop took {took:?}, closes: {closes}");
        drop(reader.join().unwrap());
    }
}

/// Returns whether the thread wakes up at most so often within 300 ms, and waits each time that the test looks. A
/// thread that never waits has no voluntary switches. The test sleeps because it counts over a span of time.
fn rests(task: &Path, most_switches: u64) -> bool {
    let before = voluntary_switches(task);
    let waits = (0..10).all(|_| {
        thread::sleep(Duration::from_millis(30));
        sleeps(task)
    });
    waits && voluntary_switches(task) - before <= most_switches
}

#[test]
fn an_idle_thread_never_wakes_up() {
    let hub = Hub::new();
    let running = start(connecting(&[&hub.url]));
    let (_, task) = running.expect_connected(&hub);
    running.publish(0, 0).unwrap();
    receive(&hub.socket, PATIENCE).unwrap();
    // On an idle machine it parks within a millisecond after its last message.
    wait_until("the thread stays parked", || rests(&task, 0));
}

/// The subscriber that does not read is a hub that the bus connects to, or one of the hub that it runs. In the second
/// case, the other end of the dialled endpoint takes everything. The thread looks for room every 100 ms.
#[test]
fn a_stalled_thread_does_not_spin() {
    for is_dialled in [true, false] {
        let dialled = Hub::at("tcp://127.0.0.1:*", if is_dialled { 1 } else { 0 });
        let mut config = connecting(&[&dialled.url]);
        config.limits.queue_messages = NonZero::new(100).unwrap();
        config.pipe_messages = NonZero::new(2).unwrap();
        config.hub = (!is_dialled).then(|| HubEndpoints { publishers: any_port(), subscribers: any_port() });
        let running = start(config);
        let (_, task) = running.expect_connected(&dialled);
        let stalled = subscribed(1);
        if !is_dialled {
            stalled.connect(running.subscribers_side().as_str()).unwrap();
            wait_for_subscriber(&running.bus);
        }
        running.publish_until_stalled(0, 65_532);
        wait_until("the thread waits for room", || rests(&task, 5));
    }
}

/// The bus thread looks for messages between two batches of subscriptions. It counts those of all bound endpoints.
#[test]
fn no_subscription_is_left_unread() {
    const PREFIXES: usize = 4_500;
    let prefixes: Vec<_> = (0..PREFIXES).map(|number| number.to_string()).collect();
    // The thread may read them as they come, so there are several attempts.
    for _ in 0..5 {
        let bind = vec![any_port(), any_port()];
        let bus = Bus::start(BusConfig { bind, ..BusConfig::default() }, |_| {}).unwrap();
        // Half of the prefixes of the second one are new.
        let parts = [&prefixes[..PREFIXES / 2], &prefixes[PREFIXES / 4..]];
        let connect = |(endpoint, part): (&Endpoint, &&[String])| {
            Subscriber::connect(std::slice::from_ref(endpoint), part, |_, _| {}).unwrap()
        };
        let _subscribers: Vec<_> = bus.bound().iter().zip(&parts).map(connect).collect();
        let count = || bus.counters().subscribers.subscriptions;
        wait_until("all subscriptions are counted", || count() == Some(PREFIXES as u64));
    }
}
