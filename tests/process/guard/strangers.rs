//! What is not ZMTP 3 becomes neither a message nor a subscription.

use super::*;

const PORTS: [(Side, Transport); 4] = [
    (Side::Bind, Transport::Tcp),
    (Side::Bind, Transport::Ipc),
    (Side::Hub, Transport::Tcp),
    (Side::Hub, Transport::Ipc),
];

/// A message in the frames of ZMTP 1.0: a length that counts the flags, the flags, the content.
fn v1_message(topic: &str, payload: &str) -> Vec<u8> {
    let part = |flags: u8, body: &str| [&[u8::try_from(body.len() + 1).unwrap(), flags], body.as_bytes()].concat();
    [part(1, topic), part(0, payload)].concat()
}

/// The body of a request that is a message, wherever a reader of ZMTP 1.0 begins in the first 400 bytes: each pair of
/// them is an empty frame of a longer message. Behind them, both ways to divide the bytes into pairs meet.
fn body_with_message(topic: &str, payload: &str) -> Vec<u8> {
    [&[1; 400][..], b"\x02\x01\x01\x01\x00", &v1_message(topic, payload)].concat()
}

fn http(method: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} / HTTP/1.1\r\nHost: 127.0.0.1:16130\r\nOrigin: http://example.org\r\nAccept: */*\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// What peers send that speak something else, with a message in it or a subscription to everything.
fn strangers() -> Vec<(&'static str, Vec<u8>)> {
    let v2 = |kind: u8, rest: &[u8]| [&b"\xff\0\0\0\0\0\0\0\x01\x7f\x01"[..], &[kind, 0, 0], rest].concat();
    let v1 = v1_message("stranger", "{}");
    vec![
        ("GET", http("GET", b"")),
        ("POST", http("POST", &body_with_message("stranger", "{}"))),
        ("ZMTP 1.0 publisher", [b"\x01\x00", &v1[..]].concat()),
        ("ZMTP 1.0 publisher, long identity", [b"\xff\0\0\0\0\0\0\0\x01\x00", &v1[..]].concat()),
        ("ZMTP 1.0 subscriber", b"\x01\x00\x02\x00\x01".to_vec()),
        ("ZMTP 2.0 publisher", v2(1, b"\x01\x08stranger\x00\x02{}")),
        ("ZMTP 2.0 subscriber", v2(2, b"\x00\x01\x01")),
        ("ZMTP 3 with another mechanism", [b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x00CURVE", &[0; 200][..]].concat()),
        ("TLS", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", &[7; 600][..]].concat()),
        ("noise", (0..2_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
    ]
}

#[test]
fn strangers_get_nothing_from_a_port_of_the_bus() {
    side_by_side(PORTS, |(side, transport)| {
        let mut rig = Rig::heard_by_all(side, transport);
        for endpoint in rig.endpoints() {
            for (what, bytes) in strangers() {
                println!("{what} at {endpoint}");
                let mut peer = RawPeer::connect(&endpoint);
                peer.send(&bytes);
                // One that stayed might be a subscriber to everything, as in ZMTP 1.0.
                let answer = peer.read_to_end();
                assert!(answer.len() <= 64, "more than a greeting: {answer:?}");
                rig.assert_served();
            }
        }
        for endpoint in rig.endpoints() {
            let line = format!("at {endpoint}, which does not speak ZMTP 3");
            rig.gateway.wait_log(&line).has_times(1, &line);
        }
        rig.assert_unharmed("strangers");
    });
}

/// One of 256 peers cannot be found without its name.
#[test]
fn the_log_names_who_is_refused_what_it_is_and_where_it_fits() {
    side_by_side(PORTS, |(side, transport)| {
        let mut rig = Rig::open(side, transport);
        let (publishers, subscribers) = (rig.publishers.clone(), rig.subscribers.clone());
        let expect_refused = |endpoint: &str, bytes: &[u8], why: &str| {
            let mut peer = RawPeer::connect(endpoint);
            let name = peer.name();
            peer.send(bytes);
            peer.read_to_end();
            rig.gateway.wait_log(&format!("warning: the bus refuses {name}{why}"));
        };
        for (what, is) in [
            ("GET", "does not speak ZMTP 3, the protocol of ZeroMQ"),
            ("ZMTP 1.0 subscriber", "speaks ZMTP 1, and only ZMTP 3 (ZeroMQ 4) is supported"),
            ("ZMTP 2.0 subscriber", "speaks ZMTP 2, and only ZMTP 3 (ZeroMQ 4) is supported"),
            ("ZMTP 3 with another mechanism", "uses the security mechanism CURVE, and only NULL is supported"),
        ] {
            let (_, bytes) = strangers().into_iter().find(|(name, _)| *name == what).unwrap();
            expect_refused(&subscribers, &bytes, &format!(" at {subscribers}, which {is}"));
        }
        let hint = match &publishers {
            Some(publishers) => format!("publishers connect to {publishers}"),
            None => "only subscribers connect there".to_owned(),
        };
        let why = format!(": a PUB socket at the subscribers' side {subscribers}; {hint}");
        expect_refused(&subscribers, &handshake("PUB").concat(), &why);
        if let Some(publishers) = &publishers {
            let why = format!(": a SUB socket at the publishers' side {publishers}; subscribers connect to ");
            expect_refused(publishers, &handshake("SUB").concat(), &(why + &subscribers));
        }

        let mut broken = RawPeer::speaking(&subscribers, "SUB");
        broken.send_all(b"\x80\0");
        broken.read_to_end();
        let event = rig.gateway.wait_event("subscriber");
        assert_eq!((&event["peer"], &event["lost"]), (&broken.name().into(), &0.into()), "{event}");
        assert_eq!(event["reason"], "it breaks ZMTP 3, the protocol of ZeroMQ");
        rig.gateway.wait_log(&format!("the bus disconnects {} at {subscribers}, which breaks", broken.name()));
        rig.assert_unharmed("peers that do not fit");
    });
}

/// Such a socket reads our READY, and ends the connection without one of its own. A port scan does not.
#[test]
fn the_log_names_where_a_socket_of_libzmq_fits_that_leaves_the_wrong_port_and_another_mechanism() {
    side_by_side(PORTS, |(side, transport)| {
        let mut rig = Rig::open(side, transport);
        for endpoint in rig.endpoints() {
            let [greeting, _] = handshake("SUB");
            [0, 1, 11, 63].into_iter().for_each(|bytes| RawPeer::connect(&endpoint).leave_after(&greeting[..bytes]));
        }
        assert_eq!(rig.peers("refused"), 0);
        rig.gateway.log().lacks("refuses");
        let mut refused = 0;
        for endpoint in rig.endpoints() {
            let is_publishers = rig.publishers.as_ref() == Some(&endpoint);
            let wrong: &[_] =
                if is_publishers { &[zmq::SUB, zmq::PULL, zmq::DEALER] } else { &[zmq::PUB, zmq::XPUB, zmq::PUSH] };
            for &kind in wrong {
                let socket = socket(kind);
                // It does not come back.
                socket.set_reconnect_ivl(-1).unwrap();
                socket.connect(&endpoint).unwrap();
                refused += 1;
                wait_until("it is refused", || rig.peers("refused") == refused);
            }
            let (side, hint) = match &rig.publishers {
                Some(_) if is_publishers => ("publishers", format!("subscribers connect to {}", rig.subscribers)),
                Some(publishers) => ("subscribers", format!("publishers connect to {publishers}")),
                None => ("subscribers", "only subscribers connect there".to_owned()),
            };
            let left = "it has left as a socket does whose type does not fit";
            rig.gateway.wait_log(&format!(" at the {side}' side {endpoint}: {left}; {hint}\n"));
            // libzmq closes a connection at the name of another mechanism than its own, also before it has sent its own.
            let socket = zmq::Context::new().socket(if is_publishers { zmq::PUB } else { zmq::SUB }).unwrap();
            socket.set_plain_username(Some("user")).unwrap();
            socket.set_reconnect_ivl(-1).unwrap();
            socket.connect(&endpoint).unwrap();
            refused += 1;
            let line = format!(" at {endpoint}, which uses the security mechanism PLAIN, and only NULL is supported");
            rig.gateway.wait_log(&line);
        }
        rig.assert_unharmed("sockets at the wrong port");
    });
}

#[test]
fn a_page_in_chromium_reaches_nobody() {
    needs!(is_possible("chromium --version"));
    let rig = Rig::heard_by_all(Side::Hub, Transport::Tcp);
    let hub = rig.publishers().strip_prefix("tcp://").unwrap();
    let body = body_with_message("visual/extensions/command", "{}");
    // A page of another origin that posts this body to the publishers' side of the hub, and reports that it has.
    let page = format!(
        "<script>const body = new Uint8Array({body:?});\
         const post = () => fetch('http://{hub}/', {{mode: 'no-cors', method: 'POST', body}}).catch(() => 0);\
         post().then(post).then(() => fetch('/posted'));</script>"
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        for stream in listener.incoming() {
            let stream: TcpStream = stream.unwrap();
            let mut request = String::new();
            let mut reader = BufReader::new(&stream);
            while reader.read_line(&mut request).is_ok_and(|length| length > 2) {}
            let body = if request.starts_with("GET / ") { page.as_str() } else { "" };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n", body.len());
            // The browser may have gone.
            let _ = (&stream).write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes());
            if request.starts_with("GET /posted") {
                return;
            }
        }
    });
    let profile = tempfile::tempdir().unwrap();
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    browser.args(["--disable-background-networking", "--remote-debugging-port=0"]);
    browser.arg(format!("--user-data-dir={}", profile.path().display())).arg(format!("http://{address}/"));
    let browser = Process::spawn(&mut browser);
    wait_until("the page has posted", || served.is_finished());
    drop(browser);
    rig.assert_unharmed("a page");
}
