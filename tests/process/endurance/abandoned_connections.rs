//! Connections that clients abandon at any point: nothing of them is left.

use super::*;

/// Connections that are abandoned before the descriptors and the memory are looked at for the first time.
const FIRST: usize = 200;
/// Connections that are abandoned after that, one after the other.
const ABANDONED: usize = 2_000;
const NOT_READING: usize = 100;
/// The memory that the gateway may keep: tables of connections that grew, and what the allocator does not give back.
const GROWTH_KIB: u64 = 16 * 1024;

/// Abandons one connection, in one of ten ways. A client that waits for a timeout of the gateway goes into `waiting`.
fn abandon_connection(gateway: &Gateway, number: usize, waiting: &mut VecDeque<Client>) {
    let request = gateway.request(FINE);
    let (head, whole) = (request.head(), request.bytes());
    let (part_of_head, part_of_body) = (&head[..head.len() / 2], &whole[..whole.len() - 1]);
    let address = gateway.address();
    let sent = match number % 10 {
        0 | 1 => Vec::new(),
        2 | 6 => part_of_head.to_vec(),
        3 | 7 => part_of_body.to_vec(),
        4 => whole.repeat(200),
        5 => whole.repeat(20),
        8 => [whole.as_slice(), part_of_head].concat(),
        _ => [whole.as_slice(), part_of_body].concat(),
    };
    let mut client = if number % 10 == 4 { Client::with_small_window(address) } else { Client::connect(address) };
    client.send(sent);
    match number % 10 {
        // A close with unread answers also resets the connection.
        0 | 5 => drop(client),
        1..=4 => client.reset(),
        6 | 7 => {
            client.half_close();
            waiting.push_back(client);
        }
        _ => waiting.push_back(client),
    }
    if waiting.len() > 100 {
        drop(waiting.pop_front());
    }
}

#[test]
fn abandoned_connections_leave_no_descriptor_connection_or_memory() {
    raise_descriptors();
    let timeouts = ["--head-timeout", "1", "--body-timeout", "1", "--idle-timeout", "1"];
    let mut gateway = Gateway::serve().arguments(timeouts).start();
    let mut waiting = VecDeque::new();
    (0..FIRST).for_each(|number| abandon_connection(&gateway, number, &mut waiting));
    gateway.wait_count("connections_accepted", FIRST);
    gateway.wait_count("connections", 0);
    let (descriptors_before, resident_before) = (descriptors(gateway.id()), resident_kib(gateway.id()));

    let pipeline = gateway.request(FINE).bytes().repeat(500);
    let mut not_reading: Vec<_> = (0..NOT_READING).map(|_| Client::with_small_window(gateway.address())).collect();
    let (sending_all, others) = not_reading.split_at_mut(NOT_READING / 10);
    for client in sending_all {
        assert!(client.send_until_full(&pipeline) > 0);
    }
    for client in others {
        client.stream().set_nonblocking(true).unwrap();
        client.try_send(&pipeline);
    }
    (0..ABANDONED).for_each(|number| abandon_connection(&gateway, number, &mut waiting));
    // The clients that do not read or that wait are still connected: only the timeouts end these connections.
    gateway.wait_count("connections_accepted", FIRST + NOT_READING + ABANDONED);
    gateway.wait_count("connections", 0);
    wait_until("the descriptors are closed", || descriptors(gateway.id()) <= descriptors_before);
    let growth = resident_kib(gateway.id()).saturating_sub(resident_before);
    println!("{descriptors_before} descriptors before and after, {resident_before} KiB before, {growth} KiB more then");
    assert!(growth < GROWTH_KIB, "{growth} KiB more");
    drop((not_reading, waiting));
    gateway.post(FINE).assert_accepted();
    assert!(gateway.stats()["connections"].as_u64().is_some_and(|count| count <= 1));
}
