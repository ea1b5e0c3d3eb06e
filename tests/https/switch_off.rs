//! The settings switch the API off while clients connect.

use crate::client::{Connector, TlsStream};
use crate::rig::{Rig, VALID_BODY};
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
fn wait_until_accepted(rig: &mut Rig, connections: usize) {
    eventually("an accepted connection", || (rig.gateway.stats()["connections"] == connections).then_some(()));
}

#[test]
fn a_connection_whose_handshake_has_begun_is_answered() {
    for mut rig in Rig::each_way(&[]) {
        let mut idle = rig.client();
        let begun = [1, 50, 100].map(|sent_percent| client_in_its_hello(&rig.connector, &rig, sent_percent));
        wait_until_accepted(&mut rig, 1 + begun.len());
        rig.gateway.settings.write(disabled());
        // When the idle connection is closed, the worker has heard of the switch-off.
        idle.expect_close();
        for (mut tls, rest) in begun {
            tls.send_raw(&rest);
            tls.finish_handshake().expect("a complete handshake");
            let mut client = Client::over(tls);
            let response = client.exchange(&rig.request(VALID_BODY));
            assert_eq!((response.status, response.closes()), (503, true));
            assert_eq!(response.problem()["type"], "urn:adapter-gateway:problem:disabled");
            client.expect_close();
        }
        rig.gateway.terminate();
    }
}

#[test]
fn a_connection_that_has_sent_nothing_is_closed() {
    for mut rig in Rig::each_way(&[]) {
        let silent = rig.connector.connect_without_handshake(rig.gateway.address(), "localhost").unwrap();
        wait_until_accepted(&mut rig, 1);
        rig.gateway.settings.write(disabled());
        Client::over(silent).try_response().expect_err("the end of the connection");
        rig.gateway.terminate();
    }
}

/// The stop answers it too, with the token that is in force.
#[test]
fn a_stop_answers_a_connection_whose_handshake_has_begun() {
    for mut rig in Rig::each_way(&["--drain-timeout", "30"]) {
        let (mut tls, rest) = client_in_its_hello(&rig.connector, &rig, 50);
        wait_until_accepted(&mut rig, 1);
        rig.gateway.signal(rustix::process::Signal::TERM);
        tls.send_raw(&rest);
        tls.finish_handshake().expect("a complete handshake");
        let mut client = Client::over(tls);
        client.exchange(&rig.request(VALID_BODY)).assert_accepted();
        client.expect_close();
        rig.gateway.expect_stopped();
    }
}
