//! The texts that `docs/troubleshooting.md` shows are those that the program prints.

use super::*;
use crate::listen::listen;

/// Returns the block of the document that shows what was seen.
fn seen(name: &str) -> String {
    Document::read("docs/troubleshooting.md").block(&format!("seen: {name}")).trim_end().to_owned()
}

/// Returns whether the log has each of these lines, in any order.
fn has_lines(log: &str, lines: &str) -> bool {
    lines.lines().all(|line| log.lines().any(|logged| logged == line))
}

fn content(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.content).trim_end().to_owned()
}

#[test]
fn listen_says_what_it_is_connected_to() {
    let (_publisher, right) = bound_socket(zmq::XPUB, "tcp://127.0.0.1:*");
    let (_subscriber, wrong) = bound_socket(zmq::XSUB, "tcp://127.0.0.1:*");
    let block = seen("listen");
    let lines: Vec<&str> = block.lines().collect();
    for (line, (shown, endpoint)) in lines.iter().zip([
        ("tcp://127.0.0.1:16103,", format!("{right},")),
        ("tcp://127.0.0.1:16104", dead_endpoint()),
        ("tcp://127.0.0.1:16130", wrong),
    ]) {
        assert!(line.contains(shown), "{line}");
        let (listen, line) =
            (Process::spawn(&mut listen(endpoint.trim_end_matches(','), &[])), line.replace(shown, &endpoint));
        wait_until(&line, || has_lines(&listen.log(), &line));
    }
    assert_eq!(lines.len(), 3);
}

#[test]
fn a_misspelt_topic_and_another_encoding_are_named() {
    let (_directory, endpoint) = temporary_endpoint();
    let options = ["--check", "strict", "--encoding", "msgpack"];
    let gateway = Gateway::serve().bind(&endpoint).arguments(options).start();
    let misspelt = gateway.post(r#"{"topic": "core/extension/operate", "payload": {}}"#);
    assert_eq!(content(&misspelt), seen("strict"));

    let listen = Process::spawn(&mut listen(&endpoint, &[]));
    let hint = seen("encoding");
    let message = r#"{"topic":"core/extensions/operate","payload":{"extension_name":"demo","content":"start"}}"#;
    // The subscription follows the handshake, and the gateway does not tell when it has arrived.
    wait_until(&hint, || {
        gateway.post(message).assert_accepted();
        has_lines(&listen.log(), &hint)
    });
}

#[test]
fn a_topic_that_nobody_subscribes_to_and_the_subscriptions_are_logged() {
    let (hub, endpoint) = bound_socket(zmq::XSUB, "tcp://127.0.0.1:*");
    for prefix in ["core/exts/", "scratch/extensions/command"] {
        hub.send([b"\x01", prefix.as_bytes()].concat(), 0).unwrap();
    }
    let mut gateway = Gateway::serve().connect(&endpoint).start();
    let at = |name| seen(name).replace("tcp://127.0.0.1:16130", &endpoint);
    gateway.wait_event("ready");
    let (subscriptions, unknown) = (at("subscriptions"), at("log"));
    wait_until(&subscriptions, || {
        // A socket of libzmq sends subscriptions only when it is called.
        hub.get_events().unwrap();
        gateway.signal(Signal::USR1);
        has_lines(&gateway.log(), &subscriptions)
    });
    gateway.post(r#"{"topic": "core/extension/operate", "payload": {}}"#).assert_accepted();
    wait_until(&unknown, || has_lines(&gateway.log(), &unknown));
}

#[test]
fn http_at_the_https_port_is_answered_in_plain_text() {
    let gateway = Gateway::serve().https().start();
    assert_eq!(content(&gateway.post("{}")), seen("plain http"));
}
