//! Those who do not speak TLS, or not to its end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use socket2::SockRef;

use crate::client::socket;
use crate::rig::{FINE, Rig};
use crate::support::eventually;

/// The patience asked of the gateway, less a little for clocks that round.
const AT_LEAST: Duration = Duration::from_millis(900);

/// A handshake record with a ClientHello of so many bytes, of which the first ones follow.
const HELLO_BEGINS: &[u8] = &[0x16, 3, 1, 1, 0, 1, 0, 0, 0xfc, 3, 3];

#[test]
fn plain_http_is_told_to_use_https_and_counted() {
    for mut rig in Rig::each_way(&[]) {
        for request in [rig.request(FINE).bytes(), b"GET / HTTP/1.1\r\n\r\n".to_vec(), b"G".to_vec()] {
            let mut client = rig.gateway.client();
            client.send(request);
            let response = client.response();
            assert_eq!((response.status, response.closes()), (400, true));
            assert!(response.field("Content-Type").unwrap().starts_with("text/plain"), "{response:?}");
            assert!(String::from_utf8_lossy(&response.body).contains("https://"), "{response:?}");
            client.expect_half_close(FINE.as_bytes());
        }
        rig.gateway.signal(Signal::USR1);
        let stats = rig.gateway.wait_event("stats");
        assert_eq!(stats["answers"]["400"], 3, "{stats}");
        rig.assert_bus_is_quiet();
    }
}

#[test]
fn plain_http_after_the_handshake_is_no_request() {
    let rig = Rig::start();
    let mut client = rig.client();
    client.stream().send_raw(&rig.request(FINE).bytes());
    client.try_response().expect_err("an alert");
    rig.assert_bus_is_quiet();
}

/// Reads to the end of the gateway's side, which must not be a reset: what it had to say would be lost.
fn read_out(mut stranger: &TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    stranger.read_to_end(&mut said).expect("no reset");
    said
}

#[test]
fn garbage_is_refused_with_an_alert() {
    for rig in Rig::each_way(&[]) {
        let garbage: [Vec<u8>; 5] = [
            vec![0; 100],
            vec![0xff; 100],
            vec![0x80, 0x2e, 1, 3, 1],
            vec![0x16; 300_000],
            b"\x16\x03\x01\xff\xff".repeat(9),
        ];
        for garbage in garbage {
            let stranger = socket(rig.gateway.address()).unwrap();
            (&stranger).write_all(&garbage).unwrap();
            stranger.shutdown(Shutdown::Write).unwrap();
            let said = read_out(&stranger);
            assert!(said.is_empty() || said[0] == 0x15, "no alert: {said:?}");
        }
        rig.client().exchange(&rig.request(FINE)).assert_accepted();
    }
}

#[test]
fn a_handshake_that_stalls_is_closed_in_time() {
    for rig in Rig::each_way(&["--head-timeout", "1"]) {
        let since = Instant::now();
        let mut stalled = Vec::new();
        let mut hello = rig.dialect.begin(rig.gateway.address(), "localhost").unwrap();
        let whole = hello.pending();
        for part in [0, 1, HELLO_BEGINS.len(), whole.len() - 1, whole.len()] {
            let stranger = socket(rig.gateway.address()).unwrap();
            (&stranger).write_all(&whole[..part]).unwrap();
            stalled.push(stranger);
        }
        for stranger in stalled {
            read_out(&stranger);
            assert!(since.elapsed() >= AT_LEAST, "after {:?} already", since.elapsed());
        }
        // The handshake alone earns no more time: it is a part of the head.
        let since = Instant::now();
        rig.client().expect_close();
        assert!(since.elapsed() >= AT_LEAST, "after {:?} already", since.elapsed());
    }
}

#[test]
fn a_handshake_that_drips_is_closed_in_time() {
    for rig in Rig::each_way(&["--head-timeout", "1"]) {
        let since = Instant::now();
        let mut tls = rig.dialect.begin(rig.gateway.address(), "localhost").unwrap();
        let hello = tls.pending();
        tls.drip(&hello);
        read_out(tls.socket());
        assert!(since.elapsed() >= AT_LEAST, "after {:?} already", since.elapsed());
    }
}

#[test]
fn rude_clients_leave_nothing_behind() {
    const CLIENTS: usize = 500;
    for rig in Rig::each_way(&["--head-timeout", "2", "--body-timeout", "2"]) {
        rig.client().exchange(&rig.request(FINE)).assert_accepted();
        rig.expect_fine();
        let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", rig.gateway.id())).unwrap().count();
        let connected = rig.client();
        let baseline = descriptors() - 1;
        drop(connected);
        for number in 0..CLIENTS {
            be_rude(&rig, number);
        }
        eventually("the descriptors of before", || (descriptors() <= baseline).then_some(()));
        rig.client().exchange(&rig.request(FINE)).assert_accepted();
        rig.expect_fine();
    }
}

/// Comes, says something, and is gone: by a reset, or with its side closed and nobody reading.
fn be_rude(rig: &Rig, number: usize) {
    let mut tls = match number % 7 {
        0..3 => rig.dialect.begin(rig.gateway.address(), "localhost").unwrap(),
        _ => rig.dialect.dial(rig.gateway.address(), "localhost").unwrap(),
    };
    let reset = |socket: &TcpStream| SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
    match number % 7 {
        0 => {
            let hello = tls.pending();
            tls.send_raw(&hello[..hello.len() / 2]);
            reset(tls.socket());
        }
        1 => {
            let hello = tls.pending();
            tls.send_raw(&hello);
            reset(tls.socket());
        }
        2 => {
            let hello = tls.pending();
            tls.send_raw(&hello);
            tls.cut();
        }
        3 => {
            let record = tls.records(&rig.request("{}").bytes());
            tls.send_raw(&record[..record.len() / 2]);
            reset(tls.socket());
        }
        4 => {
            let record = tls.records(&rig.request("{}").bytes());
            tls.send_raw(&record[..record.len() / 2]);
            tls.cut();
        }
        5 => {
            let record = tls.records(&rig.request("{}").bytes());
            tls.send_raw(&record);
            reset(tls.socket());
        }
        _ => {
            let mut bytes = tls.records(&rig.request("{}").bytes());
            bytes.extend(tls.end_record());
            tls.send_raw(&bytes);
            let mut first = [0];
            // The answer is on its way.
            if let Err(error) = tls.read_exact(&mut first) {
                assert_ne!(error.kind(), ErrorKind::TimedOut);
            }
        }
    }
}
