//! The tests for which it may matter, once more with epoll: this program starts itself again for each group.

use crate::support::*;

/// Runs the tests whose names begin so. Fails if there are none.
fn pass_with_epoll(group: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([group, "--skip", "epoll::", "--test-threads", "2"]).env(IO_VARIABLE, "epoll");
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|stream| String::from_utf8_lossy(&stream).into_owned()).concat();
    assert!(output.status.success(), "GATEWAY_IO=epoll cargo test --test process {group}\n{text}");
    assert!(!text.contains("running 0 tests"), "no test is called {group}");
}

/// Declares a test for each group: its name, what the names of its tests begin with, and why the transport matters.
macro_rules! groups {
    ($($name:ident: $group:literal, $reason:literal;)*) => {
        $(
            #[doc = $reason]
            #[test]
            fn $name() {
                pass_with_epoll($group);
            }
        )*
    };
}

groups! {
    statuses: "statuses::", "Requests come in many reads, connections stay open, and deadlines end the wait for them.";
    endurance: "endurance::", "Reads and writes wait for slow clients, and accepting pauses.";
    drain: "lifecycle::drain::", "A stop wakes each connection.";
    stops: "delivery::stopping::a_stop_under_load", "So does a stop under load.";
    running: "lifecycle::running::", "An event loop without events sleeps, and every worker accepts on every listener.";
    settings: "settings::", "Ports open and close while the event loop runs.";
    unix_sockets: "unix_sockets::", "The sockets have another family.";
    inherited_sockets: "inherited_sockets::", "Other processes accept on the same sockets, and one of them stops.";
    tls_requests: "https::requests::", "A record comes in many reads.";
    tls_closing: "https::closing::", "What is left to send is sent before the end, and a stop wakes each connection.";
    tls_hostile_clients: "https::hostile_clients::", "Clients and deadlines end connections at every step, and each end is told.";
}
