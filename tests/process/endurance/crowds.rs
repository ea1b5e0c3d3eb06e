//! More clients than there is room for: those connected are served, the others wait their turn.

use std::time::Duration;

use super::{FEW_TICKS, ticks_at_rest, wait_for_connections};
use crate::statuses::FINE;
use crate::support::crude::Crude;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::http::Client;
use crate::support::usage::{descriptors, highest_descriptor, limit_descriptors};

/// Long enough for an answer that is not to come.
const A_MOMENT: Duration = Duration::from_millis(300);

/// A client that asks before anybody has accepted it.
fn asking(gateway: &Gateway) -> Crude {
    let mut client = Crude::connect(gateway.address());
    assert!(client.send(gateway.request(FINE).bytes()));
    client
}

fn is_answered(client: &mut Crude) -> bool {
    let mut answer = [0; 12];
    let bytes = client.read(&mut answer, A_MOMENT).expect("nobody is turned away");
    assert!(bytes == 0 || &answer == b"HTTP/1.1 200");
    bytes > 0
}

fn wait_answered(client: &mut Crude) {
    eventually("an answer", || is_answered(client).then_some(()));
}

fn served(gateway: &Gateway, count: usize) -> Vec<Client> {
    let serve = |_| {
        let mut client = gateway.client();
        client.exchange(&gateway.request(FINE)).assert_accepted();
        client
    };
    (0..count).map(serve).collect()
}

#[test]
fn over_max_connections_the_sixth_waits_until_one_of_five_leaves() {
    let mut gateway = Gateway::serve().arguments(["--max-connections", "5"]).start();
    let mut connected = served(&gateway, 5);
    let (mut sixth, mut seventh) = (asking(&gateway), asking(&gateway));
    assert!(!is_answered(&mut sixth) && !is_answered(&mut seventh));
    let ticks = ticks_at_rest(&gateway);
    assert!(ticks <= FEW_TICKS, "{ticks} ticks while two wait");
    for client in &mut connected {
        client.exchange(&gateway.request(FINE)).assert_accepted();
    }
    connected.pop();
    wait_answered(&mut sixth);
    assert!(!is_answered(&mut seventh));
    connected.pop();
    wait_answered(&mut seventh);
    drop((connected, sixth, seventh));
    wait_for_connections(&mut gateway, 0);
}

/// Those that wait hold a place in no queue that outlives them.
#[test]
fn who_leaves_while_it_waits_takes_nobodys_turn() {
    let mut gateway = Gateway::serve().arguments(["--max-connections", "2"]).start();
    let connected = served(&gateway, 2);
    for _ in 0..20 {
        asking(&gateway).reset();
    }
    let mut last = asking(&gateway);
    assert!(!is_answered(&mut last));
    drop(connected);
    wait_answered(&mut last);
    wait_for_connections(&mut gateway, 1);
}

#[test]
fn connections_are_capped_below_the_limit_of_descriptors() {
    // Further workers have descriptors of their own, which are no connection's.
    for (workers, capped) in [("1", 96), ("9", 40)] {
        let mut gateway = Gateway::serve().limits("-n 160").arguments(["--workers", workers]).start();
        let mut connected = served(&gateway, capped);
        let mut others: Vec<_> = (0..16).map(|_| asking(&gateway)).collect();
        assert!(!others.iter_mut().any(is_answered));
        for client in &mut connected {
            client.exchange(&gateway.request(FINE)).assert_accepted();
        }
        let ticks = ticks_at_rest(&gateway);
        assert!(ticks <= FEW_TICKS, "{ticks} ticks while others wait");
        connected.truncate(capped - others.len());
        others.iter_mut().for_each(wait_answered);
        gateway.terminate();
        let stderr = gateway.end().stderr;
        let said = format!("at most {capped} connections, since the limit of descriptors is 160");
        assert!(stderr.contains(&said), "{stderr}");
        assert!(!stderr.contains("cannot accept"), "{stderr}");
    }
}

/// The cap cannot foresee that somebody lowers the limit, or that the whole system is out of descriptors.
#[test]
fn out_of_descriptors_it_rests_says_so_once_and_serves_again() {
    let gateway = Gateway::serve().start();
    let mut connected = served(&gateway, 3);
    // The limit is one of numbers: those that are free below it are taken first.
    let limit = highest_descriptor(gateway.id()) + 1;
    connected.extend(served(&gateway, limit - descriptors(gateway.id())));
    let former = limit_descriptors(gateway.id(), limit as u64);
    let mut others: Vec<_> = (0..5).map(|_| asking(&gateway)).collect();
    assert!(!others.iter_mut().any(is_answered));
    let ticks = ticks_at_rest(&gateway);
    assert!(ticks <= FEW_TICKS, "{ticks} ticks while out of descriptors");
    for client in &mut connected {
        client.exchange(&gateway.request(FINE)).assert_accepted();
    }
    connected.pop();
    wait_answered(&mut others[0]);
    limit_descriptors(gateway.id(), former);
    others[1..].iter_mut().for_each(wait_answered);
    let mut gateway = gateway;
    gateway.terminate();
    let stderr = gateway.end().stderr;
    let told = stderr.lines().filter(|line| line.contains("cannot accept connections for now")).count();
    assert!((1..=2).contains(&told), "once for each shortage: {stderr}");
}
