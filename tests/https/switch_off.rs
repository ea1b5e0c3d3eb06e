//! The settings switch the API off while clients connect.

use std::io::ErrorKind;

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
fn wait_until_accepted(rig: &mut Rig, connections: u64) {
    eventually("an accepted connection", || {
        (rig.gateway.stats()["connections_accepted"].as_u64().unwrap() >= connections).then_some(())
    });
}

#[test]
fn a_connection_whose_handshake_has_begun_is_answered() {
    for mut rig in Rig::each_way(&[]) {
        let mut idle = rig.client();
        let begun = [1, 50, 100].map(|sent_percent| client_in_its_hello(&rig.connector, &rig, sent_percent));
        wait_until_accepted(&mut rig, 1 + begun.len() as u64);
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

/// See also `drain`: a handshake that stalls does not delay a stop.
#[test]
fn a_stop_after_a_switch_off_does_not_wait_for_a_handshake() {
    for mut rig in Rig::each_way(&["--drain-timeout", "120", "--head-timeout", "120"]) {
        let mut idle = rig.client();
        let _stalled = client_in_its_hello(&rig.connector, &rig, 50);
        wait_until_accepted(&mut rig, 2);
        rig.gateway.settings.write(disabled());
        // When it is closed, the worker has heard of the switch-off.
        idle.expect_close();
        rig.gateway.signal(rustix::process::Signal::TERM);
        rig.gateway.expect_stopped();
    }
}

/// Clients connect all the time, each for one request. The first failure of each must say that the API is off.
#[test]
fn no_handshake_is_broken_by_a_switch_off() {
    const CLIENTS: usize = 16;
    for mut rig in Rig::each_way(&["--workers", "2"]) {
        let (address, connector) = (rig.gateway.address(), rig.connector.without_resumption());
        let request = rig.request(VALID_BODY);
        let first_failure = || loop {
            let mut client = match connector.connect(address, "localhost") {
                Ok(tls) => Client::over(tls),
                Err(error) => return Err(error),
            };
            let status = client.exchange(&request).status;
            if status != 200 {
                return Ok(status);
            }
        };
        let failures: Vec<_> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(first_failure)).collect();
            wait_until_accepted(&mut rig, 4 * CLIENTS as u64);
            rig.gateway.settings.write(disabled());
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        for failure in failures {
            match failure {
                Ok(status) => assert_eq!(status, 503),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}"),
            }
        }
    }
}
