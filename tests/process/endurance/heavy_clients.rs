//! Clients that send as much as they can: memory stays within its budget, and other clients are served.

use super::*;
use crate::https::rig::{Connector, self_signed_certificate};

const CLIENTS: usize = 1_000;
const BODY_BYTES: usize = 1 << 20;
const SENT_BYTES: usize = 16 << 10;
const BUDGET_BYTES: usize = 8 << 20;
/// The memory that a connection may use beside its body.
const CONNECTION_KIB: u64 = 8;
/// The memory that the allocator may keep, and that tables of connections may use.
const SLACK_KIB: u64 = 8 * 1024;

#[test]
fn memory_stays_within_the_budget_when_a_thousand_bodies_are_announced() {
    raise_descriptors();
    let mut gateway = Gateway::serve().arguments(["--max-buffered", &BUDGET_BYTES.to_string()]).start();
    let body = format!(r#"{{"topic":"t","payload":{{"pad":"{}"}}}}"#, "x".repeat(BODY_BYTES - 50));
    let request = gateway.request(&body);
    let before = resident_kib(gateway.id());
    for request in [request.clone(), request.clone().chunked(BODY_BYTES - 64)] {
        let part = &request.bytes()[..request.head().len() + SENT_BYTES];
        let refused_before = gateway.refusals();
        let accepted_before = gateway.stats()["connections_accepted"].as_u64().unwrap() as usize;
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::connect(gateway.address())).collect();
        clients.iter_mut().for_each(|client| client.send(part));
        // Each body fits into the budget or is refused.
        let fitting = BUDGET_BYTES.div_ceil(SENT_BYTES) as u64;
        let refused = refused_before + CLIENTS as u64 - fitting;
        wait_until("the refusals", || gateway.refusals() >= refused);
        let resident = resident_kib(gateway.id());
        let most = before + (BUDGET_BYTES as u64 >> 10) + CLIENTS as u64 * CONNECTION_KIB + SLACK_KIB;
        assert!(resident <= most, "{resident} KiB, {most} at most, and {before} before");
        // A connection that waits in the backlog until now would announce its body only after the others have closed.
        gateway.wait_count("connections_accepted", accepted_before + CLIENTS);
        drop(clients);
        gateway.wait_count("connections", 0);
        // The whole budget is free again.
        gateway.post(&body).assert_accepted();
    }
}

/// Lets each of these clients send a large request and the first byte of another one, which comes in the read or in the
/// record that brings the end of the large one. Fails if a client that is answered costs more than this memory.
fn assert_cost_little<S: Read + Write>(
    gateway: &Gateway,
    connect: impl Fn() -> Client<S>,
    requests: &[(Request, u16)],
    (clients, connection_kib, slack_kib): (usize, u64, u64),
) {
    let before = resident_kib(gateway.id());
    let mut open = Vec::new();
    for (request, status) in requests {
        let bytes = [request.bytes().as_slice(), b"P"].concat();
        let (first, rest) = bytes.split_at(10);
        for _ in 0..clients / requests.len() {
            let mut client = connect();
            // The answer says that the beginning of the large request was read too.
            client.send([gateway.request(FINE).bytes().as_slice(), first].concat());
            client.response().assert_accepted();
            client.send(rest);
            assert_eq!(client.response().status, *status);
            open.push(client);
        }
    }
    // What was accepted may wait for the bus for a moment.
    let most_kib = before + clients as u64 * connection_kib + slack_kib;
    wait_until(&format!("at most {most_kib} KiB"), || resident_kib(gateway.id()) <= most_kib);
}

#[test]
fn the_first_byte_of_the_next_request_does_not_keep_the_memory_of_a_body() {
    raise_descriptors();
    let request = |gateway: &Gateway, bytes| {
        gateway.request(Message::new("t", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(bytes))).body())
    };
    let gateway = Gateway::serve().start();
    let right = request(&gateway, 60_000);
    let requests = [(right.clone(), 200), (right.clone().target("/elsewhere"), 404), (right.chunked(7_000), 200)];
    assert_cost_little(&gateway, || gateway.client(), &requests, (CLIENTS, CONNECTION_KIB, SLACK_KIB));

    let gateway = Gateway::serve().https().start();
    let connector = Connector::trusting_file(&self_signed_certificate(&gateway));
    let right = request(&gateway, BODY_BYTES - 100);
    let requests = [(right.clone(), 200), (right.chunked(BODY_BYTES / 3), 200)];
    // Each connection has a TLS session, and the buffers of all of them take more.
    assert_cost_little(&gateway, || connector.client(gateway.address()), &requests, (200, 32, 32 * 1024));
}

#[test]
fn small_messages_pass_while_announced_bodies_fill_the_buffers() {
    let mut gateway = Gateway::serve().arguments(["--max-buffered", &BUDGET_BYTES.to_string()]).start();
    let large = gateway.request("x".repeat(BODY_BYTES));
    let announced = [large.head().as_slice(), b"{"].concat();
    let mut clients = [(); BUDGET_BYTES / BODY_BYTES + 1].map(|()| Client::connect(gateway.address()));
    clients.iter_mut().for_each(|client| client.send(&announced));
    wait_until("the refusal", || gateway.refusals() == 1);
    let small = gateway.request(FINE);
    for request in [small.clone(), small.clone().chunked(10)] {
        gateway.client().exchange(&request).assert_accepted();
    }
    // Many clients send the head and the body apart.
    let mut client = gateway.client();
    client.send(small.head());
    client.send(small.body());
    client.response().assert_accepted();
}

#[test]
fn a_pipeline_without_an_end_does_not_delay_other_clients_for_ever() {
    let gateway = Gateway::serve().start();
    // Each request is refused by its head, so that neither the queue nor the subscriber limits the rate.
    let requests = gateway.request("").target("/elsewhere").bytes().repeat(2_000);
    let _sending = [(); 2].map(|()| {
        let mut sender = Client::connect(gateway.address());
        let mut reader = sender.stream().try_clone().unwrap();
        let requests = requests.clone();
        // A thread of its own reads the answers, so that only the gateway can delay the requests.
        let reading = Task::start(move |_over| while reader.read(&mut [0; 1 << 16]).is_ok_and(|bytes| bytes > 0) {});
        Task::start(move |over| {
            while !is_over(over) && sender.try_send(&requests) {}
            let _ = sender.stream().shutdown(Shutdown::Both);
            reading.join();
        })
    });
    let mut client = gateway.client();
    (0..50).for_each(|_| client.exchange(&gateway.request(FINE)).assert_accepted());
}
