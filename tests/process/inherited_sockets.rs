//! `--listen fd:N`: others feel nothing of a gateway on their listening socket. Another gateway replaces it there under
//! load: no client sees a failure, and every message that was answered with 200 is published once, to each hub.

use std::net::UdpSocket;

use rustix::net::sockopt::socket_acceptconn;

use crate::support::*;

/// How often to start a gateway until one has its hubs connected within a second.
const ATTEMPTS: usize = 5;
const CLIENTS: usize = 3;

/// Posts until an answer says that the connection closes. The event of the stop comes a moment before the stop.
fn post_until_closed(client: &mut Client<Socket>, gateway: &Gateway) {
    loop {
        let response = client.exchange(&gateway.request(FINE));
        response.assert_accepted();
        if response.closes() {
            break;
        }
    }
    client.expect_close();
}

/// Clients that had connected before the gateway was there are the first that it serves, with several workers too.
#[test]
fn an_inherited_socket_is_served_and_named() {
    for shared in Shared::both() {
        let mut early: Vec<_> = (0..20).map(|_| shared.connect()).collect();
        let bus = Subscriber::bound();
        let builder = Gateway::serve().inherit(&shared.listener).connect(bus.endpoint());
        let mut gateway = builder.arguments(["--workers", "3"]).spawn();
        let event = gateway.wait_listening();
        gateway.wait_subscribed(bus.endpoint());
        let (at, by_tcp) = (shared.address(), |at: SocketAddr| format!("http://{at}/api/message"));
        let url = at.as_socket().map_or(UNIX_URL.to_owned(), by_tcp);
        let path = at.as_pathname().and_then(Path::to_str);
        assert_eq!((event["url"].as_str(), event["socket"].as_str()), (Some(url.as_str()), path), "{event}");
        for round in 0..2 {
            for (number, client) in early.iter_mut().enumerate() {
                let message = Message::new("t", &format!(r#"{{"round":{round},"number":{number}}}"#));
                let response = client.exchange(&gateway.request(message.body()));
                response.assert_accepted();
                assert!(!response.closes(), "{response:?}");
                assert_eq!(bus.next(), message);
            }
        }
        drop(early);
        let is_tcp = shared.address().is_ipv4();
        let empty_host = gateway.request(FINE).without("Host").field("Host", "");
        assert_eq!(shared.connect().exchange(&empty_host).status, if is_tcp { 400 } else { 200 });
        assert_eq!(gateway.terminate(), if is_tcp { 40 } else { 41 });
    }
}

#[test]
fn a_socket_of_tcp_speaks_https_and_one_of_unix_http() {
    let shared = Shared::tcp();
    let mut gateway = Gateway::serve().https().inherit(&shared.listener).spawn();
    assert!(gateway.wait_event("listening")["url"].as_str().unwrap().starts_with("https://127.0.0.1:"));
    let mut client = shared.connect();
    client.send(gateway.request(FINE).bytes());
    assert_eq!(client.response().status, 400, "plain http at the https port");
    drop(client);
    gateway.terminate();

    let shared = Shared::unix();
    let mut gateway = Gateway::serve().https().inherit(&shared.listener).start();
    shared.connect().exchange(&gateway.request(FINE)).assert_accepted();
    gateway.terminate();
}

#[test]
fn what_is_no_listening_stream_socket_is_4_with_the_reason_and_one_given_twice_is_2() {
    let shared = Shared::tcp();
    let mut twice = Gateway::serve().inherit(&shared.listener).inherit(&shared.listener).spawn();
    assert!(twice.finish(2).stderr.contains("--listen fd:3 is given twice"));
    let file = tempfile::tempfile().unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (connected, _peer) = UnixStream::pair().unwrap();
    for (builder, reason) in [
        (Gateway::serve().inherit(&file), "it is not a socket"),
        (Gateway::serve().inherit(&datagrams), "it is not a listening stream socket"),
        (Gateway::serve().inherit(&connected), "it is not a listening stream socket"),
        (Gateway::serve().inherit(&file).after("exec 3<&-"), "the parent passed no such descriptor"),
    ] {
        builder.fail(4).has(format!("cannot listen on fd:3: {reason}"));
    }
}

/// The socket does not block from then on, and goes on listening. What waits in its backlog is for others.
#[test]
fn others_feel_nothing_else_of_the_gateway() {
    for is_blocking in [true, false] {
        for shared in Shared::both() {
            if !is_blocking {
                shared.listener.set_nonblocking(true).unwrap();
            }
            let expected = shared.flags() | OFlags::NONBLOCK;
            for _ in 0..2 {
                let mut gateway = Gateway::serve().inherit(&shared.listener).start();
                shared.connect().exchange(&gateway.request(FINE)).assert_accepted();
                gateway.terminate();
                assert!(socket_acceptconn(&shared.listener).unwrap());
                assert_eq!(shared.flags(), expected);
            }
            let mut later = shared.connect();
            later.send("for whoever accepts next");
            if shared.address().is_unix() {
                continue;
            }
            let mut received = [0; 24];
            accept_connection(&shared.listener.try_clone().unwrap().into()).read_exact(&mut received).unwrap();
            assert_eq!(&received, b"for whoever accepts next");
        }
    }
}

#[test]
fn what_connects_while_the_settings_disable_the_gateway_is_closed_unanswered() {
    side_by_side(Shared::both(), |shared| {
        let mut gateway = Gateway::serve().no_settings().inherit(&shared.listener).start_disabled();
        for _ in 0..2 {
            for with_request in [true, false] {
                let mut client = shared.connect();
                if with_request {
                    client.send(gateway.request(FINE).bytes());
                }
                let error = client.try_response().expect_err("a close, and no answer");
                let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
                assert!(closed.contains(&error.kind()), "not a close: {error}");
            }
            gateway.enable("of-the-test");
            let mut idle = shared.connect();
            idle.exchange(&gateway.request(FINE)).assert_accepted();
            gateway.settings.write("");
            gateway.wait_event("disabled");
            idle.expect_close();
        }
        assert_eq!(gateway.terminate(), 2);
    });
}

#[test]
fn a_socket_that_another_process_has_shut_down_ends_the_readiness() {
    for shared in Shared::both() {
        let mut gateway = Gateway::serve().inherit(&shared.listener).start_ready();
        shared.listener.shutdown(Shutdown::Both).unwrap();
        let event = gateway.wait_event("not-ready");
        event["reason"].as_str().unwrap().begins("another process has shut down fd:");
        gateway.disable();
        gateway.terminate();
    }
}

/// The clients had connected before the gateway was asked to stop. The gateway may not have accepted some of them yet.
#[test]
fn clients_that_have_connected_are_answered_while_the_gateway_stops() {
    for shared in Shared::both() {
        let mut gateway = Gateway::serve().inherit(&shared.listener).arguments(LONG_DRAIN).start();
        let mut fresh: Vec<_> = (0..20).map(|_| shared.connect()).collect();
        let mut kept: Vec<_> = (0..20).map(|_| shared.connect()).collect();
        gateway.serve_each(&mut kept);
        // Those that connected before the last ones of these were accepted before them.
        gateway.signal(Signal::TERM);
        gateway.wait_event("not-ready");
        for client in kept.iter_mut().chain(&mut fresh) {
            post_until_closed(client, &gateway);
        }
        drop((fresh, kept));
        assert!(gateway.expect_stopped() >= 60);
    }
}

/// They hold the stop up for a tenth of the drain time, which is 25 s here.
#[test]
fn clients_that_are_idle_do_not_hold_up_the_stop() {
    side_by_side(Shared::both(), |shared| {
        let builder = Gateway::serve().inherit(&shared.listener).arguments(["--drain-timeout", "25"]);
        let mut gateway = builder.start();
        let mut idle = shared.connect();
        idle.exchange(&gateway.request(FINE)).assert_accepted();
        let (lateness, since) = (Lateness::watch(), Instant::now());
        gateway.signal(Signal::TERM);
        idle.expect_close();
        gateway.expect_stopped();
        lateness.assert_took(since.elapsed(), Duration::from_secs(20));
    });
}

/// A stop at the limit does not wait for those that were not accepted.
#[test]
fn connections_are_limited() {
    for shared in Shared::both() {
        let limits = ["--max-connections", "1", LONG_DRAIN[0], LONG_DRAIN[1]];
        let mut gateway = Gateway::serve().inherit(&shared.listener).arguments(limits).start();
        let mut last = shared.connect();
        last.exchange(&gateway.request(FINE)).assert_accepted();
        last.begin(&gateway.request(FINE));
        // The one that was accepted and waits is served when the last one has ended; the other one is nobody's yet.
        let waiting = [(); 2].map(|()| shared.connect());
        assert_eq!(gateway.stats()["connections"], 1);
        gateway.signal(Signal::TERM);
        gateway.wait_event("not-ready");
        last.send(FINE);
        let answer = last.response();
        answer.assert_accepted();
        if !answer.closes() {
            post_until_closed(&mut last, &gateway);
        }
        drop((last, waiting));
        assert!(gateway.expect_stopped() >= 2);
    }
}

fn start(shared: &Shared, bus: &Subscriber) -> Gateway {
    let builder = Gateway::serve().inherit(&shared.listener).connect(bus.endpoint());
    builder.arguments(LONG_DRAIN).start_ready()
}

#[test]
fn twenty_replacements_under_load_fail_no_request() {
    for shared in Shared::both().map(Arc::new) {
        let bus = Subscriber::bound();
        let mut gateway = start(&shared, &bus);
        // Some clients keep their connection as long as it lasts, and the others have one for each request.
        let per_connection = |client| if client < CLIENTS { usize::MAX } else { 1 };
        let shape = Shape { clients: 2 * CLIENTS, padding: 0, pipeline: 1, per_connection };
        let connecting = Arc::clone(&shared);
        let load = Load::by(Box::new(move || Ok(connecting.connect())), gateway.target(), shape);
        for _ in 0..20 {
            load.wait_for(200, "200s", Instant::now(), accepted);
            let next = start(&shared, &bus);
            gateway.signal(Signal::TERM);
            std::mem::replace(&mut gateway, next).expect_stopped();
        }
        let answers = load.finish();
        gateway.terminate();

        let received: Vec<Message> = (0..answers.len()).map(|_| bus.next()).collect();
        assert_eq!(bus.next_within(POLL_INTERVAL), None, "more was published");
        let report = DeliveryReport::in_any_order(&answers, &received);
        report.assert_nothing_lost();
        assert!(report.refused.is_empty(), "a request failed: {report}");
    }
}

#[test]
fn no_hub_misses_what_a_new_gateway_accepts() {
    for shared in Shared::both() {
        let (soon, late) = (Subscriber::bound(), Subscriber::bound_by_name());
        for attempt in 0..ATTEMPTS {
            let message = Message::new("load", &format!(r#"{{"attempt":{attempt}}}"#));
            let mut client = shared.connect();
            let started = Instant::now();
            let builder = Gateway::serve().inherit(&shared.listener).connect(soon.endpoint());
            let mut gateway = builder.connect(late.endpoint()).start();
            client.exchange(&gateway.request(message.body())).assert_accepted();
            // After a second, the gateway waits for no hub. A slow machine may need longer.
            let waited_for_hubs = started.elapsed() < Duration::from_secs(1);
            assert_eq!(soon.next(), message);
            if waited_for_hubs {
                while late.next() != message {}
                break;
            }
            gateway.terminate();
        }
    }
}
