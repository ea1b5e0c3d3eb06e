//! What rude clients leave behind: nothing.

use std::collections::VecDeque;

use super::{connections, wait_for_connections};
use crate::statuses::FINE;
use crate::support::crude::Crude;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::usage::{descriptors, raise_descriptors, resident_kib};

/// Rude connections, one after the other.
const RUDE: usize = 2_000;

/// Clients that wait for a deadline at any one time; those before them are let go.
const WAITING: usize = 100;

/// Clients that ask and ask and never read an answer.
const DEAF: usize = 100;

/// What the gateway may keep, in KiB: tables that grew with the crowd, the allocator's slack.
const GROWTH_KIB: u64 = 16 * 1024;

fn be_rude(gateway: &Gateway, manner: usize, waiting: &mut VecDeque<Crude>) {
    let fine = gateway.request(FINE);
    let (head, whole) = (fine.head(), fine.bytes());
    let in_head = &head[..head.len() / 2];
    let in_body = &whole[..whole.len() - 1];
    let address = gateway.address();
    match manner % 10 {
        0 => drop(Crude::connect(address)),
        1 => Crude::connect(address).reset(),
        2 | 3 => {
            let mut client = Crude::connect(address);
            client.send(if manner % 10 == 2 { in_head } else { in_body });
            client.reset();
        }
        4 => {
            let mut client = Crude::with_small_window(address);
            client.send(whole.repeat(200));
            client.reset();
        }
        5 => {
            // Closed with answers unread, which resets as well.
            let mut client = Crude::connect(address);
            client.send(whole.repeat(20));
        }
        6 | 7 => {
            let mut client = Crude::connect(address);
            client.send(if manner % 10 == 6 { in_head } else { in_body });
            client.half_close();
            waiting.push_back(client);
        }
        // A request, and one that never ends.
        8 => {
            let mut client = Crude::connect(address);
            client.send([whole.as_slice(), in_head].concat());
            waiting.push_back(client);
        }
        _ => {
            let mut client = Crude::connect(address);
            client.send([whole.as_slice(), in_body].concat());
            waiting.push_back(client);
        }
    }
    if waiting.len() > WAITING {
        drop(waiting.pop_front());
    }
}

#[test]
fn descriptors_connections_and_memory_come_back() {
    raise_descriptors();
    let deadlines = ["--head-timeout", "1", "--body-timeout", "1", "--idle-timeout", "1"];
    let mut gateway = Gateway::serve().arguments(deadlines).start();
    let mut waiting = VecDeque::new();
    for manner in 0..200 {
        be_rude(&gateway, manner, &mut waiting);
    }
    wait_for_connections(&mut gateway, 0);
    let (descriptors_before, resident_before) = (descriptors(gateway.id()), resident_kib(gateway.id()));

    let many = gateway.request(FINE).bytes().repeat(500);
    let mut deaf: Vec<_> = (0..DEAF).map(|_| Crude::with_small_window(gateway.address())).collect();
    let (deafest, others) = deaf.split_at_mut(DEAF / 10);
    for client in deafest {
        assert!(client.send_until_full(&many) > 0);
    }
    for client in others {
        client.stream().set_nonblocking(true).unwrap();
        client.send(&many);
    }
    for manner in 0..RUDE {
        be_rude(&gateway, manner, &mut waiting);
    }
    // The deaf and those that wait are still there; the deadlines alone make room.
    wait_for_connections(&mut gateway, 0);
    let left = || descriptors(gateway.id()).checked_sub(descriptors_before).filter(|&left| left > 0);
    eventually("the descriptors are back", || left().is_none().then_some(()));
    let growth = resident_kib(gateway.id()).saturating_sub(resident_before);
    println!("{descriptors_before} descriptors before and after, {resident_before} KiB, then {growth} more");
    assert!(growth < GROWTH_KIB, "{growth} KiB more");
    drop((deaf, waiting));
    gateway.post(FINE).assert_accepted();
    assert!(connections(&mut gateway) <= 1);
}
