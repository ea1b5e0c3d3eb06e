//! The process is stopped and continued, as a debugger or a suspended machine does it.

use std::time::Duration;

use rustix::process::Signal;

use crate::statuses::FINE;
use crate::support::PATIENCE;
use crate::support::gateway::Gateway;
use crate::support::raw_client::RawClient;

/// Longer than each deadline of the gateway.
const PAUSE: Duration = Duration::from_millis(1_500);

/// What has arrived counts before a deadline that has passed meanwhile: on a kept connection, in a head and in a body.
#[test]
fn requests_that_came_while_the_process_was_stopped_are_answered() {
    let timeouts = ["--idle-timeout", "1", "--head-timeout", "1", "--body-timeout", "1"];
    let gateway = Gateway::serve().arguments(timeouts).start();
    let request = gateway.request(FINE).bytes();
    // On a machine that holds up the test for a second, a deadline passes before the pause: this is tried again.
    let waiting =
        (0..20).find_map(|_| stopped_while_it_waits(&gateway, &request)).expect("the gateway waits for requests");
    let mut clients = waiting.map(|(bytes, mut client)| {
        assert!(client.send(&request[bytes..]));
        (bytes, client)
    });
    std::thread::sleep(PAUSE);
    gateway.signal(Signal::CONT);
    for (bytes, client) in &mut clients {
        assert_eq!(status_line(client), "HTTP/1.1 200 OK", "after {bytes} bytes");
    }
}

/// Returns clients of the stopped gateway, each with the number of bytes of the request that it has sent: the first one
/// none after an answer. Returns `None`, and lets the gateway go on, if it has answered one of them already.
fn stopped_while_it_waits(gateway: &Gateway, request: &[u8]) -> Option<[(usize, RawClient); 4]> {
    let mut clients = [0, 1, 20, request.len() - 1].map(|bytes| (bytes, RawClient::connect(gateway.address())));
    let [(_, kept), begun @ ..] = &mut clients;
    for (bytes, client) in begun {
        assert!(client.send(&request[..*bytes]));
    }
    assert!(kept.send(request));
    let was_answered = status_line(kept) == "HTTP/1.1 200 OK";
    gateway.signal(Signal::STOP);
    let waits = clients.iter().all(|(_, client)| client.has_nothing_to_read());
    if !was_answered || !waits {
        gateway.signal(Signal::CONT);
        return None;
    }
    Some(clients)
}

fn status_line(client: &mut RawClient) -> String {
    let mut answer = [0; 1024];
    let read = client.read(&mut answer, PATIENCE).unwrap_or_default();
    String::from_utf8_lossy(&answer[..read]).lines().next().unwrap_or_default().to_owned()
}
