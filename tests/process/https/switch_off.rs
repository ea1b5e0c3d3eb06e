//! The settings switch the API off while clients connect.

use super::client::{Connector, TlsStream};
use super::rig::Rig;
use crate::support::eventually;
use crate::support::http::Client;
use crate::support::settings_file::disabled;

/// A client that has sent this much of its ClientHello, in hundredths.
fn client_in_its_hello(connector: &Connector, rig: &Rig, sent_percent: usize) -> (TlsStream, Vec<u8>) {
    let mut tls = connector.connect_without_handshake(rig.gateway.address(), "localhost").unwrap();
    let hello = tls.handshake_bytes();
    let (sent, rest) = hello.split_at(hello.len() * sent_percent / 100);
    tls.send_raw(sent);
    (tls, rest.to_vec())
}

/// Waits until the gateway has accepted this many connections.
fn wait_until_accepted(rig: &mut Rig, connections: u64) {
    eventually("an accepted connection", || {
        (rig.gateway.stats()["connections_accepted"].as_u64().unwrap() >= connections).then_some(())
    });
}

#[test]
fn a_connection_that_has_sent_nothing_is_closed() {
    Rig::in_each_way(&[], |mut rig| {
        let silent = rig.connector.connect_without_handshake(rig.gateway.address(), "localhost").unwrap();
        wait_until_accepted(&mut rig, 1);
        rig.gateway.settings.write(disabled());
        Client::over(silent).try_response().expect_err("the end of the connection");
        rig.gateway.terminate();
    });
}

/// See also `drain`: a handshake that stalls does not delay a stop.
#[test]
fn a_stop_after_a_switch_off_does_not_wait_for_a_handshake() {
    Rig::in_each_way(&["--drain-timeout", "120", "--head-timeout", "120"], |mut rig| {
        let mut idle = rig.client();
        let _stalled = client_in_its_hello(&rig.connector, &rig, 50);
        wait_until_accepted(&mut rig, 2);
        rig.gateway.settings.write(disabled());
        // When it is closed, the worker has heard of the switch-off.
        idle.expect_close();
        rig.gateway.signal(rustix::process::Signal::TERM);
        rig.gateway.expect_stopped();
    });
}
