//! More clients than connections are allowed: those that wait for nothing give way, and those in a request are served.

use super::*;

const NO_ANSWER_TIMEOUT: Duration = Duration::from_millis(300);

/// Connects a client and sends a request, whether the gateway accepts the connection or not.
fn connect_and_request(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway.address());
    assert!(client.try_send(gateway.request(FINE).bytes()));
    client
}

/// Waits up to `timeout` for an answer. Returns whether it came.
fn is_answered(client: &mut Client, timeout: Duration) -> bool {
    let mut answer = [0; 12];
    let bytes = client.read(&mut answer, timeout).expect("the connection stays open");
    assert!(bytes == 0 || &answer == b"HTTP/1.1 200");
    bytes > 0
}

fn assert_none_answered<'c>(clients: impl IntoIterator<Item = &'c mut Client>) {
    thread::sleep(NO_ANSWER_TIMEOUT);
    assert!(!clients.into_iter().any(|client| is_answered(client, Duration::from_millis(1))));
}

fn wait_answered(client: &mut Client) {
    wait_until("an answer", || is_answered(client, NO_ANSWER_TIMEOUT));
}

/// Returns a client in a request: the gateway has its head, and waits for its body.
fn client_in_request(gateway: &Gateway) -> Client {
    let mut client = gateway.client();
    client.begin(&gateway.request(FINE));
    client
}

fn finish(client: &mut Client) {
    client.send(FINE);
    client.response().assert_accepted();
}

fn gave_way(gateway: &mut Gateway) -> u64 {
    gateway.stats()["closed"]["gave-way"].as_u64().unwrap_or(0)
}

#[test]
fn with_max_connections_5_the_sixth_client_waits_until_another_has_its_answer_or_leaves() {
    let mut gateway = Gateway::serve().arguments(["--max-connections", "5"]).start();
    let mut connected: Vec<_> = (0..5).map(|_| client_in_request(&gateway)).collect();
    let (mut sixth, mut seventh) = (connect_and_request(&gateway), connect_and_request(&gateway));
    assert_none_answered([&mut sixth, &mut seventh]);
    assert_idle(&gateway, "while two clients wait");
    connected.pop();
    wait_answered(&mut sixth);
    // It is idle now, and the only one.
    wait_answered(&mut seventh);
    // Clients that leave while they wait take no place.
    (0..20).for_each(|_| connect_and_request(&gateway).reset());
    finish(&mut connected[0]);
    let mut last = connect_and_request(&gateway);
    wait_answered(&mut last);
    connected[1..].iter_mut().for_each(finish);
    drop((last, connected, sixth, seventh));
    gateway.wait_count("connections", 0);
}

#[test]
fn idle_clients_give_way_first_and_then_those_without_a_request_and_none_in_a_request() {
    for scheme in [Gateway::serve(), Gateway::serve().io("epoll", "epoll")] {
        let mut gateway = scheme.arguments(["--max-connections", "3"]).start();
        let mut silent = gateway.client();
        let [mut first, mut second] = [gateway.served_client(), gateway.served_client()];
        first.exchange(&gateway.request(FINE)).assert_accepted();
        let mut in_request = vec![client_in_request(&gateway)];
        // It was idle for longer than the first, and the silent one was connected before both.
        second.expect_close();
        in_request.push(client_in_request(&gateway));
        first.expect_close();
        in_request.push(client_in_request(&gateway));
        silent.expect_close();
        let mut last = connect_and_request(&gateway);
        assert_none_answered([&mut last]);
        assert_eq!(gave_way(&mut gateway), 3);
        gateway.wait_log(": there are as many as --max-connections or the limit of open files allows");
        in_request.iter_mut().for_each(finish);
        wait_answered(&mut last);
    }
}

/// As clients do that think for some time between two requests, and connect again where their connection is closed.
#[test]
fn more_clients_than_places_are_all_served_while_silent_ones_connect() {
    const PLACES: &str = "20";
    const CLIENTS: usize = 24;
    const REQUESTS: usize = 10;
    let mut gateway = Gateway::serve().arguments(["--max-connections", PLACES]).start();
    let mut in_request = client_in_request(&gateway);
    let (address, request) = (gateway.address(), gateway.request(FINE));
    let silent = Task::start(move |over| {
        let mut silent = Vec::new();
        while !is_over(over) {
            silent.push(Client::connect(address));
            thread::sleep(Duration::from_millis(100));
        }
    });
    side_by_side(0..CLIENTS, |number| {
        let mut client = Client::connect(address);
        for _ in 0..REQUESTS {
            thread::sleep(Duration::from_millis(150 + 5 * number as u64));
            eventually("an answer", || {
                if client.try_send(request.bytes())
                    && let Ok(answer) = client.try_response()
                {
                    answer.assert_accepted();
                    return Some(());
                }
                client = Client::connect(address);
                None
            });
        }
    });
    drop(silent);
    finish(&mut in_request);
    assert!(gave_way(&mut gateway) > 0);
    let stderr = gateway.stop().stderr;
    let count = stderr.lines().filter(|line| line.contains(" gave way to ")).count();
    assert!((1..=3).contains(&count), "there must be one line, and then one a minute: {stderr}");
}

#[test]
fn connections_are_limited_below_the_limit_of_descriptors() {
    // Each further worker has descriptors of its own, which no connection can use.
    for (workers, limit) in [("1", 88), ("9", 32)] {
        let mut gateway = Gateway::serve().after("ulimit -n 160").arguments(["--workers", workers]).start();
        let mut connected: Vec<_> = (0..limit).map(|_| client_in_request(&gateway)).collect();
        let mut others: Vec<_> = (0..16).map(|_| connect_and_request(&gateway)).collect();
        assert_none_answered(&mut others);
        assert_idle(&gateway, "while other clients wait");
        connected.iter_mut().for_each(finish);
        others.iter_mut().for_each(wait_answered);
        let expected = format!("at most {limit} connections, since the limit of descriptors is 160");
        gateway.stop().stderr.has(expected).lacks("cannot accept");
    }
}

/// Nobody can foresee that the limit of descriptors is lowered later, or that the system has none left.
#[test]
fn without_free_descriptors_idle_clients_give_way_and_if_there_are_none_the_gateway_pauses_and_says_so_once() {
    let mut gateway = Gateway::serve().start();
    let (mut connected, former_limit) = take_all_descriptors(&gateway);
    let mut others: Vec<_> = (0..connected.len()).map(|_| client_in_request(&gateway)).collect();
    connected.iter_mut().for_each(Client::expect_close);
    assert_eq!(gave_way(&mut gateway), connected.len() as u64);
    let mut waiting: Vec<_> = (0..5).map(|_| connect_and_request(&gateway)).collect();
    assert_none_answered(&mut waiting);
    assert_idle(&gateway, "while no descriptor is free");
    others.iter_mut().for_each(finish);
    waiting.iter_mut().for_each(wait_answered);
    limit_descriptors(gateway.id(), former_limit);
    let stderr = gateway.stop().stderr;
    let count = stderr.lines().filter(|line| line.contains("cannot accept connections for now")).count();
    assert!((1..=2).contains(&count), "there must be one line for each shortage: {stderr}");
}
