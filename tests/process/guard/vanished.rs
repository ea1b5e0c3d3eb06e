//! A machine that vanishes closes no connection. The gateway and two of its subscribers have networks of their own here.

use super::*;

const NEAR: &str = "ip link set lo up && ip link add near type veth peer name far && ip link set near up && \
    ip address add 10.9.8.1/24 dev near";

/// Returns a command that runs this program, with its arguments, in the network of a process.
fn in_network_of(process: u32, program: &str) -> Command {
    let words = format!("nsenter --target {process} --user --preserve-credentials --net {program}");
    command(&words.split(' ').collect::<Vec<_>>())
}

/// Who does not read acknowledges still that its window is full.
#[test]
fn a_subscriber_whose_machine_vanishes_is_disconnected_and_one_that_is_stopped_stays() {
    const REASON: &str = "it has acknowledged nothing for 20 s";
    let endpoint = "tcp://10.9.8.1:16103";
    needs!(is_possible(&unshared("--net", NEAR)));
    let outside = TcpListener::bind(ANY_PORT).unwrap();
    let builder = Gateway::serve().inherit(&outside).bind(endpoint).arguments(["--stall-timeout", "0"]);
    let mut gateway = builder.after(&unshared("--net", &format!("{NEAR} && exec 3<&0 </dev/null"))).start_ready();
    let near = gateway.id();
    // It prints a line once it has a network of its own, and ends when its stdin ends.
    let machine = Process::spawn(in_network_of(near, "unshare --net cat /proc/uptime -").stdin(Stdio::piped()));
    machine.wait_line("a network", |_| true);
    let far = machine.id();
    let run = |process, program: &str| in_network_of(process, program).status().unwrap().success();
    assert!(run(near, &format!("ip link set far netns {far}")));
    assert!(run(far, "ip address add 10.9.8.2/24 dev far") && run(far, "ip link set far up"));

    let listen = |process, topic: &str| {
        let program = binary().get_program().to_str().unwrap().to_owned();
        Process::spawn(&mut in_network_of(process, &format!("{program} listen --connect {endpoint} --topic {topic}")))
    };
    let _vanishing = ["sent", "idle"].map(|topic| listen(far, topic));
    let stopped = listen(near, "stopped");
    gateway.wait_count("subscriptions", 3);
    stopped.signal(Signal::STOP);
    let mut poster = Poster::to(&gateway, "stopped", 20_000);
    wait_until("its window is full", || poster.post_together(100) && count(&gateway.stats(), "queue_depth") > 100);

    let (lateness, since) = (Lateness::watch(), Instant::now());
    assert!(run(far, "ip link set far down"));
    gateway.post(Message::new("sent", "{}").body()).assert_accepted();
    let lost = [(); 2].map(|()| {
        let event = gateway.wait_event("subscriber");
        lateness.assert_took(since.elapsed(), Duration::from_secs(30));
        assert_eq!((&event["state"], &event["reason"]), (&"disconnected".into(), &REASON.into()), "{event}");
        event["lost"].as_u64().unwrap()
    });
    assert_eq!(lost.iter().sum::<u64>(), 1);
    assert_eq!(gateway.wait_count("subscribers", 1)["peers"]["disconnected"], 2);
    stopped.signal(Signal::CONT);
    for expected in poster.accepted {
        let line = stopped.next_line().expect("a message");
        assert_eq!(number(line.split_once('\t').unwrap().1.as_bytes()), expected);
    }
    gateway.terminate();
}
