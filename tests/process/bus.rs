//! The option `--encoding`, the bytes of messages that wait, and the keep-alive of what is dialled.

use std::net::SocketAddr;

use crate::support::net::tcp_sockets;
use crate::support::*;

#[test]
fn a_payload_is_published_in_msgpack_without_loss_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, endpoint) = bound_socket(zmq::SUB, &ipc_endpoint(&directory));
    let receiving = std::thread::spawn(move || socket.recv_multipart(0).unwrap());
    let gateway = Gateway::serve().connect(&endpoint).arguments(["--encoding", "msgpack"]).start_connected();

    let problem = gateway.post(Message::new("x", r#"{"n":[1,18446744073709551616]}"#).body()).problem();
    assert_eq!((&problem["status"], &problem["pointer"]), (&422.into(), &"/payload/n/1".into()), "{problem}");

    gateway.post(Message::new("x", r#"{ "n" : [1.0, 18446744073709551615] }"#).body()).assert_accepted();
    let payload = [&b"\x81\xa1n\x92\xcb\x3f\xf0\0\0\0\0\0\0\xcf"[..], &[0xff; 8]].concat();
    assert_eq!(receiving.join().unwrap(), [b"x".to_vec(), payload]);
}

/// A body that comes whole in one read is published in the buffer of the read, which no later read may use.
#[test]
fn large_messages_that_wait_for_a_subscriber_keep_their_bytes() {
    let (_directory, endpoint) = temporary_endpoint();
    let gateway = Gateway::serve().bind(&endpoint).start();
    let subscriber = Subscriber::connected(&endpoint, "");
    subscriber.wait_until_subscribed(&gateway);
    let message = |number: usize| {
        let filling = char::from(b'a' + u8::try_from(number % 26).unwrap()).to_string();
        Message::new(
            "t",
            &format!(r#"{{"n":{number},"filling":"{}"}}"#, filling.repeat(40_000 + 1_000 * (number % 30))),
        )
    };
    let mut client = gateway.client();
    for number in 0..60 {
        client.exchange(&gateway.request(message(number).body())).assert_accepted();
    }
    for number in 0..60 {
        assert!(subscriber.next() == message(number), "{number}");
    }
}

/// A libzmq that was built without TCP keep-alive accepts its options without an error, so the kernel is asked.
#[test]
fn a_hub_that_is_dialled_is_watched_by_keep_alive() {
    let (_hub, endpoint) = bound_socket(zmq::SUB, "tcp://127.0.0.1:*");
    let _gateway = Gateway::serve().connect(&endpoint).start_connected();
    let hub: SocketAddr = endpoint.strip_prefix("tcp://").unwrap().parse().unwrap();
    eventually("the connection has a keep-alive timer", || {
        tcp_sockets().iter().any(|socket| socket.peer == hub && socket.has_keep_alive_timer).then_some(())
    });
}
