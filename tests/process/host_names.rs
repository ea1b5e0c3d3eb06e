//! Endpoints whose host is a name: a name server that does not answer holds up nothing but its own endpoint.

use std::net::{Ipv6Addr, UdpSocket};

use crate::support::*;

/// A name that only a name server could know.
const UNKNOWN: &str = "tcp://hub.example.org:16130";

/// Calls `test` with a script, behind which a file with this text is in the place of `path`, and with that file.
fn with_file_at(path: &str, text: &str, test: impl FnOnce(&str, &Path)) {
    needs!(can_mount());
    let (_directory, file) = temporary_path("file");
    fs::write(&file, text).unwrap();
    test(&unshared("--mount", &format!("mount --bind {} {path}", file.display())), &file);
}

/// Calls `test` with such a script, whose name server does not answer, and with what waits until that is asked.
fn with_silent_name_server(test: impl FnOnce(&str, &dyn Fn())) {
    let address = free_address().ip();
    let Ok(server) = UdpSocket::bind((address, 53)) else {
        return skip("no name server can be replaced here: this needs port 53");
    };
    // The resolver waits longer than any wait of these tests (resolv.conf(5)).
    let text = format!("nameserver {address}\noptions timeout:30 attempts:5\n");
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let wait_asked = || _ = server.recv(&mut [0; 512]).expect("the name server is asked");
    with_file_at("/etc/resolv.conf", &text, |script, _| test(script, &wait_asked));
}

