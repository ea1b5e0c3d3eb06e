//! The option `--encoding`, the bytes of messages that wait, and the endpoints that are dialled: their keep-alive,
//! and the reasons why one is not connected, as the event `bus` and the log tell them.

use crate::support::*;

#[test]
fn a_payload_is_published_in_msgpack_without_loss_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, endpoint) = bound_socket(zmq::SUB, &ipc_endpoint(&directory));
    let receiving = thread::spawn(move || socket.recv_multipart(0).unwrap());
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
        let filling = ["a", "b", "c", "d", "e"][number % 5].repeat(40_000 + 1_000 * (number % 30));
        Message::new("t", &format!(r#"{{"n":{number},"filling":"{filling}"}}"#))
    };
    let mut client = gateway.client();
    (0..60).for_each(|number| client.exchange(&gateway.request(message(number).body())).assert_accepted());
    (0..60).for_each(|number| assert!(subscriber.next() == message(number), "{number}"));
}

/// How long after the start the reason is reported: a second, and the probe takes another part of a second.
const REPORTED_WITHIN: Duration = Duration::from_secs(3);

/// Listens where each client gets `answer`, and nothing more happens. Returns the endpoint.
fn stranger_at(address: SocketAddr, answer: &'static [u8]) -> String {
    let listener = eventually("the port is free", || TcpListener::bind(address).ok());
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let answered = |stream: io::Result<TcpStream>| {
        let mut stream = stream.unwrap();
        // A client that leaves at once is no error.
        let _ = stream.write_all(answer);
        stream
    };
    thread::spawn(move || listener.incoming().map(answered).collect::<Vec<_>>());
    endpoint
}

/// The unit tests of `bus::link` have what else may answer.
#[test]
fn a_parent_learns_why_each_endpoint_is_not_connected_and_another_one_is_served() {
    let (_wrong_side, of_wrong_side) = bound_socket(zmq::XPUB, "tcp://127.0.0.1:*");
    let of_zap = [&handshake("XSUB")[0][..], b"\x04\x0a\x05ERROR\x03400"].concat().leak();
    let reasons = [
        (dead_endpoint(), "refused"),
        (ipc_endpoint(&tempfile::tempdir().unwrap()), "refused"),
        (stranger_at(ANY_PORT, b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak ZMTP 3"),
        (stranger_at(ANY_PORT, b""), "no answer"),
        (stranger_at(ANY_PORT, of_zap), "refuses the connection"),
        (of_wrong_side, "subscribers' side"),
    ];
    let subscriber = Subscriber::bound();
    let (lateness, started) = (Lateness::watch(), Instant::now());
    let builder = reasons.iter().fold(Gateway::serve(), |builder, (endpoint, _)| builder.connect(endpoint));
    let mut gateway = builder.connect(subscriber.endpoint()).start();
    // A machine that is slow takes long for the start too.
    let start = started.elapsed();
    for (endpoint, reason) in &reasons {
        let told = gateway.wait_disconnected(endpoint, reason)["reason"].as_str().unwrap().to_owned();
        if *reason == "refused" {
            gateway.wait_log(&format!("{endpoint}: {told}; start the adapter, or run a hub here with `--hub`\n"));
        }
    }
    lateness.assert_took(started.elapsed(), REPORTED_WITHIN + 10 * start);
    gateway.wait_connected();
    gateway.wait_subscribed(subscriber.endpoint());
    gateway.post(Message::new("t", "{}").body()).assert_accepted();
    assert_eq!(subscriber.next(), Message::new("t", "{}"));
    gateway.terminate();
}

#[test]
fn a_reason_that_changes_is_told_again_and_the_connection_too_which_is_watched_by_keep_alive() {
    let address = free_address();
    let endpoint = format!("tcp://{address}");
    let mut gateway = Gateway::serve().connect(&endpoint).start();
    gateway.wait_disconnected(&endpoint, "refused");
    let hub = bound_socket(zmq::SUB, &endpoint);
    gateway.wait_connected();
    gateway.wait_log(&format!("connected to {endpoint}"));
    // A libzmq that was built without TCP keep-alive accepts its options without an error, so the kernel is asked.
    wait_until("the connection has a keep-alive timer", || {
        tcp_sockets().iter().any(|socket| socket.peer == address && socket.has_keep_alive_timer)
    });
    drop(hub);
    gateway.wait_disconnected(&endpoint, "closed");
    gateway.wait_disconnected(&endpoint, "refused");
    stranger_at(address, b"SSH-2.0-stranger\r\n");
    gateway.wait_disconnected(&endpoint, "ZMTP");
}
