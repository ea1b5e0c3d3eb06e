//! Ends and cuts (RFC 8446 §6.1).

use std::io::{ErrorKind, Read};

use crate::client::Tls;
use crate::rig::{FINE, Rig};
use crate::support::http::Client;
use crate::support::request::Request;

#[test]
fn the_gateway_says_that_it_ends() {
    for rig in Rig::each_way(&["--idle-timeout", "1"]) {
        let mut asked = rig.client();
        asked.exchange(&rig.request(FINE).field("Connection", "close")).assert_accepted();
        asked.expect_close();

        let mut refused = rig.client();
        refused.send("POST /api/message HTTP/1.1\nHost: localhost\r\n\r\n");
        assert_eq!(refused.response().status, 400);
        refused.expect_close();

        let mut idle = rig.client();
        idle.exchange(&rig.request(FINE)).assert_accepted();
        idle.expect_close();
    }
}

#[test]
fn a_gateway_that_stops_says_so_to_those_who_are_idle() {
    for mut rig in Rig::each_way(&[]) {
        let mut idle = rig.client();
        idle.exchange(&rig.request(FINE)).assert_accepted();
        let mut silent = rig.client();
        rig.gateway.signal(rustix::process::Signal::TERM);
        idle.expect_close();
        silent.expect_close();
        rig.gateway.expect_stopped();
    }
}

#[test]
fn a_client_that_ends_is_told_the_end_as_well() {
    for rig in Rig::each_way(&[]) {
        let mut client = rig.client();
        client.exchange(&rig.request(FINE)).assert_accepted();
        let end = client.stream().end_record();
        client.stream().send_raw(&end);
        client.expect_close();
    }
}

#[test]
fn requests_in_front_of_the_end_are_answered() {
    for rig in Rig::each_way(&[]) {
        for requests in [1, 5] {
            let mut client = rig.client();
            let mut bytes = client.stream().records(&rig.request(FINE).bytes().repeat(requests));
            bytes.extend(client.stream().end_record());
            client.stream().send_raw(&bytes);
            for _ in 0..requests {
                client.response().assert_accepted();
                rig.expect_fine();
            }
            client.expect_close();
        }
    }
}

/// More answers than are held at once, to what one read brings.
#[test]
fn a_long_pipeline_in_front_of_the_end_is_answered_whole() {
    const REQUESTS: usize = 1_000;
    for rig in Rig::each_way(&[]) {
        let mut client = rig.client();
        let mut bytes = client.stream().records(&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(REQUESTS));
        bytes.extend(client.stream().end_record());
        client.stream().send_raw(&bytes);
        for number in 0..REQUESTS {
            let response = client.try_response().unwrap_or_else(|error| panic!("answer {number}: {error}"));
            assert_eq!(response.status, 404);
        }
        client.expect_close();
    }
}

/// A client that has sent all but the last byte of a request.
fn in_the_middle(rig: &Rig, request: &Request) -> Client<Tls> {
    let mut client = rig.client();
    let bytes = request.bytes();
    client.send(&bytes[..bytes.len() - 1]);
    client
}

#[test]
fn a_request_that_its_client_ends_or_cuts_is_incomplete() {
    for rig in Rig::each_way(&[]) {
        let head_alone = rig.request("");
        for request in [rig.request(FINE), rig.request(FINE).chunked(4), head_alone] {
            let mut ends = in_the_middle(&rig, &request);
            let end = ends.stream().end_record();
            ends.stream().send_raw(&end);
            let mut cuts = in_the_middle(&rig, &request);
            cuts.stream().cut();
            for mut client in [ends, cuts] {
                let response = client.response();
                assert_eq!((response.status, response.closes()), (400, true));
                response.problem();
                client.expect_close();
            }
        }
        rig.assert_bus_is_quiet();
    }
}

#[test]
fn a_record_that_is_cut_publishes_nothing() {
    for rig in Rig::each_way(&[]) {
        let mut client = rig.client();
        let record = client.stream().records(&rig.request(FINE).bytes());
        client.stream().send_raw(&record[..record.len() - 1]);
        client.stream().cut();
        client.expect_close();
        rig.assert_bus_is_quiet();
    }
}

#[test]
fn a_record_that_was_tampered_with_is_refused_in_words_of_tls() {
    for rig in Rig::each_way(&[]) {
        for more in [0, 300_000] {
            let mut client = rig.client();
            client.exchange(&rig.request(FINE)).assert_accepted();
            rig.expect_fine();
            let mut record = client.stream().records(&rig.request(FINE).bytes());
            *record.last_mut().unwrap() ^= 1;
            record.extend(vec![0; more]);
            client.stream().send_raw(&record);
            let error = client.stream().read(&mut [0; 1024]).expect_err("an alert");
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            assert!(error.to_string().contains("BadRecordMac"), "{error}");
        }
        rig.assert_bus_is_quiet();
    }
}
