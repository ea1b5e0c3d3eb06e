//! The running gateway: the sockets that it listens on, `ready` and `not-ready`, for which a parent waits before it
//! posts, what its parent can ask for, and what an idle gateway costs. A start that fails tells the parent and the user
//! why.

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
    let (not_ready, off) = (at(r#""not-ready","reason":"OPEN_REST_API"#), at(r#""disabled""#));
    assert!(not_ready < off, "that nothing is taken comes first: {output}");
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

/// The XDG Base Directory Specification has relative directories ignored.
#[test]
fn no_directory_for_the_settings_is_3_and_named() {
    let relative = [("XDG_CONFIG_HOME", "relative"), ("HOME", "relative")];
    let output = Process::spawn(binary().args(["serve", "--plain"]).envs(relative)).finish(3);
    assert_failed(&output, 3);
    assert!(output.stderr.contains("neither XDG_CONFIG_HOME nor HOME names a directory"), "{}", output.stderr);
}

/// Returns a gateway that the settings enable while another program has its port.
fn enabled_at_a_taken_port() -> (TcpListener, Gateway) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = Gateway::serve().no_settings().listen(taken.local_addr().unwrap()).start_disabled();
    gateway.settings.write(&enabled(&token("a")));
    (taken, gateway)
}

/// Its hub may carry other programs.
#[test]
fn a_port_that_is_taken_when_the_settings_enable_the_gateway_is_told_and_tried_again() {
    let (taken, mut gateway) = enabled_at_a_taken_port();
    gateway.wait_event("not-ready")["reason"].as_str().unwrap().to_owned().has("cannot listen on").has("in use");
    gateway.wait_log("it is tried again");
    gateway.stats();
    drop(taken);
    gateway.wait_listening();
    gateway.wait_event("ready");
    let (_taken, mut gateway) = enabled_at_a_taken_port();
    gateway.wait_event("not-ready");
    gateway.settings.write(disabled());
    gateway.wait_event("disabled");
    gateway.terminate();
}

#[test]
fn a_certificate_that_cannot_be_made_when_the_settings_enable_the_gateway_is_told_and_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("folder");
    fs::write(&folder, "").unwrap();
    let builder = Gateway::serve().https().no_settings().arguments(["--cert-dir", folder.to_str().unwrap()]);
    let mut gateway = builder.start_disabled();
    gateway.settings.write(&enabled(&token("a")));
    gateway.wait_event("not-ready")["reason"].as_str().unwrap().to_owned().has(folder.to_str().unwrap());
    fs::remove_file(&folder).unwrap();
    gateway.wait_listening();
    gateway.wait_event("ready");
    gateway.terminate();
}

/// NAME has 64 bytes, and no label of a name is longer than 63 (RFC 1035 §2.3.4), so no name server is asked, as for an
/// interface. The other address is for documents (RFC 3849), and no host has it. libzmq accepts some of the endpoints,
/// and would then try to connect for ever. `ipc://*` has no place for its file.
#[test]
fn what_refuses_a_start_is_named() {
    let other_program = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other_program.local_addr().unwrap().to_string();
    let (_directory, [one, other]) = hub_endpoints();
    let words = [("TAKEN", taken), ("NAME", "x".repeat(64)), ("ONE", one), ("OTHER", other)];
    let refused =
        words.iter().fold(include_str!("../../data/refused-starts.json").to_owned(), |text, (word, value)| {
            text.replace(word, value)
        });
    for (arguments, (status, named)) in serde_json::from_str::<BTreeMap<String, (i32, String)>>(&refused).unwrap() {
        let builder = Gateway::serve().after("export TMPDIR=/proc").arguments(arguments.split(' '));
        let builder = if arguments.starts_with("--tls") { builder.https() } else { builder };
        let stderr = builder.fail(status);
        assert!(stderr.contains(&named), "{arguments}: {stderr}");
    }
}

/// The unit tests of `cli` have one of each kind; here are those of `main`, and those of several options together.
#[test]
fn wrong_arguments_are_2_with_a_message_on_stderr() {
    let wrong = include_str!("../../data/wrong-arguments.json");
    for (arguments, said) in serde_json::from_str::<BTreeMap<String, String>>(wrong).unwrap() {
        let output = run(arguments.split_whitespace(), 2);
        assert!(!output.stderr.trim().is_empty() && output.stderr.contains(&said), "{arguments}: {}", output.stderr);
        assert_eq!(output.stdout, "", "{arguments}");
    }
}
