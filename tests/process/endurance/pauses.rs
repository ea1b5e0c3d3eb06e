//! The process is stopped and continued, as a debugger or a suspended machine does it.

use std::time::Duration;

use rustix::process::Signal;

use crate::statuses::FINE;
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
    let in_body = request.len() - 1;
    let mut kept = gateway.client();
    kept.exchange(&gateway.request(FINE)).assert_accepted();
    let mut begun: Vec<_> = [1, 20, in_body].map(|bytes| (bytes, RawClient::connect(gateway.address()))).into();
    for (bytes, client) in &mut begun {
        assert!(client.send(&request[..*bytes]));
    }
    // The gateway has read what was sent before, and waits for the rest.
    kept.exchange(&gateway.request(FINE)).assert_accepted();
    gateway.signal(Signal::STOP);
    kept.send(&request);
    for (bytes, client) in &mut begun {
        assert!(client.send(&request[*bytes..]));
    }
    std::thread::sleep(PAUSE);
    gateway.signal(Signal::CONT);
    kept.response().assert_accepted();
    for (bytes, client) in &mut begun {
        let mut answer = [0; 64];
        let read = client.read(&mut answer, crate::support::PATIENCE).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200 "), "after {bytes} bytes: {answer}");
    }
}
