//! `--hub`: the gateway and its hub in one process, subscribers and further publishers outside.

use crate::support::gateway::Gateway;
use crate::support::process::run;
use crate::support::subscriber::{Message, Subscriber, ipc_endpoint};

#[test]
fn what_is_posted_crosses_the_embedded_hub_and_is_counted() {
    let [publishers, subscribers] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (publishers_side, subscribers_side) = (ipc_endpoint(&publishers), ipc_endpoint(&subscribers));
    let hub = ["--hub", "--hub-publishers", &publishers_side, "--hub-subscribers", &subscribers_side];
    let mut gateway = Gateway::serve().arguments(hub).start();
    let connected = gateway.wait_connected();
    assert_eq!(connected["endpoint"], publishers_side.as_str());

    let subscriber = Subscriber::connected(&subscribers_side, "");
    subscriber.wait_until_it_hears(&gateway);
    for number in 0..100 {
        gateway.post(Message::new("t", &format!(r#"{{"n":{number}}}"#)).body()).assert_accepted();
    }
    for number in 0..100 {
        assert_eq!(subscriber.next(), Message::new("t", &format!(r#"{{"n":{number}}}"#)));
    }
    gateway.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.wait_exit(), 0);
    let stopped = gateway.wait_event("stopped");
    assert_eq!(stopped["hub"]["forwarded"], stopped["published"], "{stopped}");
    assert_eq!(stopped["hub"]["pipe_full"], 0, "{stopped}");
}

#[test]
fn its_endpoints_are_nothing_without_it() {
    let (status, output) = run(["serve", "--plain", "--hub-publishers", "tcp://127.0.0.1:*"]);
    assert_eq!(status, 2, "{}", output.stderr);
}
