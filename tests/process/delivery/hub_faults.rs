//! Faults of the hub: it is killed, restarted or replaced.

use super::*;

/// Answers that a load gets before a fault, and again after it.
const SOME: usize = 2_000;
const CLIENTS: usize = 3;
/// Messages in the pipe of libzmq to a hub.
const PIPE_MESSAGES: usize = 256;
/// Bytes of each of libzmq's two buffers of a connection, one to write and one to read.
const BUFFER_BYTES: usize = 8 * 1024;
/// Messages that a hub has not forwarded: its pipe from the gateway, and as many on the way to the subscriber.
const HUB_HOLDS: usize = 2 * HUB_MESSAGES;
/// What the kernel may hold between two reads of a hub: a little more than the first window of the loopback interface.
const KERNEL_BYTES: usize = 256 * 1024;
/// How soon the gateway must serve again on an idle machine. libzmq tries to connect every 100 to 800 ms.
const SERVES_AGAIN: Duration = Duration::from_secs(5);
/// How late a client may read an answer on an idle machine.
const READ_DELAY: Duration = Duration::from_secs(1);

/// Returns the most messages that may be lost when a hub is killed: those that it has not forwarded, those in libzmq's
/// write buffer of the gateway and read buffer of the hub, and those in the kernel.
fn lost_at_most(kernel_bytes: usize, message_bytes: usize) -> usize {
    HUB_HOLDS + (kernel_bytes + 2 * BUFFER_BYTES) / message_bytes + 1
}

/// Neither system is told. What is posted then stays unacknowledged, so that keep-alive does not run.
#[test]
fn a_hub_whose_network_is_gone_is_noticed_while_data_is_unsent_and_served_when_it_is_back() {
    let script = beside_a_hub("true", "tcp://127.0.0.1:16130");
    needs!(is_possible(&script));
    let ((_directory, path), endpoint) = (temporary_path("gateway"), "tcp://127.0.0.1:16130");
    let mut gateway = Gateway::serve().connect(endpoint).after(&script).listen_at(&path).spawn();
    gateway.wait_connected();
    gateway.wait_event("ready");
    let mut client = Client::connect_to(&path);
    let mut post = || client.exchange(&gateway.request(FINE));
    let id = gateway.id();
    let set_network = |state| Process::spawn(&mut in_network_of(id, &format!("ip link set lo {state}"))).finish(0);
    post().assert_accepted();
    set_network("down");
    post().assert_accepted();
    gateway.wait_disconnected(endpoint, "acknowledged nothing for 20 s");
    gateway.wait_log("were not acknowledged by the hub at tcp://127.0.0.1:16130 are lost: 2 at most");
    set_network("up");
    gateway.wait_connected();
    gateway.terminate();
}

/// A deployment, and a load on it that has been accepted for a while.
type UnderLoad = (Deployment, Lateness, Load);

fn under_load(deployment: Deployment, padding: usize, accepted_before: usize) -> UnderLoad {
    let (lateness, load) = (Lateness::watch(), Load::on(&deployment.gateway, CLIENTS, padding));
    load.wait_for(accepted_before, "200s", Instant::now(), accepted);
    (deployment, lateness, load)
}

/// Starts the hub again. The gateway must serve soon. Other requests were refused for these reasons alone.
fn recovered(under_load: UnderLoad, what: &str, refused_as: &[&str]) -> (Vec<Posted>, DeliveryReport, Duration) {
    let (mut deployment, lateness, load) = under_load;
    let back = deployment.restart_hub();
    let served = load.wait_for(SOME, "200s", back, accepted).saturating_duration_since(back);
    let answers = load.finish();
    let report = DeliveryReport::of(&answers, &take_all(&deployment.gateway, &deployment.subscriber));
    println!("hub {what}: {report}, serves again {served:?} after the hub");
    report.assert_refused_only_as(refused_as);
    lateness.assert_took(served, SERVES_AGAIN);
    (answers, report, lateness.allowance())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Killed,
    Restarted,
    /// It is killed, and another program has its port for a while.
    Replaced,
}

