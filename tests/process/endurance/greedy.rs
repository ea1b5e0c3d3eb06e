//! A client that sends as fast as it can: it is served, and so are the others.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::statuses::FINE;
use crate::support::gateway::Gateway;

/// Requests of the modest client while the greedy ones are at it.
const MODEST: usize = 50;

/// Sends requests without a pause and reads the answers in a thread of its own, so that nothing but the gateway holds
/// it up. Until the stream is shut down.
fn be_greedy(mut stream: &TcpStream, requests: &[u8]) {
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let (mut stream, mut answers) = (stream, vec![0; 1 << 20]);
            while stream.read(&mut answers).is_ok_and(|bytes| bytes > 0) {}
        });
        while stream.write_all(requests).is_ok() {}
    });
}

/// Ends the greed, also where the test fails.
struct Enough<'s>(&'s [TcpStream]);

impl Drop for Enough<'_> {
    fn drop(&mut self) {
        for stream in self.0 {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_pipeline_without_end_keeps_nobody_waiting() {
    let gateway = Gateway::serve().start();
    // Refused by their heads, so that neither the queue nor the subscriber's pace limits them.
    let requests = gateway.request("").target("/elsewhere").bytes().repeat(2_000);
    let streams = [(); 2].map(|()| TcpStream::connect(gateway.address()).unwrap());
    std::thread::scope(|threads| {
        let _enough = Enough(&streams);
        for stream in &streams {
            threads.spawn(|| be_greedy(stream, &requests));
        }
        let mut client = gateway.client();
        for _ in 0..MODEST {
            client.exchange(&gateway.request(FINE)).assert_accepted();
        }
    });
}
