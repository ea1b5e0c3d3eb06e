//! The way to a subscriber stops for a while: requests are refused, memory stays bounded, and nothing is lost.

use super::*;

/// Interrupts the way to a subscriber until so many requests are refused. As many are accepted before and afterwards.
/// `next` returns what the subscriber receives next. Returns how long it took until requests were accepted again.
fn assert_nothing_is_lost(
    what: &str,
    gateway: &Gateway,
    (load, some): (Load, usize),
    next: impl FnMut() -> Message,
    [interrupt, resume]: [&dyn Fn(); 2],
) -> Duration {
    load.wait_for(some, "200s", Instant::now(), accepted);
    let interrupted = Instant::now();
    interrupt();
    let full = load.wait_for(some, "503", Instant::now(), refused_as("subscriber-stalled"));
    let resumed = Instant::now();
    resume();
    let served = load.wait_for(some, "200s", resumed, accepted).saturating_duration_since(resumed);
    let answers = load.finish();
    let report = DeliveryReport::of(&answers, &take_until(next, &post_last(gateway)));
    println!("{what}: {report}, 503 after {:?}, serves again after {served:?}", full - interrupted);
    report.assert_nothing_lost();
    report.assert_refused_only_as(&["subscriber-stalled", "queue-full"]);
    served
}

#[test]
fn a_stalled_subscriber_uses_bounded_memory_and_loses_nothing() {
    const KIB: usize = 1024;
    const MIB: usize = 1024 * KIB;
    /// The bytes of a message, nearly all of them padding.
    const MESSAGE_BYTES: usize = 16 * KIB;
    /// `--max-buffered`: the most bytes in the queue, and the most bytes of bodies in flight.
    const BUFFERED_BYTES: usize = 8 * MIB;
    /// The bytes in libzmq's pipe to the hub.
    const PIPE_BYTES: usize = 256 * MESSAGE_BYTES;
    /// Buffers of the worker and of libzmq, and the memory that the allocator does not give back.
    const OTHER_BYTES: usize = 4 * MIB;

    let [publishers, subscribers] = [dead_endpoint(), dead_endpoint()];
    let _hub = Gateway::serve().only_hub(&publishers, &subscribers).start_ready();
    let limit = ["--max-buffered", &BUFFERED_BYTES.to_string()];
    let gateway = Gateway::serve().connect(&publishers).arguments(limit).start_connected();
    let subscriber = Process::spawn(binary().args(["listen", "--connect", &subscribers]));
    subscriber.wait_log("waiting for messages");
    let next = || {
        let line = subscriber.next_line().expect("a message");
        let (topic, payload) = line.trim_end_matches('\n').split_once('\t').expect("topic, tab, payload");
        Message::new(topic, payload)
    };

    let load = Load::on(&gateway, 2, MESSAGE_BYTES);
    load.wait_for(200, "200s", Instant::now(), accepted);
    let before = resident_kib(gateway.id());
    let stop = || subscriber.signal(Signal::STOP);
    let resume = || {
        let highest = peak_resident_kib(gateway.id());
        subscriber.signal(Signal::CONT);
        let (growth, bound) = (highest.saturating_sub(before), (BUFFERED_BYTES + PIPE_BYTES + OTHER_BYTES) / KIB);
        println!("{before} KiB before, {highest} KiB at most: {growth} KiB more, bound {bound} KiB");
        assert!(growth <= bound as u64, "{growth} KiB more, bound {bound} KiB");
    };
    assert_nothing_is_lost("subscriber stalled", &gateway, (load, 500), next, [&stop, &resume]);
}

#[test]
fn a_hub_that_is_stopped_and_continued_loses_nothing() {
    let Deployment { hub, subscriber, gateway, .. } = Deployment::with(["--queue", "500"]);
    let (hub, lateness) = (hub.unwrap(), Lateness::watch());
    let (stop, resume) = (|| hub.signal(Signal::STOP), || hub.signal(Signal::CONT));
    let load = (Load::on(&gateway, 3, 4_000), 2_000);
    let served = assert_nothing_is_lost("hub stopped", &gateway, load, || subscriber.next(), [&stop, &resume]);
    lateness.assert_took(served, Duration::from_secs(5));
}

/// Most interruptions are shorter than the time after which the kernel ends a connection. Hub and gateway have a
/// network of their own. Others reach the gateway by a socket from outside, and the hub by a socket file.
#[test]
fn a_short_interruption_of_the_network_loses_nothing() {
    let network = unshared("--net", "ip link set lo up");
    needs!(is_possible(&network));
    let (_directory, subscribers) = temporary_endpoint();
    let endpoints = ["tcp://127.0.0.1:16130".to_owned(), subscribers];
    let hub = start_hub(&["sh", "-c", &network, "sh"], &endpoints);
    let subscriber = Subscriber::connected(&endpoints[1], "");
    wait_open(&hub);
    let enter = format!("nsenter --target {} --user --preserve-credentials --net", hub.id());
    let outside = TcpListener::bind(ANY_PORT).unwrap();
    let builder = Gateway::serve().inherit(&outside).connect(&endpoints[0]).arguments(["--queue", "500"]);
    let inside = format!("exec {enter} sh -c 'exec 3<&0 </dev/null \"$@\"' sh \"$@\"");
    let gateway = builder.after(&inside).start_connected();
    let load = (Load::on(&gateway, 3, 4_000), 1_000);
    let set = |state| _ = Process::spawn(&mut in_network_of(hub.id(), &format!("ip link set lo {state}"))).finish(0);
    let (down, up) = (|| set("down"), || set("up"));
    assert_nothing_is_lost("network interrupted", &gateway, load, || subscriber.next(), [&down, &up]);
}