/// Listens on the port of the hub, as another program would, until the gateway has connected to it several times.
fn replace_hub(endpoint: &str) {
    // The first may begin an old version of ZMTP, so that libzmq waits. The others are errors of the protocol.
    const GREETINGS: [&[u8]; 3] = [b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0xff; 64], &[0; 64]];
    let other_program = TcpListener::bind(endpoint.strip_prefix("tcp://").unwrap()).unwrap();
    for greeting in GREETINGS {
        let mut stream = accept_connection(&other_program);
        // The gateway may have closed the connection already.
        let _ = stream.write_all(greeting);
        // Waits for the answer of the gateway, or for the close.
        let _ = stream.read(&mut [0; 64]);
    }
}

#[test]
fn a_hub_that_is_killed_restarted_or_replaced_under_load_loses_a_bounded_number_of_messages() {
    const PADDING: usize = 200;
    for fault in [Fault::Killed, Fault::Restarted, Fault::Replaced] {
        let (mut deployment, lateness, load) = under_load(Deployment::with([]), PADDING, SOME);
        let ended = Instant::now();
        let mut hub = deployment.hub.take().unwrap();
        if fault == Fault::Restarted {
            hub.close_stdin();
            hub.finish(0);
        }
        drop(hub);
        let noticed = load.wait_for(1, "503", ended, refused_as("bus-not-connected"));
        if fault == Fault::Replaced {
            replace_hub(&deployment.endpoints[0]);
            deployment.gateway.wait_log(&format!("are lost: {PIPE_MESSAGES} at most"));
        }
        let what = format!("{fault:?}, 503 after {:?}", noticed - ended);
        let (answers, report, allowance) = recovered((deployment, lateness, load), &what, &["bus-not-connected"]);
        // After an error of the protocol, libzmq drops the endpoint and all messages in its pipe.
        let in_pipe = if fault == Fault::Replaced { PIPE_MESSAGES } else { 0 };
        // A hub that was late had not read what was accepted around its end, and that was still in the kernel.
        let is_around = |at: Instant| at + allowance >= noticed && at <= noticed + allowance;
        let around = answers.iter().filter(|it| accepted(&it.outcome) && is_around(it.at)).count();
        let bound = in_pipe + lost_at_most(KERNEL_BYTES, PADDING) + around;
        assert!(report.lost.len() <= bound, "{} lost, at most {bound}", report.lost.len());
        // The lost messages were on their way when the hub ended.
        let read_by = noticed + READ_DELAY + allowance;
        assert!(report.lost.iter().all(|it| it.at < read_by), "lost without the hub, or after its restart");
    }
}

/// The worst case: every buffer on the way to the hub is full. Messages in libzmq's pipe and in the queue are not lost.
#[test]
fn a_hub_that_is_killed_while_all_buffers_are_full_loses_none_of_pipe_and_queue() {
    const PADDING: usize = 4_000;
    let (mut deployment, lateness, load) = under_load(Deployment::with(["--queue", "500"]), PADDING, 100);
    deployment.hub().signal(Signal::STOP);
    let stopped = Instant::now();
    load.wait_for(SOME, "503", stopped, refused_as("subscriber-stalled"));
    let hub: SocketAddr = deployment.endpoints[0].strip_prefix("tcp://").unwrap().parse().unwrap();
    let of_hub = |socket: &TcpSocket| !socket.listens && [socket.local, socket.peer].contains(&hub);
    let mut last = None;
    // If they do not change, libzmq has written all that the kernel takes.
    let in_the_kernel = eventually("the bytes in the kernel do not change", || {
        load.wait_for(SOME, "503", Instant::now(), refused_as("subscriber-stalled"));
        let bytes: usize = tcp_sockets().into_iter().filter(of_hub).map(|socket| socket.buffered_bytes).sum();
        (last.replace(bytes) == Some(bytes)).then_some(bytes)
    });
    let killed = Instant::now();
    drop(deployment.hub.take());
    load.wait_for(1, "503", killed, refused_as("bus-not-connected"));
    let refusals = ["bus-not-connected", "subscriber-stalled", "queue-full"];
    let what = format!("killed with {in_the_kernel} bytes in the kernel");
    let (answers, report, _) = recovered((deployment, lateness, load), &what, &refusals);
    let bound = lost_at_most(in_the_kernel, PADDING);
    assert!(report.lost.len() <= bound, "{} lost, at most {bound}", report.lost.len());
    // The messages of each client are in the pipe and the queue in their order, behind those that are lost. The times of
    // answers tell no order among clients: one that a busy machine holds up reads its answers late.
    let is_behind = |it: &&Posted| report.lost.iter().all(|lost| lost.client != it.client || lost.number < it.number);
    let before = answers.iter().filter(|it| it.at < killed && accepted(&it.outcome));
    let kept = before.filter(is_behind).count();
    // libzmq reports free room only when half of the pipe is free, and some answers were on the way to their clients.
    assert!(kept >= 500 + PIPE_MESSAGES / 2 - 50, "lost from the pipe or the queue, which kept {kept}");
}

