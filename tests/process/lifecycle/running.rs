//! The running gateway: what its parent can ask for, what its parent may do, and what an idle gateway costs.

use crate::support::*;

#[test]
fn stats_are_printed_at_the_interval_of_the_option() {
    let mut gateway = Gateway::serve().arguments(["--stats", "1"]).start();
    gateway.wait_event("stats");
    gateway.wait_event("stats");
}

/// A process inherits what its parent has blocked.
#[test]
fn the_gateway_obeys_signals_that_its_parent_has_blocked() {
    let blocking = "exec env --block-signal=HUP,INT,TERM,USR1,USR2 \"$@\"";
    for signal in [Signal::INT, Signal::TERM] {
        let mut gateway = Gateway::serve().after(blocking).start();
        gateway.stats();
        gateway.signal(Signal::USR2);
        gateway.wait_event("stats");
        gateway.signal(Signal::HUP);
        gateway.wait_settings("unchanged");
        gateway.signal(signal);
        gateway.expect_stopped();
    }
}

#[test]
fn the_gateway_goes_on_after_its_stdout_is_closed() {
    let (stdout, writer) = std::io::pipe().unwrap();
    let address = free_address();
    let mut gateway = Gateway::serve().listen(address).stdout(writer).spawn();
    gateway.expect_log("listening on ");
    drop(stdout);
    for _ in 0..3 {
        gateway.signal(Signal::USR1);
        Client::connect(address).exchange(&gateway.request(FINE)).assert_accepted();
    }
    assert!(gateway.is_running());
    gateway.signal(Signal::TERM);
    gateway.finish(0);
}

/// A hub and a client are connected. The gateway may finish its start during the first seconds, so one idle second of
/// four is enough.
#[test]
fn an_idle_gateway_uses_no_cpu() {
    let fixture = Fixture::start();
    let _client = fixture.gateway.served_client();
    let mut used = Vec::new();
    for _second in 0..4 {
        let before = cpu_ticks(fixture.gateway.id());
        std::thread::sleep(Duration::from_secs(1));
        used.push(cpu_ticks(fixture.gateway.id()) - before);
        if used.last() == Some(&0) {
            return;
        }
    }
    panic!("clock ticks used in each idle second: {used:?}");
}

#[test]
fn the_token_is_not_on_the_command_line_or_in_the_environment() {
    let gateway = Gateway::serve().start();
    for client in [gateway.target(), "/api/message?token=wrong".to_owned(), "/".to_owned()] {
        gateway.client().exchange(&gateway.request(FINE).target(&client));
    }
    let token = gateway.token().to_owned();
    for file in ["cmdline", "environ"] {
        let content = std::fs::read(format!("/proc/{}/{file}", gateway.id())).unwrap();
        assert!(!String::from_utf8_lossy(&content).contains(&token), "{file}");
    }
    // `Gateway` checks on drop, in every test, that no log and no event contains the token.
}
