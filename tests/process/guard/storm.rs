//! Random and mutated connections, a great many of them.

use std::net::SocketAddrV4;

use socket2::Domain;

use super::*;

/// The environment variable that says how many connections are made to each port.
const CONNECTIONS: &str = "GUARD_CONNECTIONS";
/// The environment variable that repeats a storm.
const SEED: &str = "GUARD_SEED";
const CLIENTS: u64 = 48;

impl Random {
    /// A frame: one that a real peer sends, or something like it.
    fn frame(&mut self) -> Vec<u8> {
        let body = self.bytes(40);
        match self.below(12) {
            0 => message(&[&body, b"{}"]),
            1 => message(&[&body, &self.bytes(3_000)]),
            2 => message(&[&body]),
            3 => message(&vec![&body[..]; 1 + self.below(20)]),
            4 => subscribe(Form::Command, &body),
            5 => subscribe(Form::Message, &body),
            6 => subscribe(Form::Command, &vec![7; self.below(2_001)]),
            7 => frame(4, &[b"\x06CANCEL", &body[..]].concat()),
            8 => frame(4, &[b"\x04PING", &body[..]].concat()),
            9 => frame(self.pick(&[0, MORE, 2, 4, 6, 8, 255]), &body),
            10 => frame_head(self.pick(&[0, MORE, 4]), self.pick(&[0, 255, 256, 70_000, 800_000_000, usize::MAX])),
            _ => body,
        }
    }

    /// What one connection sends.
    fn stream(&mut self) -> Vec<u8> {
        let [greeting, ready] =
            handshake(self.pick(&["PUB", "XPUB", "SUB", "XSUB", "PUB", "SUB", "REQ", "", "STREAM"]));
        let mut bytes = match self.below(10) {
            0 => self.bytes(300),
            1 => format!("{} / HTTP/1.1\r\nHost: x\r\n\r\n", self.pick(&["GET", "POST", "PUT"])).into_bytes(),
            2 => b"\x01\x00".to_vec(),
            3 => [&b"\xff\0\0\0\0\0\0\0\x01\x7f\x01"[..], &[self.next() as u8, 0, 0]].concat(),
            4 => greeting,
            _ => [greeting, ready].concat(),
        };
        (0..self.below(12)).for_each(|_| bytes.extend(self.frame()));
        if self.one_in(3) && !bytes.is_empty() {
            for _ in 0..=self.below(3) {
                let at = self.below(bytes.len());
                bytes[at] = self.next() as u8;
            }
        }
        if self.one_in(4) {
            bytes.truncate(self.below(bytes.len() + 1));
        }
        bytes
    }
}

/// Makes one connection, from an address of its own, as each has some 28,000 ports. Returns whether it came about.
fn connect_once(target: SocketAddr, random: &mut Random) -> bool {
    let [_, b, c, d] = (random.next() as u32).to_be_bytes();
    let source = SocketAddr::from(SocketAddrV4::new(Ipv4Addr::new(127, b, c, d.clamp(1, 254)), 0));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    socket.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    if socket.bind(&source.into()).is_err() || socket.connect(&target.into()).is_err() {
        return false;
    }
    let bytes = random.stream();
    // Some peers wait for the READY of the other side before they send more.
    let waits = random.one_in(3);
    let mut answer = [0; 256];
    for part in bytes.chunks(1 + random.below(bytes.len() + 1)) {
        let is_over = (&socket).write_all(part).is_err();
        if is_over || (waits && (&socket).read(&mut answer).is_ok_and(|length| length == 0)) {
            break;
        }
    }
    // Each of these fails only if the other side has ended the connection.
    match random.below(4) {
        0 => drop((&socket).read(&mut answer)),
        1 => drop(socket.shutdown(Shutdown::Write)),
        _ => drop(socket.set_linger(Some(Duration::ZERO))),
    }
    true
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

#[test]
fn every_port_of_the_bus_stands_a_storm() {
    let modes: &[&'static str] = if io_mode() == "uring" { &["uring", "epoll"] } else { &["epoll"] };
    let start = |io, side| Rig::start(Gateway::serve().io(io, io), side, Transport::Tcp, OWN_TOPIC);
    for io in modes {
        let (hub, other_hub, bound) = (start(io, Side::Hub), start(io, Side::Hub), start(io, Side::Bind));
        let publishers = hub.publishers().to_owned();
        let [subscribers, endpoint] = [&other_hub, &bound].map(|rig| rig.subscribers.clone());
        let ports = [
            ("publishers' side", hub, publishers),
            ("subscribers' side", other_hub, subscribers),
            ("bound endpoint", bound, endpoint),
        ];
        side_by_side(ports, |(port, rig, endpoint)| {
            let what = format!("{port}, {io}");
            raise_descriptors();
            let connections = number(CONNECTIONS).unwrap_or(2_000);
            let seed = number(SEED).unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
            println!("{what}: {connections} connections, {SEED}={seed}");
            let target: SocketAddr = endpoint.strip_prefix("tcp://").unwrap().parse().unwrap();
            let (made, since) = (AtomicU64::new(0), Instant::now());
            thread::scope(|clients| {
                for client in 0..CLIENTS {
                    let made = &made;
                    clients.spawn(move || {
                        for number in (client..connections).step_by(CLIENTS as usize) {
                            // Each connection has its own seed, so that a single one can be repeated.
                            let came_about = connect_once(target, &mut Random(seed.wrapping_add(number)));
                            made.fetch_add(u64::from(came_about), Ordering::Relaxed);
                        }
                    });
                }
            });
            let (made, seconds) = (made.into_inner(), since.elapsed().as_secs());
            println!("{what}: {made} of {connections} connections in {seconds} s");
            assert!(made * 10 > connections * 9, "only {made} connections came about");
            rig.assert_unharmed(&what);
        });
    }
}
