//! `Expect: 100-continue`: the invitation comes when the head has passed every check, and only then.

use super::FINE;
use crate::support::rig::Rig;
use crate::support::subscriber::Message;

#[test]
fn a_head_that_passes_is_invited_to_send_its_body() {
    let rig = Rig::start();
    let mut client = rig.client();
    for name in ["100-continue", "100-Continue"] {
        let request = rig.request(FINE).field("Expect", name);
        client.send(request.head());
        assert_eq!(client.response().status, 100);
        client.send(request.body());
        client.response().assert_accepted();
        assert_eq!(rig.bus.next(), Message::new("t", "{}"));
    }
}

#[test]
fn a_head_that_fails_is_refused_without_an_invitation() {
    let rig = Rig::with(["--max-body", "100"]);
    let fine = rig.request(FINE).field("Expect", "100-continue");
    let refused = [
        (fine.clone().target("/api/message?token=wrong"), 401),
        (fine.clone().target("/"), 404),
        (fine.clone().without("Content-Type"), 415),
        (fine.clone().without("Expect").field("Expect", "200-ok"), 417),
        (fine.clone().field("Content-Length", "101"), 413),
    ];
    for (request, status) in refused {
        let mut client = rig.client();
        client.send(request.head());
        let response = client.response();
        assert_eq!(response.status, status);
        response.problem();
    }
    rig.assert_bus_is_quiet();
}
