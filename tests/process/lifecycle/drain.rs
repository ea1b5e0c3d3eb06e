//! The stop: every request in flight gets an answer. `delivery::stopping` has what becomes of the messages.

use super::*;

#[test]
fn a_request_in_flight_is_answered_and_then_its_connection_is_closed() {
    let (_directory, path) = temporary_path("gateway");
    let (by_tcp, by_path) = (free_address(), Gateway::serve().listen_at(&path));
    let places = [(SockAddr::from(by_tcp), Gateway::serve().listen(by_tcp)), (SockAddr::unix(&path).unwrap(), by_path)];
    for (place, builder) in places {
        let Fixture { mut gateway, subscriber: bus } = Fixture::of(builder);
        let [mut idle, mut slow] = [(); 2].map(|()| Client::over(connect(&place).unwrap()));
        idle.exchange(&gateway.request(FINE)).assert_accepted();
        bus.next();
        let late = Message::new("late", r#"{"in":"time"}"#);
        let request = gateway.request(late.body());
        slow.begin(&request);
        slow.send(&request.body()[..10]);
        gateway.signal(Signal::TERM);
        idle.expect_close();
        let refused = connect(&place).expect_err("the drain has begun").kind();
        assert!(matches!(refused, ErrorKind::ConnectionRefused | ErrorKind::NotFound), "{refused}");
        slow.send(&request.body()[10..]);
        slow.expect_last(200);
        assert_eq!(bus.next(), late);
        assert_eq!(gateway.expect_stopped(), 2);
    }
}

/// It does not matter whether the gateway had read that byte before the signal: here it finds both when it continues.
#[test]
fn a_request_whose_first_byte_came_before_the_signal_is_answered() {
    let mut gateway = Gateway::serve().start();
    let request = gateway.request(FINE);
    let mut clients: Vec<_> = (0..50).map(|_| gateway.client()).collect();
    clients.iter_mut().for_each(|client| client.exchange(&request).assert_accepted());
    let mut idle = clients.pop().unwrap();
    let bytes = request.bytes();
    let cut = |number| bytes.split_at(1 + number % (bytes.len() - 1));
    let (begun, rest): (Vec<_>, Vec<_>) = (0..clients.len()).map(cut).unzip();
    gateway.signal(Signal::STOP);
    clients.iter_mut().zip(begun).for_each(|(client, begun)| client.send(begun));
    gateway.signal(Signal::TERM);
    gateway.signal(Signal::CONT);
    idle.expect_close();
    for (mut client, rest) in clients.into_iter().zip(rest) {
        client.send(rest);
        client.expect_last(200);
    }
    gateway.expect_stopped();
}

/// Two connections in a request are all that may be open, so the requests of the others wait with their connections.
/// The first clients close when they have their answers, and the last ones keep their connections.
#[test]
fn requests_of_connections_that_were_not_accepted_are_answered_before_the_sockets_close() {
    for workers in ["1", "3"] {
        let (_directory, path) = temporary_path("gateway");
        let builder = Gateway::serve().listen(ANY_PORT).listen_at(&path);
        let few = ["--max-connections", "2", "--drain-timeout", "10", "--workers", workers];
        let mut gateway = builder.arguments(few).start();
        let request = gateway.request(FINE);
        let mut in_request = [(); 2].map(|()| gateway.client());
        in_request.iter_mut().for_each(|client| client.begin(&request));
        let mut by_tcp = [(); 12].map(|()| gateway.client());
        let mut by_path = [(); 12].map(|()| Client::connect_to(&path));
        by_tcp.iter_mut().for_each(|client| client.send(request.bytes()));
        by_path.iter_mut().for_each(|client| client.send(request.bytes()));
        gateway.signal(Signal::TERM);
        gateway.wait_event("not-ready");
        in_request.iter_mut().for_each(|client| client.send(request.body()));
        in_request.into_iter().for_each(|mut client| client.response().assert_accepted());
        by_tcp.into_iter().for_each(|mut client| client.response().assert_accepted());
        by_path.iter_mut().for_each(|client| client.response().assert_accepted());
        assert_eq!(gateway.expect_stopped(), 26);
    }
}

#[test]
fn clients_that_connect_all_the_time_do_not_hold_up_the_stop() {
    let mut gateway = Gateway::serve().arguments(["--drain-timeout", "600"]).start();
    let shape = Shape { clients: 40, padding: 0, pipeline: 1, per_connection: |_| 1 };
    let address = gateway.address();
    let load = Load::by(Box::new(move || Client::try_connect(address)), gateway.target(), shape);
    load.wait_for(400, "200s", Instant::now(), accepted);
    let published = gateway.terminate();
    let answers = load.finish();
    let count = |wanted| answers.iter().filter(|it| it.outcome == wanted).count();
    assert_eq!(count(Outcome::Accepted) as u64, published);
    println!("a stop under new connections: {published} answered, {} not", count(Outcome::Unknown));
}

/// It learns that nothing was published.
#[test]
fn a_request_that_is_not_whole_at_the_end_of_the_drain_is_refused() {
    let mut gateway = Gateway::serve().arguments(["--drain-timeout", "1"]).start();
    let request = gateway.request(FINE);
    let [mut in_head, mut in_body] = [gateway.client(), gateway.client()];
    in_head.send(&request.head()[..20]);
    in_body.begin(&request);
    gateway.signal(Signal::TERM);
    for client in [&mut in_head, &mut in_body] {
        assert_eq!(client.expect_last(503).kind, "stopping");
    }
    assert_eq!(gateway.expect_stopped(), 0);
}

/// The process is stopped until after connections are cut off, and what comes meanwhile is there when it goes on.
#[test]
fn what_comes_around_the_cut_off_is_published_only_if_it_is_answered() {
    let mut gateway = Gateway::serve().listen(free_address()).arguments(["--drain-timeout", "2"]).start();
    let request = gateway.request(FINE).bytes();
    let (begun, rest) = request.split_at(request.len() - 10);
    let mut clients: Vec<_> = (0..50).map(|_| gateway.client()).collect();
    clients.iter_mut().for_each(|client| client.exchange(&gateway.request(FINE)).assert_accepted());
    gateway.signal(Signal::STOP);
    clients.iter_mut().for_each(|client| client.send(begun));
    gateway.signal(Signal::TERM);
    gateway.signal(Signal::CONT);
    gateway.wait_event("not-ready");
    gateway.signal(Signal::STOP);
    clients.iter_mut().for_each(|client| client.send(rest));
    thread::sleep(Duration::from_secs(2));
    gateway.signal(Signal::CONT);
    // Who was not read before the cut-off gets no answer.
    let answers = clients.into_iter().filter_map(|mut client| client.try_response().ok());
    let statuses: Vec<_> = answers.map(|answer| answer.status).collect();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
    let accepted = statuses.iter().filter(|status| **status == 200).count() as u64;
    assert_eq!(gateway.expect_stopped(), 50 + accepted);
}