#[test]
fn a_name_server_that_does_not_answer_holds_up_no_other_endpoint_and_no_stop_and_refuses_a_start_that_needs_it() {
    with_silent_name_server(|script, wait_asked| {
        let subscriber = Subscriber::bound();
        let builder = Gateway::serve().after(script).connect(UNKNOWN).connect(subscriber.endpoint());
        let mut gateway = builder.arguments(["--drain-timeout", "2"]).start();
        wait_asked();
        let connected = gateway.wait_connected();
        assert_eq!(connected["endpoint"], subscriber.endpoint());
        gateway.wait_subscribed(subscriber.endpoint());
        gateway.post(Message::new("t", r#"{"n":1}"#).body()).assert_accepted();
        assert_eq!(subscriber.next(), Message::new("t", r#"{"n":1}"#));
        gateway.terminate();

        let builder = Gateway::serve().after(script).arguments(["--listen", "gateway.example.org:12358"]);
        builder.fail(4).has("cannot listen on gateway.example.org:12358: no name server answers");
        wait_asked();
    });
}

/// Calls `ready` when `send` waits for this gateway, and then interrupts it, which ends it with its summary.
fn interrupt_send(script: &str, gateway: &str, ready: impl FnOnce()) {
    let settings = enabled_settings("x");
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(binary().get_program());
    command.args(["send", "--url", gateway, "--settings"]).arg(settings.path()).args(["t", "{}"]);
    let mut send = Process::spawn(&mut command);
    ready();
    let interrupted = Instant::now();
    send.signal(Signal::INT);
    send.finish(1).stderr.ends("error: ended by a signal\n");
    assert!(interrupted.elapsed() < Duration::from_secs(4), "{:?}", interrupted.elapsed());
}

#[test]
fn a_signal_ends_send_with_its_summary_while_a_name_server_does_not_answer() {
    with_silent_name_server(|script, wait_asked| interrupt_send(script, "http://gateway.example.org", wait_asked));
}

/// A listener whose queue is full drops what would connect.
#[test]
fn a_signal_ends_send_with_its_summary_while_no_address_of_a_name_answers() {
    let queue = |address: SocketAddr| {
        let listener = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&address.into()).unwrap();
        listener.listen(0).unwrap();
        (listener, TcpStream::connect(address).unwrap())
    };
    let first = free_address();
    let second = SocketAddr::new(free_address().ip(), first.port());
    let _full = [queue(first), queue(second)];
    with_file_at("/etc/hosts", &format!("{} silent\n{} silent\n", first.ip(), second.ip()), |script, _| {
        // As the kernel writes an address to which it sends its first packet (proc(5)).
        let SocketAddr::V4(address) = first else { unreachable!("the tests have addresses of IPv4") };
        let sent = format!(" {:08X}:{:04X} 02 ", u32::from_ne_bytes(address.ip().octets()), address.port());
        let connects = || fs::read_to_string("/proc/net/tcp").unwrap().contains(&sent).then_some(());
        interrupt_send(script, &format!("http://silent:{}", first.port()), || eventually("it connects", connects));
    });
}

fn hub_at(address: SocketAddr) -> zmq::Socket {
    let hub = socket(zmq::SUB);
    hub.set_rcvtimeo(20).unwrap();
    hub.set_ipv6(address.is_ipv6()).unwrap();
    eventually("the port is free", || hub.bind(&format!("tcp://{address}")).ok());
    hub
}

/// Posts messages until one arrives at the hub. Returns how many were accepted.
fn wait_served(gateway: &Gateway, hub: &zmq::Socket) -> usize {
    let mut accepted = 0;
    eventually("a message arrives", || {
        accepted += usize::from(gateway.post(Message::new("t", "{}").body()).status == 200);
        hub.recv_multipart(0).ok()
    });
    accepted
}

#[test]
fn a_hub_that_gets_another_address_or_is_at_any_of_several_is_found() {
    let first = free_address();
    let second = SocketAddr::new(free_address().ip(), first.port());
    let line = |address: SocketAddr| format!("{} moving-hub\n", address.ip());
    let both = line(first) + &line(second);
    for (before, after) in [(line(first), line(second)), (both.clone(), both)] {
        with_file_at("/etc/hosts", &before, |script, hosts| {
            let endpoint = format!("tcp://moving-hub:{}", first.port());
            let mut gateway = Gateway::serve().after(script).connect(&endpoint).start();
            let mut lost = None;
            for (hosts_now, address) in [(&before, first), (&after, second), (&before, first)] {
                fs::write(hosts, hosts_now).unwrap();
                let hub = hub_at(address);
                let accepted = wait_served(&gateway, &hub);
                gateway.wait_connected();
                drop(hub);
                gateway.wait_disconnected(&endpoint, "closed");
                lost.iter().for_each(|lost: &String| _ = gateway.wait_log(lost));
                let waited = format!("published messages that waited for the hub at tcp://{address} are lost");
                lost = Some(format!("warning: {endpoint}: {waited}: {accepted} at most"));
            }
        });
    }
}

#[test]
fn a_name_in_brackets_is_an_ipv6_address() {
    let Ok(free) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else { return };
    let address = free.local_addr().unwrap();
    drop(free);
    with_file_at("/etc/hosts", "::1 distant-hub\n", |script, _| {
        let endpoint = format!("tcp://[distant-hub]:{}", address.port());
        let mut gateway = Gateway::serve().after(script).connect(&endpoint).start();
        gateway.wait_event("bus")["reason"].to_string().has("nothing listens there");
        wait_served(&gateway, &hub_at(address));
    });
}

#[test]
fn a_parent_learns_that_a_name_cannot_be_resolved() {
    // Nothing listens there, so that each question is refused at once.
    let nobody = format!("nameserver {}\n", free_address().ip());
    with_file_at("/etc/resolv.conf", &nobody, |script, _| {
        let mut gateway = Gateway::serve().after(script).connect(UNKNOWN).start();
        gateway.wait_disconnected(UNKNOWN, "the name cannot be resolved");
    });
}

/// The gateway and the hub listen at other ones. Other programs take all of them where they end many connections.
#[test]
fn a_hub_is_dialled_while_each_ephemeral_port_has_a_connection_to_another_place() {
    let two_ports = "echo 40000 40001 >/proc/sys/net/ipv4/ip_local_port_range";
    let script = beside_a_hub(two_ports, "tcp://*:16130");
    needs!(is_possible(&script));
    let builder = Gateway::serve().connect("tcp://127.0.0.2:16130").connect("tcp://127.0.0.3:16130");
    let mut gateway = builder.after(&script).start();
    assert_ne!(gateway.wait_connected()["endpoint"], gateway.wait_connected()["endpoint"]);
}

#[test]
fn a_hub_at_an_address_with_a_zone_is_dialled() {
    let [name, number] = ["lo", "1"].map(|zone| format!("tcp://[fe80::1%{zone}]:16130"));
    for (bound, dialled) in [(&name, &number), (&number, &name)] {
        let script = beside_a_hub("ip addr add fe80::1/64 dev lo nodad", bound);
        needs!(is_possible(&script));
        let connected = Gateway::serve().connect(dialled).after(&script).start().wait_connected();
        assert_eq!(connected["endpoint"], dialled.as_str());
    }
}
