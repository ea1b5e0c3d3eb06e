//! The options that change how messages are published: `--hub` and `--encoding`.

use crate::support::PATIENCE;
use crate::support::gateway::Gateway;
use crate::support::process::run;
use crate::support::subscriber::{Message, Subscriber, ipc_endpoint};

/// The gateway and its hub run in one process, the subscriber and the publishers of others outside.
#[test]
fn the_embedded_hub_forwards_and_counts_messages() {
    let [publishers, subscribers] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (publishers_side, subscribers_side) = (ipc_endpoint(&publishers), ipc_endpoint(&subscribers));
    let hub = ["--hub", "--hub-publishers", &publishers_side, "--hub-subscribers", &subscribers_side];
    let mut gateway = Gateway::serve().arguments(hub).start();
    let connected = gateway.wait_connected();
    assert_eq!(connected["endpoint"], publishers_side.as_str());

    let subscriber = Subscriber::connected(&subscribers_side, "");
    subscriber.wait_until_subscribed(&gateway);
    for number in 0..100 {
        gateway.post(Message::new("t", &format!(r#"{{"n":{number}}}"#)).body()).assert_accepted();
    }
    for number in 0..100 {
        assert_eq!(subscriber.next(), Message::new("t", &format!(r#"{{"n":{number}}}"#)));
    }
    gateway.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.wait_exit(), 0);
    let stopped = gateway.wait_event("stopped");
    assert_eq!(stopped["hub"]["forwarded"], stopped["published"], "{stopped}");
    assert_eq!(stopped["hub"]["pipe_full"], 0, "{stopped}");
}

#[test]
fn the_endpoints_of_a_hub_are_refused_without_hub() {
    let (status, output) = run(["serve", "--plain", "--hub-publishers", "tcp://127.0.0.1:*"]);
    assert_eq!(status, 2, "{}", output.stderr);
}

#[test]
fn a_payload_is_published_in_msgpack_without_loss_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.set_subscribe(b"").unwrap();
    socket.set_rcvtimeo(PATIENCE.as_millis().try_into().unwrap()).unwrap();
    socket.bind(&ipc_endpoint(&directory)).unwrap();
    let receiving = std::thread::spawn(move || socket.recv_multipart(0).unwrap());
    let gateway = Gateway::serve().connect(&ipc_endpoint(&directory)).arguments(["--encoding", "msgpack"]);
    let mut gateway = gateway.start();
    gateway.wait_connected();

    let problem = gateway.post(Message::new("x", r#"{"n":[1,18446744073709551616]}"#).body()).problem();
    assert_eq!((&problem["status"], &problem["pointer"]), (&422.into(), &"/payload/n/1".into()), "{problem}");

    gateway.post(Message::new("x", r#"{ "n" : [1.0, 18446744073709551615] }"#).body()).assert_accepted();
    let payload = [&b"\x81\xa1n\x92\xcb\x3f\xf0\0\0\0\0\0\0\xcf"[..], &[0xff; 8]].concat();
    assert_eq!(receiving.join().unwrap(), [b"x".to_vec(), payload]);
}
