use LinkEvent::{Connected, Handshake, Lost, Probed, Retrying, Subscription};
use NotConnected::{Closed, Own, Refused, Silent, Vanished};
use Step::{Probe, Reconnect};

use super::*;
use crate::mark::must_hit;

const CONNECTED: Option<LinkStatus> = Some(Ok(()));

/// What the owner is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Reconnect,
    Probe,
}

/// One call of the owner, or its wake-up where there is no event: when, in ms after the start; what happens; what is
/// reported; what is to be done then; and when to call again.
type Row = (u64, Option<LinkEvent>, Option<LinkStatus>, &'static [Step], Option<u64>);

fn not(reason: NotConnected) -> Option<LinkStatus> {
    Some(Err(reason))
}

fn wrong_side() -> NotConnected {
    NotConnected::Unfit(PeerFault::SocketType("XSUB".into()))
}

fn check(what: &str, rows: &[Row]) {
    check_link(what, |start| LinkState::new(false, start), rows);
}

fn check_link(what: &str, link: impl FnOnce(Instant) -> LinkState, rows: &[Row]) {
    let start = Instant::now();
    let mut link = link(start);
    let mut is_connected = false;
    for (number, (at_ms, event, reported, steps, next_ms)) in rows.iter().enumerate() {
        let now = start + Duration::from_millis(*at_ms);
        let found = match event {
            Some(event) => link.on_event(event.clone(), now),
            None => link.on_time(now),
        };
        assert_eq!(found, *reported, "{what}, row {number}: the report");
        is_connected = reported.as_ref().map_or(is_connected, Result::is_ok);
        assert_eq!(link.is_connected(), is_connected, "{what}, row {number}");
        let due: Vec<_> = [link.begin_reconnect(now).then_some(Reconnect), link.begin_probe(now).then_some(Probe)]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(due, *steps, "{what}, row {number}: the steps");
        let next = link.deadline().map(|at| (at - start).as_millis() as u64);
        assert_eq!(next, *next_ms, "{what}, row {number}: the next call");
    }
}

#[test]
fn an_endpoint_counts_as_connected_with_its_subscription_or_after_the_grace() {
    check(
        "the handshake, then the subscription",
        &[
            (0, None, None, &[], Some(750)),
            (10, Some(Handshake), None, &[], Some(260)),
            (11, Some(Subscription), CONNECTED, &[], None),
            (12, Some(Subscription), None, &[], None),
        ],
    );
    check(
        "the subscription is read first",
        &[(10, Some(Subscription), None, &[], Some(750)), (10, Some(Handshake), CONNECTED, &[], None)],
    );
    check(
        "no subscription",
        &[
            (10, Some(Handshake), None, &[], Some(260)),
            (259, None, None, &[], Some(260)),
            (260, None, CONNECTED, &[], None),
            (261, Some(Subscription), None, &[], None),
        ],
    );
    check(
        "a late handshake is no silence",
        &[(700, Some(Handshake), None, &[], Some(950)), (800, None, None, &[], Some(950))],
    );
}

/// A subscription comes as long after the handshake as the network is slow.
#[test]
fn the_grace_is_twice_as_long_as_the_handshake_took() {
    check(
        "a slow network",
        &[
            (100, Some(Connected), None, &[], Some(750)),
            (700, Some(Handshake), None, &[], Some(1_900)),
            (1_899, None, None, &[], Some(1_900)),
            (1_900, None, CONNECTED, &[], None),
            (2_000, Some(Lost(Closed)), not(Closed), &[], Some(3_000)),
            (2_000, Some(Retrying), None, &[], Some(3_000)),
            (2_100, Some(Connected), None, &[], Some(3_000)),
            (2_225, Some(Handshake), None, &[], Some(2_475)),
            (2_300, Some(Subscription), CONNECTED, &[], None),
        ],
    );
    check(
        "a connection that is lost within its handshake",
        &[
            (0, Some(Connected), None, &[], Some(750)),
            (700, Some(Lost(Closed)), None, &[Probe], Some(750)),
            (700, Some(Retrying), None, &[], Some(750)),
            (740, Some(Connected), None, &[], Some(750)),
            (741, Some(Handshake), None, &[], Some(991)),
        ],
    );
}

#[test]
fn a_machine_that_has_vanished_is_reported_once_and_its_hub_is_connected_again() {
    check(
        "vanishes",
        &[
            (0, Some(Handshake), None, &[], Some(250)),
            (0, Some(Subscription), CONNECTED, &[], None),
            (30_000, Some(Lost(Vanished)), not(Vanished), &[], Some(31_000)),
            (30_001, Some(Lost(Closed)), None, &[], Some(31_000)),
            (30_001, Some(Retrying), None, &[], Some(31_000)),
            (30_500, Some(Connected), None, &[], Some(31_000)),
            (30_501, Some(Handshake), None, &[], Some(30_751)),
            (30_501, Some(Subscription), CONNECTED, &[], None),
        ],
    );
}

#[test]
fn the_hub_of_this_gateway_is_reported_once_whatever_follows() {
    let rows = [
        (0, Some(Subscription), None, &[][..], Some(750)),
        (0, Some(LinkEvent::Own), not(Own), &[], None),
        (1, Some(Subscription), None, &[], None),
        (1, Some(Lost(Closed)), None, &[], None),
        (2, Some(Probed(Err(Refused))), None, &[], None),
        (9_000, None, None, &[], None),
    ];
    check("our own", &rows);
}

#[test]
fn a_loss_is_reported_once_then_its_reason_and_the_old_subscription_is_forgotten() {
    check(
        "a hub that is lost",
        &[
            (0, Some(Handshake), None, &[], Some(250)),
            (0, Some(Subscription), CONNECTED, &[], None),
            (100, Some(Lost(Closed)), not(Closed), &[], Some(1_100)),
            (100, Some(Retrying), None, &[], Some(1_100)),
            (200, Some(Lost(Closed)), None, &[], Some(1_100)),
            (200, Some(Retrying), None, &[], Some(1_100)),
            (1_100, None, None, &[Probe], None),
            (1_101, Some(Probed(Err(Refused))), not(Refused), &[], Some(2_101)),
            (2_101, None, None, &[Probe], None),
            (2_102, Some(Probed(Err(Refused))), None, &[], Some(3_102)),
            (3_102, None, None, &[Probe], None),
            (3_103, Some(Probed(Err(wrong_side()))), not(wrong_side()), &[], Some(4_103)),
            (3_200, Some(Handshake), None, &[], Some(3_450)),
            (3_450, None, CONNECTED, &[], None),
        ],
    );
}

#[test]
fn a_peer_that_closes_after_each_handshake_is_reported_once() {
    check(
        "closes each",
        &[
            (0, Some(Handshake), None, &[], Some(250)),
            (1, Some(Lost(Closed)), not(Closed), &[], Some(1_001)),
            (1, Some(Retrying), None, &[], Some(1_001)),
            (100, Some(Handshake), None, &[], Some(350)),
            (101, Some(Lost(Closed)), None, &[], Some(1_101)),
        ],
    );
}

#[test]
fn a_refusal_is_reported_once_and_the_connection_once() {
    check(
        "nothing listens",
        &[
            (10, Some(Lost(Closed)), None, &[Probe], Some(750)),
            (10, Some(Retrying), None, &[], Some(750)),
            (11, Some(Probed(Err(Refused))), not(Refused), &[], Some(1_011)),
            (400, Some(Lost(Closed)), None, &[], Some(1_011)),
            (400, Some(Retrying), None, &[], Some(1_011)),
            (1_010, None, None, &[], Some(1_011)),
            (1_011, None, None, &[Probe], None),
            (1_012, Some(Probed(Err(Refused))), None, &[], Some(2_012)),
            (1_500, Some(Handshake), None, &[], Some(1_750)),
            (1_500, Some(Subscription), CONNECTED, &[], None),
        ],
    );
}

#[test]
fn an_attempt_without_an_end_is_silence() {
    check(
        "packets vanish",
        &[(749, None, None, &[], Some(750)), (750, None, not(Silent), &[Probe], None), (751, None, None, &[], None)],
    );
}

#[test]
fn a_probe_reports_nothing_of_a_peer_that_is_right_or_connected() {
    check(
        "ends late",
        &[
            (10, Some(Retrying), None, &[Probe], Some(750)),
            (20, Some(Handshake), None, &[], Some(270)),
            (20, Some(Subscription), CONNECTED, &[], None),
            (21, Some(Probed(Err(Refused))), None, &[], None),
            (30, Some(Lost(Closed)), not(Closed), &[], Some(1_030)),
            (30, Some(Retrying), None, &[], Some(1_030)),
            (1_030, None, None, &[Probe], None),
            (1_031, Some(Probed(Ok(()))), None, &[], Some(2_031)),
        ],
    );
    check(
        "still runs when the connection is lost",
        &[
            (10, Some(Retrying), None, &[Probe], Some(750)),
            (20, Some(Handshake), None, &[], Some(270)),
            (20, Some(Subscription), CONNECTED, &[], None),
            (30, Some(Lost(Closed)), not(Closed), &[], Some(1_030)),
            (30, Some(Retrying), None, &[], None),
            (5_000, None, None, &[], None),
            (5_001, Some(Probed(Err(Silent))), not(Silent), &[], Some(6_001)),
        ],
    );
}

#[test]
fn a_reconnect_is_due_again_and_again_while_libzmq_does_not_retry() {
    let rows: [Row; 7] = [
        (0, Some(Lost(Closed)), None, &[Probe], Some(750)),
        (1, Some(Probed(Err(wrong_side()))), not(wrong_side()), &[], Some(1_000)),
        (999, None, None, &[], Some(1_000)),
        (1_000, None, None, &[Reconnect], Some(1_001)),
        (1_001, None, None, &[Probe], Some(2_000)),
        (2_000, None, None, &[Reconnect], Some(3_000)),
        (2_100, Some(Retrying), None, &[], None),
    ];
    must_hit("libzmq forgets an endpoint that breaks the protocol", || check("a protocol error", &rows));
}

#[test]
fn a_name_is_looked_up_at_once_and_again_while_there_is_no_connection() {
    check_link(
        "moves",
        |start| LinkState::new(true, start),
        &[
            (0, None, None, &[Probe], Some(750)),
            (1, Some(Retrying), None, &[], Some(750)),
            (2, Some(Probed(Ok(()))), None, &[], Some(750)),
            (3, Some(Handshake), None, &[], Some(253)),
            (3, Some(Subscription), CONNECTED, &[], None),
            (10, Some(Lost(Closed)), not(Closed), &[], Some(1_010)),
            (10, Some(Retrying), None, &[], Some(1_010)),
            (1_010, None, None, &[Probe], None),
            (1_011, Some(Retrying), None, &[], None),
            (1_012, Some(Probed(Ok(()))), None, &[], Some(2_012)),
        ],
    );
}

#[test]
fn a_subscription_counts_for_no_connection_to_another_address() {
    let after_a_stale_one = |steps| {
        let redial = [
            (0, Some(Handshake), None, &[][..], Some(250)),
            (1, Some(Lost(Closed)), not(Closed), &[], Some(1_001)),
            (1, Some(Subscription), None, &[], Some(1_001)),
        ];
        [&redial[..], steps, &[(2_000, Some(Handshake), None, &[], Some(2_250))]].concat()
    };
    let redialled: &[Row] = &[(2, Some(Retrying), None, &[], Some(1_001)), (1_001, None, None, &[Probe], None)];
    check("another address", &after_a_stale_one(redialled));
    let forgotten: &[Row] = &[(1_001, None, None, &[Reconnect, Probe], Some(2_001))];
    check("a protocol error", &after_a_stale_one(forgotten));
}

#[test]
fn what_does_not_fit_is_told_with_what_it_is() {
    for (fault, text) in [
        (PeerFault::SocketType("SUB".into()), "the publishers' side of a hub listens there (a socket of type SUB)"),
        (PeerFault::SocketType("XPUB".into()), "the subscribers' side of a hub listens there (a socket of type XPUB)"),
        (PeerFault::SocketType("ROUTER".into()), "another ZeroMQ socket listens there (a socket of type ROUTER)"),
        (PeerFault::Greeting, "what listens there does not speak ZMTP 3, the protocol of ZeroMQ"),
        (PeerFault::Refused, "what listens there refuses the connection (its ZAP authentication sent an ERROR)"),
    ] {
        assert_eq!(NotConnected::Unfit(fault).to_string(), text);
    }
}