#[test]
fn a_hub_that_forwards_a_very_long_subscription_stays_connected_and_the_first_message_after_a_reconnect_arrives() {
    let mut deployment = Deployment::with([]);
    // Any subscriber of a hub can make it forward that.
    let mut subscriber = RawPeer::speaking(&deployment.endpoints[1], "SUB");
    for prefix in [&[b'x'; 100 * 1024][..], b"behind it"] {
        subscriber.send_all(&subscribe(Form::Message, prefix));
    }
    let stats = eventually("the subscriptions reach the gateway", || {
        let stats = deployment.gateway.stats();
        deployment.gateway.log().contains("behind it").then_some(stats)
    });
    assert_eq!(stats["endpoints"][0]["reconnects"], 0, "{stats}");
    let message = Message::new("t", "{}");
    deployment.gateway.post(message.body()).assert_accepted();
    assert_eq!(deployment.subscriber.next(), message);
    drop(subscriber);

    // On a busy machine, a link may be lost once more before it is ready, which must not pass for the next loss.
    deployment.gateway.wait_event("ready");
    for number in 0..20 {
        let first = Message::new("first", &format!(r#"{{"number":{number}}}"#));
        drop(deployment.hub.take());
        deployment.gateway.wait_event("not-ready");
        assert_eq!(deployment.gateway.post(first.body()).status, 503, "no message is accepted without the hub");
        deployment.restart_hub();
        deployment.gateway.wait_event("ready");
        deployment.gateway.post(first.body()).assert_accepted();
        assert_eq!(deployment.subscriber.next(), first);
    }
}

#[test]
fn a_failure_of_one_hub_loses_nothing_for_the_other() {
    let (failing, failing_hub, failing_subscriber) = start_hub_with_subscriber();
    let (staying, _staying_hub, staying_subscriber) = start_hub_with_subscriber();
    let mut gateway = Gateway::serve().connect(&failing[0]).connect(&staying[0]).start_connected();
    gateway.wait_connected();
    let (lateness, load) = (Lateness::watch(), Load::on(&gateway, CLIENTS, 200));
    load.wait_for(SOME, "200s", Instant::now(), accepted);
    let killed = Instant::now();
    drop(failing_hub);
    gateway.wait_state("bus", "disconnected");
    let gone = Instant::now();
    load.wait_for(SOME, "200s", gone, accepted);
    let hub = start_hub(&["env"], &failing);
    wait_open(&hub);
    assert_eq!(gateway.wait_connected()["endpoint"], failing[0]);
    let connected = Instant::now();
    load.wait_for(SOME, "200s", connected, accepted);
    let answers = load.finish();
    let last = post_last(&gateway);
    let stayed = DeliveryReport::of(&answers, &take_until(|| staying_subscriber.next(), &last));
    let failed = DeliveryReport::of(&answers, &take_until(|| failing_subscriber.next(), &last));
    println!("one of two hubs killed: the other {stayed}; the killed one {failed}");
    stayed.assert_nothing_lost();
    assert!(stayed.refused.is_empty(), "{stayed}");
    // An answer is read, and an event is received, some time after it was written.
    let delay = READ_DELAY + lateness.allowance();
    let without_hub = |it: &Posted| it.at + delay >= killed && it.at <= connected + delay;
    assert!(failed.lost.iter().all(without_hub), "lost while the hub was connected");
    assert!(failed.lost.len() >= SOME / 2, "{failed}");
}
