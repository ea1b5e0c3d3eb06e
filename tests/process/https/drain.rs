//! A stop, and a switch-off: each message that was answered with 200 is published, and nothing else waited for.

use super::*;

/// Longer than any test waits, so that a stop that waits for a handshake does not pass.
const LONG: [&str; 4] = ["--drain-timeout", "600", "--head-timeout", "600"];

/// Only few messages are sent on one connection, so that handshakes are part of the load.
#[test]
fn every_message_answered_200_under_load_is_on_the_bus_after_the_stop() {
    let mut rig = Rig::with(["--workers", "2"]);
    let (address, connector) = (rig.gateway.address(), rig.connector.clone());
    let shape = Shape { clients: 4, padding: 0, pipeline: 1, per_connection: |_| 20 };
    let connect = move || connector.connect(address, "localhost").map(Client::over);
    let load = Load::by(connect, rig.gateway.target(), shape);
    assert_nothing_is_lost_by_a_stop(&mut rig.gateway, &rig.bus, load, 1_000, |gateway| gateway.signal(Signal::TERM));
}

/// In TLS, the part of a request that has arrived may be a part of a record, which cannot be decrypted yet.
#[test]
fn a_request_is_in_flight_from_the_first_byte_of_its_record() {
    let mut rig = Rig::with(LONG);
    let cut_off = [1, 4, 5, 6, 100].map(|sent_bytes| {
        [rig.client(), rig.served_client()].map(|mut client| {
            let mut record = client.stream().records(&rig.request(FINE).bytes());
            let rest = record.split_off(sent_bytes);
            client.stream().send_raw(&record);
            (client, rest)
        })
    });
    let mut idle = [rig.client(), rig.served_client()];
    rig.gateway.signal(Signal::TERM);
    idle.iter_mut().for_each(Client::expect_close);
    for (mut client, rest) in cut_off.into_iter().flatten() {
        client.stream().send_raw(&rest);
        client.expect_last(200);
        rig.expect_valid_message();
    }
    rig.gateway.expect_stopped();
}

/// No request is in flight before the handshake is done, so the gateway does not wait for a handshake that stalls.
#[test]
fn a_handshake_in_flight_does_not_delay_the_stop() {
    let mut rig = Rig::with(LONG);
    let hello = rig.begin().handshake_bytes();
    let stalled = [0, 1, 5, 6, hello.len() - 1, hello.len()];
    let _stalled = stalled.map(|sent_bytes| connected_with(&rig.gateway, &hello[..sent_bytes]));
    rig.gateway.terminate();
}

/// Two idle ones are all that may be open. A client that is late by 100 ms is closed without an answer.
#[test]
fn handshakes_of_connections_that_were_not_accepted_are_completed_at_a_stop() {
    let mut rig = Rig::with(["--max-connections", "2"]);
    let _idle = [rig.served_client(), rig.served_client()];
    let begun = [(); 8].map(|()| rig.begun());
    let (request, lateness, all) = (rig.request(FINE), Lateness::watch(), begun.len());
    rig.gateway.signal(Signal::TERM);
    let answered = begun.into_iter().filter_map(|mut client| {
        client.finish_handshake().ok()?;
        let mut client = Client::over(client);
        client.send(request.bytes());
        client.try_response().ok()
    });
    let (answered, late) = (answered.inspect(Answer::assert_accepted).count(), lateness.allowance());
    assert!(answered == all || (answered > 0 && late > Duration::from_millis(50)), "{answered} of {all}, {late:?}");
    rig.gateway.expect_stopped();
}

#[test]
fn a_record_that_does_not_end_delays_the_stop_by_the_drain_timeout_at_most() {
    let mut rig = Rig::with(["--drain-timeout", "1", "--head-timeout", "120"]);
    let mut client = rig.client();
    let record = client.stream().records(&rig.request(FINE).bytes());
    client.stream().send_raw(&record[..record.len() - 1]);
    rig.gateway.terminate();
}

#[test]
fn a_switch_off_closes_what_is_idle_and_ends_handshakes_which_have_not_failed() {
    let mut rig = Rig::with(LONG);
    let mut idle = rig.client();
    let (silent, mut stalled) = (rig.begin(), rig.begin());
    let hello = stalled.handshake_bytes();
    stalled.send_raw(&hello[..hello.len() / 2]);
    rig.gateway.wait_count("connections_accepted", 3);
    rig.gateway.settings.write(disabled());
    idle.expect_close();
    Client::over(silent).try_response().expect_err("the end of the connection");
    rig.gateway.wait_count("connections", 0);
    // No client is at fault, and a person who reads the log would look for one.
    assert_eq!(rig.gateway.stats()["failed_handshakes"], json!({}));
    rig.gateway.stop().stderr.lacks("TLS handshake");
}
