//! A gateway whose peers ask for nothing takes no processor time, also while it cannot serve those that come.

use super::*;

const PORTS: [(Side, Transport); 3] =
    [(Side::Bind, Transport::Tcp), (Side::Hub, Transport::Tcp), (Side::Bind, Transport::Ipc)];

/// Ticks of the processor, of which a second has 100, that a gateway may take in this time while nothing happens.
const IDLE_TICKS: u64 = 5;
/// The same while peers that are refused come back again and again: a fifth of one core.
const REFUSING_TICKS: u64 = 60;
const COME_BACK_PAUSE: Duration = Duration::from_millis(10);

fn ticks(gateway: &Gateway, meanwhile: &str) -> u64 {
    cpu_ticks_within(Duration::from_secs(3), gateway.id(), meanwhile)
}

/// Starts peers that each connect, wait until the gateway ends the connection, and come back.
fn coming_back(endpoint: &str) -> [Task<()>; 8] {
    [(); 8].map(|()| {
        let endpoint = endpoint.to_owned();
        Task::start(move |over| {
            while !is_over(over) {
                if let Ok(mut peer) = RawPeer::try_connect(&endpoint) {
                    while !is_over(over) && !peer.is_ended() {
                        thread::sleep(COME_BACK_PAUSE);
                    }
                }
                thread::sleep(COME_BACK_PAUSE);
            }
        })
    })
}

/// The limit of descriptors may be lowered later, or the whole system may have none left.
#[test]
fn peers_that_are_refused_without_descriptors_and_a_hundred_subscribers_at_rest_cost_no_processor_time() {
    side_by_side(PORTS, |(side, transport)| {
        const SUBSCRIBERS: usize = 100;
        raise_descriptors();
        let mut rig = Rig::open(side, transport);
        let endpoint = &rig.subscribers;
        let (mut clients, former_limit) = take_all_descriptors(&rig.gateway);
        // A new connection has no descriptor.
        let mut assert_served = || {
            let message = Message::new(OWN_TOPIC, r#"{"served":true}"#);
            clients[0].exchange(&rig.gateway.request(message.body())).assert_accepted();
            assert_eq!(rig.subscriber.next(), message);
        };
        let waiting: Vec<_> = (0..20).map(|_| RawPeer::connect(endpoint)).collect();
        assert_served();
        let ticks_while_waiting = ticks(&rig.gateway, "while peers wait");
        for mut peer in waiting {
            peer.read_to_end();
        }
        let coming_back = coming_back(endpoint);
        let newcomers: Vec<_> = (0..4).map(|_| Subscriber::connected(endpoint, OWN_TOPIC)).collect();
        let ticks_while_refusing = ticks(&rig.gateway, "while they come back");
        assert_served();
        drop(coming_back);

        limit_descriptors(rig.gateway.id(), former_limit);
        for newcomer in newcomers {
            eventually("a peer that had waited is served", || {
                assert_served();
                newcomer.next_within(Duration::from_millis(50))
            });
        }
        assert!(ticks_while_waiting <= IDLE_TICKS, "{ticks_while_waiting} ticks while peers wait");
        assert!(ticks_while_refusing <= REFUSING_TICKS, "{ticks_while_refusing} ticks while peers come back");

        let context = zmq::Context::new();
        let subscribers: Vec<_> =
            (0..SUBSCRIBERS).map(|number| rig.connect_libzmq(&context, &number.to_string())).collect();
        rig.gateway.wait_count("subscriptions", SUBSCRIBERS + 1);
        // What the last of them have brought may not be done yet.
        wait_until("a span in which nothing happens", || ticks(&rig.gateway, "at rest") <= IDLE_TICKS);
        drop(subscribers);
        rig.assert_unharmed("no descriptors");
    });
}

/// As of a security module, or of a kernel that watches no more descriptors. A start needs those that are left.
#[test]
fn errors_that_nobody_foresees_are_paced_logged_and_counted() {
    const HELD: u64 = 300;
    let accept = |errno| Refusal { call: libc::SYS_accept4, argument: None, errno };
    // The descriptor that is added is the third argument.
    let watch = Refusal { call: libc::SYS_epoll_ctl, argument: Some((2, HELD)), errno: Errno::NOSPC };
    raise_descriptors();
    side_by_side([accept(Errno::ACCESS), accept(Errno::PERM), watch], |refusal| {
        let (_directory, [_, endpoint]) = hub_endpoints();
        let builder = Gateway::serve().io("epoll", "epoll").bind(&endpoint).arguments(["--head-timeout", "600"]);
        let mut gateway = builder.refused(refusal).start();
        let held = if refusal.argument.is_some() { HELD } else { 8 };
        let _clients: Vec<_> = (0..held).map(|_| Client::connect(gateway.address())).collect();
        gateway.wait_log("warning: cannot accept connections for now");
        // All descriptors that can be watched are taken now.
        let coming_back = coming_back(&endpoint);
        gateway.wait_log("warning: the bus cannot accept");
        let error = io::Error::from(refusal.errno);
        let ticks = ticks(&gateway, "while peers come back");
        drop(coming_back);
        let lines = gateway.log();
        let lines: Vec<_> = lines.lines().filter(|line| line.ends_with(&error.to_string())).collect();
        println!("{refusal:?}: {lines:#?}");
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(ticks <= REFUSING_TICKS, "{refusal:?}: {ticks} ticks");
        let peers = gateway.stats()["peers"].take();
        assert!(peers["refused"].as_u64().is_some_and(|refused| refused > 0), "{peers}");
        gateway.terminate();
    });
}
