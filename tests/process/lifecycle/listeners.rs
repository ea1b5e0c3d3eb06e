//! The sockets that the gateway listens on.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use crate::support::*;

/// Port 0 is another port for each address. An address that this host lacks, such as ::1 without IPv6, is left out.
#[test]
fn a_name_stands_for_each_of_its_addresses() {
    let expected: Vec<_> =
        ("localhost", 0).to_socket_addrs().unwrap().filter(|at| TcpListener::bind(at).is_ok()).collect();
    let mut gateway = Gateway::serve().listen(ANY_PORT).arguments(["--listen", "localhost:0"]).start();
    let ips: BTreeSet<_> = expected.iter().map(SocketAddr::ip).collect();
    for _ in &ips {
        gateway.wait_listening();
    }
    let [_, named @ ..] = gateway.addresses() else { panic!("listeners") };
    assert_eq!(named.iter().map(SocketAddr::ip).collect::<BTreeSet<_>>(), ips);
    for address in named {
        Client::connect(*address).exchange(&gateway.request(FINE)).assert_accepted();
    }
}

#[test]
fn an_address_that_others_reach_leaves_a_warning() {
    for (address, is_reachable) in [("0.0.0.0:0", true), ("127.0.0.2:0", false)] {
        let mut gateway = Gateway::serve().listen(address.parse().unwrap()).start();
        let text = format!("warning: {} is no loopback address: every machine that reaches it", gateway.address());
        if is_reachable {
            gateway.expect_log(&text);
            gateway.expect_log("whoever is on the way can read it in plain http");
        }
        gateway.terminate();
        assert_eq!(gateway.log().contains("loopback"), is_reachable);
    }
}

/// The kernel spreads connections over the workers, so some of 128 connections reach each of the two workers.
#[test]
fn each_listener_has_its_own_event_and_every_worker_serves_on_it() {
    let builder = Gateway::serve().listen(ANY_PORT).listen(ANY_PORT);
    let mut gateway = builder.arguments(["--workers", "2"]).start();
    gateway.wait_listening();
    let [first, second] = gateway.addresses() else { panic!("two listeners") };
    assert_ne!(first, second);
    let clients = gateway.addresses().iter().cycle().take(128).map(|&address| Client::connect(address));
    let mut clients: Vec<Client> = clients.collect();
    for _ in 0..2 {
        gateway.serve_each(&mut clients);
    }
    assert_eq!(gateway.terminate().accepted, 256);
}
