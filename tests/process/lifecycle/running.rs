//! The running gateway: the sockets that it listens on, `ready` and `not-ready`, for which a parent waits before it
//! posts, what its parent can ask for and may do, and what an idle gateway costs.

use std::net::ToSocketAddrs;

use super::*;

#[test]
fn stats_are_printed_at_the_interval_of_the_option_and_after_a_pause_none_for_the_time_that_has_passed() {
    let mut gateway = Gateway::serve().arguments(["--stats", "1"]).start();
    gateway.wait_event("stats");
    gateway.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(4));
    gateway.signal(Signal::CONT);
    let uptimes = [(); 4].map(|()| gateway.wait_event("stats")["uptime_s"].as_u64().unwrap());
    assert!(uptimes[3] >= uptimes[0] + 2, "{uptimes:?}");
}

/// A process inherits what its parent has blocked.
#[test]
fn the_gateway_obeys_signals_that_its_parent_has_blocked() {
    let blocking = "exec env --block-signal=HUP,INT,TERM,USR1,USR2 \"$@\"";
    for signal in [Signal::INT, Signal::TERM] {
        let mut gateway = Gateway::serve().after(blocking).start();
        gateway.stats();
        gateway.signal(Signal::USR2);
        gateway.wait_event("stats");
        gateway.signal(Signal::HUP);
        gateway.wait_settings("unchanged");
        gateway.signal(signal);
        gateway.expect_stopped();
    }
}

/// A hub and a client are connected. A look at the files every five seconds may fall into a tick.
#[test]
fn an_idle_gateway_uses_no_cpu() {
    let fixture = Fixture::start();
    let _client = fixture.gateway.served_client();
    let ticks = |seconds| cpu_ticks_within(Duration::from_secs(seconds), fixture.id(), "at rest");
    wait_until("the start is over", || ticks(1) == 0);
    let ticks = ticks(6);
    assert!(ticks <= 2, "{ticks} ticks");
}

#[test]
fn the_token_is_not_on_the_command_line_or_in_the_environment() {
    let gateway = Gateway::serve().start();
    for client in [gateway.target(), "/api/message?token=wrong".to_owned(), "/".to_owned()] {
        gateway.client().exchange(&gateway.request(FINE).target(&client));
    }
    let token = gateway.token().to_owned();
    for file in ["cmdline", "environ"] {
        let content = fs::read(format!("/proc/{}/{file}", gateway.id())).unwrap();
        assert!(!String::from_utf8_lossy(&content).contains(&token), "{file}");
    }
    // `Gateway` checks on drop, in every test, that no log and no event contains the token.
}

/// Port 0 is another port for each address. An address that this host lacks, such as ::1 without IPv6, is left out.
#[test]
fn a_name_stands_for_each_of_its_addresses() {
    let expected: Vec<_> =
        ("localhost", 0).to_socket_addrs().unwrap().filter(|at| TcpListener::bind(at).is_ok()).collect();
    let mut gateway = Gateway::serve().listen(ANY_PORT).arguments(["--listen", "localhost:0"]).start();
    let ips: BTreeSet<_> = expected.iter().map(SocketAddr::ip).collect();
    for _ in &ips {
        gateway.wait_listening();
    }
    let [_, named @ ..] = gateway.addresses() else { panic!("listeners") };
    assert_eq!(named.iter().map(SocketAddr::ip).collect::<BTreeSet<_>>(), ips);
    for address in named {
        Client::connect(*address).exchange(&gateway.request(FINE)).assert_accepted();
    }
}

#[test]
fn an_address_that_others_reach_leaves_a_warning() {
    for (address, is_reachable) in [("0.0.0.0:0", true), ("127.0.0.2:0", false)] {
        let mut gateway = Gateway::serve().listen(address.parse().unwrap()).start();
        let text = format!("warning: {} is no loopback address: every machine that reaches it", gateway.address());
        if is_reachable {
            gateway.wait_log(&text);
            gateway.wait_log("whoever is on the way can read it in plain http");
        }
        assert_eq!(gateway.stop().stderr.contains("loopback"), is_reachable);
    }
}

/// The kernel spreads connections over the workers, so some of 128 connections reach each of the two workers.
#[test]
fn each_listener_has_its_own_event_and_every_worker_serves_on_it() {
    let builder = Gateway::serve().listen(ANY_PORT).listen(ANY_PORT);
    let mut gateway = builder.arguments(["--workers", "2"]).start();
    gateway.wait_listening();
    let [first, second] = gateway.addresses() else { panic!("two listeners") };
    assert_ne!(first, second);
    let clients = gateway.addresses().iter().cycle().take(128).map(|&address| Client::connect(address));
    let mut clients: Vec<Client> = clients.collect();
    (0..2).for_each(|_| gateway.serve_each(&mut clients));
    assert_eq!(gateway.terminate(), 256);
}

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
    let output = gateway.stop().stdout;
    let states: Vec<&str> = output.lines().filter(|line| line.contains("ready")).collect();
    assert_eq!(states.len(), 6, "each state is told once, and the stop ends the last one: {output}");
    let at = |text: &str| output.find(text).unwrap();
    assert!(
        at(r#""not-ready","reason":"OPEN_REST_API"#) < at(r#""disabled""#),
        "that nothing is taken comes first: {output}"
    );
}

/// A parent that shows why no message is taken must not go on showing that the settings have the API off.
#[test]
fn an_api_that_is_switched_on_while_the_hub_is_away_says_why_no_message_is_taken() {
    let mut gateway = Gateway::serve().no_settings().connect(&dead_endpoint()).start_disabled();
    gateway.wait_state("bus", "disconnected");
    gateway.enable("of-the-test");
    let output = gateway.stop().stdout;
    let told: Vec<&str> = output.lines().filter(|line| line.contains("ready") || line.contains("disabled")).collect();
    assert_eq!(told[1..], [r#"{"event":"not-ready","reason":"the bus is not connected"}"#], "{output}");
    // One that the settings had on from the start was never ready, and does not say that it is so no longer.
    Gateway::serve().connect(&dead_endpoint()).start().stop().stdout.lacks("ready");
}
