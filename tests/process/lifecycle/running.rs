//! While it runs: what the parent can ask, what it may do, and what an idle gateway costs.

use std::time::Duration;

use rustix::process::Signal;

use crate::statuses::FINE;
use crate::support::fixture::Fixture;
use crate::support::gateway::Gateway;
use crate::support::usage::cpu_ticks;

#[test]
fn sigusr1_prints_stats_each_time() {
    let mut gateway = Gateway::serve().start();
    for _ in 0..2 {
        gateway.post(FINE).assert_accepted();
        gateway.signal(Signal::USR1);
        let stats = gateway.wait_event("stats");
        assert!(stats.as_object().is_some_and(|members| members.len() > 1), "{stats}");
    }
    gateway.post(FINE).assert_accepted();
}

#[test]
fn stats_come_by_themselves_when_asked_for() {
    let mut gateway = Gateway::serve().arguments(["--stats", "1"]).start();
    gateway.wait_event("stats");
    gateway.wait_event("stats");
}

#[test]
fn with_watch_stdin_it_ends_with_its_parent() {
    let builder = Gateway::serve().arguments(["--watch-stdin"]).piped_stdin();
    let mut gateway = builder.start();
    gateway.post(FINE).assert_accepted();
    gateway.close_stdin();
    assert_eq!(gateway.expect_stopped().accepted, 1);
}

/// As under a service manager, where stdin is at its end from the start.
#[test]
fn without_watch_stdin_the_end_of_stdin_means_nothing() {
    let mut gateway = Gateway::serve().piped_stdin().start();
    gateway.close_stdin();
    // It answers a signal after that, so whatever the end of stdin would have caused had its turn.
    gateway.signal(Signal::USR1);
    gateway.wait_event("stats");
    gateway.post(FINE).assert_accepted();
    assert!(gateway.is_running());
}

/// A parent that stops reading must not stop the home.
#[test]
fn a_stdout_that_nobody_reads_any_more_is_survived() {
    let mut gateway = Gateway::serve().closes_stdout_after("listening").start();
    gateway.wait_stdout_closed();
    for _ in 0..3 {
        gateway.signal(Signal::USR1);
        gateway.post(FINE).assert_accepted();
    }
    assert!(gateway.is_running());
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit(), 0);
}

/// Over one second, with a hub and a client connected. What the start has left to do may fall into
/// the first seconds, so it has a few of them.
#[test]
fn an_idle_gateway_uses_no_cpu() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    client.exchange(&fixture.request(FINE)).assert_accepted();
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
    let token = gateway.target().split_once('=').unwrap().1.to_owned();
    for file in ["cmdline", "environ"] {
        let content = std::fs::read(format!("/proc/{}/{file}", gateway.id())).unwrap();
        assert!(!String::from_utf8_lossy(&content).contains(&token), "{file}");
    }
    // That no log and no event shows it is checked for every gateway, when it is dropped.
}
