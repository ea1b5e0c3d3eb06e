//! The parent has blocked the signals that steer the program. A process inherits that.

use std::time::Instant;

use rustix::process::Signal;

use crate::support::PATIENCE;
use crate::support::gateway::Gateway;
use crate::support::net::dead_endpoint;
use crate::support::process::{Process, after, binary};

const BLOCKING: &str = "exec env --block-signal=HUP,INT,TERM,USR1 \"$@\"";

#[test]
fn the_gateway_obeys_signals_that_its_parent_has_blocked() {
    let mut gateway = Gateway::serve().after(BLOCKING).start();
    gateway.stats();
    gateway.signal(Signal::HUP);
    gateway.wait_settings("unchanged");
    gateway.terminate();
}

#[test]
fn listen_and_demo_obey_signals_that_their_parent_has_blocked() {
    for (arguments, line) in [
        (vec!["listen".to_owned(), "--connect".to_owned(), dead_endpoint()], None),
        (["demo", "--plain", "--listen", "127.0.0.1:0"].map(str::to_owned).into(), Some("Ctrl-C")),
    ] {
        let mut command = binary();
        command.args(&arguments);
        let mut process = Process::spawn(&mut after(BLOCKING, &command));
        let deadline = Instant::now() + PATIENCE;
        match line {
            Some(line) => while !process.next_line(deadline).expect("a line").contains(line) {},
            None => crate::support::eventually("a line in the log", || {
                (!process.transcript().stderr.is_empty()).then_some(())
            }),
        }
        process.signal(Signal::INT);
        assert_eq!(process.wait_exit(PATIENCE).code(), Some(0), "{arguments:?}");
    }
}
