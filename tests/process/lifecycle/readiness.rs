//! `ready` and `not-ready`: a parent waits for one event before it posts.

use crate::support::*;

/// Returns the events up to that of this name, and of this state if there is one.
pub(crate) fn events_until(gateway: &mut Gateway, name: &str, state: Option<&str>) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let event = gateway.wait_for(name, |_any| true);
        let is_last = is_event(&event, name) && state.is_none_or(|state| event["state"] == state);
        events.push(event);
        if is_last {
            return events;
        }
    }
}

#[test]
fn a_message_that_is_posted_after_ready_is_taken() {
    for https in [false, true] {
        let bus = Subscriber::bound();
        let builder = Gateway::serve().connect(bus.endpoint()).listen(ANY_PORT).listen(ANY_PORT);
        let mut gateway = if https { builder.https() } else { builder }.spawn();
        let events = events_until(&mut gateway, "ready", None);
        let count = |name: &str| events.iter().filter(|event| is_event(event, name)).count();
        assert_eq!((count("listening"), count("bus"), count("not-ready")), (2, 1, 0), "{events:?}");
        if !https {
            gateway.wait_subscribed(bus.endpoint());
            let url = events.iter().find(|event| is_event(event, "listening")).unwrap()["url"].as_str().unwrap();
            let address = url.split('/').nth(2).unwrap().parse().unwrap();
            Client::connect(address).exchange(&gateway.request(FINE)).assert_accepted();
            assert_eq!(bus.next(), Message::new("t", "{}"));
        }
        gateway.terminate();
    }
}

#[test]
fn a_bound_endpoint_is_ready_as_soon_as_the_gateway_listens() {
    let mut gateway = Gateway::serve().start();
    let events = events_until(&mut gateway, "ready", None);
    assert!(is_event(&events[0], "bus") && events.len() == 2, "{events:?}");
    assert_eq!(events[0]["state"], "bound");
    gateway.post(FINE).assert_accepted();
}

#[test]
fn the_loss_of_the_hub_and_the_settings_end_the_readiness_with_their_reason() {
    let (_directory, endpoint) = temporary_endpoint();
    let (first, _) = bound_socket(zmq::SUB, &endpoint);
    let mut gateway = Gateway::serve().connect(&endpoint).start_ready();
    drop(first);
    let lost = gateway.wait_event("not-ready");
    assert!(lost["reason"].as_str().unwrap().contains("bus"), "{lost}");
    assert_eq!(gateway.post(FINE).status, 503);

    let _second = bound_socket(zmq::SUB, &endpoint);
    gateway.wait_event("ready");
    gateway.post(FINE).assert_accepted();

    gateway.settings.write(disabled());
    let off = gateway.wait_event("not-ready");
    assert_eq!(off["reason"], gateway.wait_event("disabled")["reason"]);
    gateway.settings.write(&enabled(&token("of-the-test")));
    gateway.wait_event("ready");
    gateway.terminate();
    let output = gateway.end().stdout;
    let states: Vec<&str> = output.lines().filter(|line| line.contains("ready")).collect();
    assert_eq!(states.len(), 6, "each state is told once, and the stop ends the last one: {output}");
}

#[test]
fn a_gateway_whose_hub_is_away_or_that_is_disabled_is_not_ready_and_stops() {
    let away = Gateway::serve().connect(&dead_endpoint()).start();
    let mut disabled = Gateway::serve().no_settings().spawn();
    disabled.wait_event("disabled");
    for mut gateway in [away, disabled] {
        assert_eq!(gateway.terminate().accepted, 0);
        let output = gateway.end().stdout;
        assert!(!output.contains("ready"), "{output}");
    }
}
