//! `--encoding`, from HTTP to the frames that a subscriber takes off the bus.

use crate::support::PATIENCE;
use crate::support::gateway::Gateway;
use crate::support::subscriber::{Message, ipc_endpoint};

#[test]
fn msgpack_says_what_the_json_said_or_nothing() {
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
