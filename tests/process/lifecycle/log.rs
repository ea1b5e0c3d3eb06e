//! The log on stderr, and what stands on a terminal.

use crate::support::*;

#[test]
fn each_line_begins_with_its_level() {
    let mut gateway = Gateway::serve().arguments(["--connect", "ipc:///nonexistent/hub"]).start();
    gateway.expect_log("info: listening on ");
    // `kill -USR1` needs it.
    gateway.expect_log(&format!(", as process {}\n", gateway.id()));
    // The file is made with the mode of others.
    gateway.expect_log("warning: ");
    gateway.expect_log("warning: not connected to ipc:///nonexistent/hub: ");
    gateway.settings.write("TOKEN = ");
    gateway.wait_settings("rejected");
    gateway.settings.write("\n");
    gateway.wait_event("disabled");
    gateway.expect_log("info: to switch the API on: ");
    let log = gateway.log();
    let rejected = log.lines().find(|line| line.contains("the last good settings stay in force")).unwrap();
    assert!(rejected.starts_with("warning: "), "{log}");
    let has_level = |line: &str| ["info: ", "warning: ", "error: "].iter().any(|level| line.starts_with(level));
    assert!(log.lines().all(has_level), "{log}");
}

#[test]
fn log_time_is_before_the_level() {
    let mut gateway = Gateway::serve().arguments(["--log-time"]).start();
    gateway.expect_log("listening on ");
    gateway.terminate();
    let log = gateway.log();
    let pattern = log.replace(|c: char| c.is_ascii_digit(), "0");
    assert!(pattern.lines().all(|line| line.starts_with("0000-00-00T00:00:00.000Z ")), "{log}");
    assert!(log.contains("Z info: listening on "), "{log}");
}

#[test]
fn a_terminal_gets_the_log_and_no_events() {
    for has_events in [false, true] {
        let terminal = Terminal::open();
        let builder = Gateway::serve().arguments(has_events.then_some("--events"));
        let mut gateway = builder.stdout(terminal.stream()).spawn();
        gateway.expect_log("info: listening on ");
        gateway.signal(Signal::TERM);
        let log = gateway.finish(0).stderr;
        assert!(log.starts_with("info: ") || log.starts_with("warning: "), "{log}");
        let screen = terminal.read_to_end();
        assert_eq!(screen.contains(r#"{"event":"stopped""#), has_events, "{screen}");
        assert!(has_events || screen.is_empty(), "{screen}");
    }
}
