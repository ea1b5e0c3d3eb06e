//! What happens to the gateway while it serves: hubs end, the settings change, certificates are replaced, and peers of a bound
//! endpoint mean harm. The kinds come in a random order, each once before any comes again.

use std::net::TcpStream;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::hub::{Bus, Hubs};
use crate::support::pair::{PairFiles, replace};
use crate::support::peer::message;
use crate::support::{Form, Gateway, Pair, Random, RawPeer, disabled, enabled, frame, refuses, subscribe};
use crate::world::{Change, World, nth_token};

/// The longest pause between two things in a short run.
const SHORT_PAUSE: Duration = Duration::from_secs(5);

/// What can happen: whether it can with this gateway, its name, and what to do.
type Disturbance = (bool, &'static str, fn(&mut Director));

/// The certificate of a gateway that serves https.
pub(crate) struct Certificate {
    pub(crate) files: PairFiles,
    pub(crate) pair: Pair,
}

pub(crate) struct Director {
    pub(crate) world: Arc<World>,
    pub(crate) gateway: Gateway,
    pub(crate) hubs: Hubs,
    pub(crate) certificate: Option<Certificate>,
    pub(crate) random: Random,
}

impl Director {
    pub(crate) fn run(&mut self, duration: Duration) {
        let begun = Instant::now();
        let end = begun + duration;
        // In a long run, there is time for all clients to connect between two things.
        let longest_pause = (duration / 180).max(SHORT_PAUSE).as_millis() as usize;
        let mut kinds = self.disturbances();
        kinds.retain(|(is_possible, ..)| *is_possible);
        loop {
            self.random.shuffle(&mut kinds);
            for (_, what, disturb) in &kinds {
                let pause = self.random.pause_ms(500..longest_pause);
                sleep(pause.min(end.saturating_duration_since(Instant::now())));
                if Instant::now() >= end {
                    return;
                }
                println!("{:>7.1} s: {what}", begun.elapsed().as_secs_f64());
                disturb(self);
            }
        }
    }

    fn disturbances(&self) -> Vec<Disturbance> {
        let (is_dialled, has_certificate) = (self.hubs.bus.is_dialled, self.certificate.is_some());
        let (is_bound, has_publishers) = (!is_dialled, self.hubs.bus.publishers.is_some());
        vec![
            (is_dialled, "kill the hub", Self::replace_hub),
            (true, "stop the hub", |it| {
                it.stop_hub();
                it.hubs.signal(Signal::CONT);
            }),
            (is_dialled, "kill the stopped hub", |it| {
                it.stop_hub();
                it.replace_hub();
            }),
            (true, "switch off", Self::switch_off),
            (true, "new token", Self::new_token),
            (true, "broken settings", |it| {
                it.gateway.settings.write("OPEN_REST_API = (\n");
                it.gateway.wait_settings("rejected");
                it.new_token();
            }),
            (true, "same settings", |it| {
                it.gateway.settings.write(&enabled(&it.world.token()));
                it.gateway.wait_settings("unchanged");
            }),
            (true, "hangup", |it| {
                it.gateway.signal(Signal::HUP);
                it.gateway.wait_settings("unchanged");
            }),
            (has_certificate, "new certificate", Self::new_certificate),
            (has_certificate, "broken certificate", |it| {
                let certificate = it.certificate.as_ref().expect("a certificate");
                replace(&certificate.files.certificate, "no certificate\n");
                it.gateway.wait_state("certificate", "rejected");
                it.new_certificate();
            }),
            (is_bound, "peers that leave", |it| subscribe_and_leave(&it.hubs.bus.endpoint, &mut it.random)),
            (is_bound, "a peer that changes its mind", |it| change_the_mind(&it.hubs.bus.endpoint)),
            (is_bound, "silent peers", |it| be_silent(&it.hubs.bus.endpoint, it.random.pause_ms(100..6_000))),
            (is_bound, "a peer that does not read", |it| {
                let _staller = subscribe_and_not_read(&it.hubs.bus.endpoint);
                sleep(it.random.pause_ms(100..6_000));
            }),
            (has_publishers, "publishers that leave", |it| {
                let Bus { endpoint, publishers, .. } = &it.hubs.bus;
                let _staller = it.random.permille(500).then(|| subscribe_and_not_read(endpoint));
                publish_and_leave(publishers.as_ref().expect("a hub"), &mut it.random);
            }),
        ]
    }

    fn stop_hub(&mut self) {
        self.hubs.signal(Signal::STOP);
        sleep(self.random.pause_ms(500..6_000));
        if self.random.permille(300) {
            self.new_token();
        }
    }

    fn replace_hub(&mut self) {
        self.world.changes.begin(Change::Hub);
        self.hubs.kill();
        sleep(self.random.pause_ms(0..2_000));
        self.hubs.start_next();
        self.gateway.wait_connected();
        self.world.changes.complete(Change::Hub);
    }

    fn switch_off(&mut self) {
        self.world.changes.begin(Change::Switch);
        self.gateway.settings.write(disabled());
        self.gateway.wait_event("disabled");
        self.gateway.wait_settings("reloaded");
        if !refuses(self.world.tcp) || self.world.unix.exists() {
            self.world.fail("the API is off, and something listens");
        }
        sleep(self.random.pause_ms(0..2_000));
        self.gateway.settings.write(&enabled(&self.world.token()));
        self.gateway.wait_listening();
        self.gateway.wait_listening();
        self.gateway.wait_settings("reloaded");
        self.world.changes.complete(Change::Switch);
    }

    fn new_token(&mut self) {
        self.world.changes.begin(Change::Token);
        self.gateway.settings.write(&enabled(&nth_token(self.world.token_number() + 1)));
        self.gateway.wait_settings("reloaded");
        self.world.changes.complete(Change::Token);
    }

    fn new_certificate(&mut self) {
        let certificate = self.certificate.as_mut().expect("a certificate");
        let pair = Pair::ec();
        self.world.changes.begin(Change::Certificate);
        self.world.trust([certificate.pair.leaf(), pair.leaf()]);
        certificate.files.replace(&pair);
        self.world.trust([certificate.pair.leaf(), pair.leaf()]);
        certificate.pair = pair.clone();
        self.gateway.wait_state("certificate", "replaced");
        self.world.trust([pair.leaf()]);
        self.world.changes.complete(Change::Certificate);
    }
}

/// The topic of what hostile publishers send, which does not count.
pub(crate) const HOSTILE_TOPIC: &[u8] = b"hostile";
/// Publishers that come and leave.
const PUBLISHERS: usize = 10;
/// How long one of them tries to send.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);
/// Peers that come and leave.
const PEERS: usize = 100;
/// Connections that send nothing.
const SILENT: usize = 200;
/// Changes of a subscription by one peer, far beyond the bound.
const CHANGES: usize = 50_000;

/// Peers subscribe to much, each with prefixes of its own, and leave.
pub(crate) fn subscribe_and_leave(endpoint: &str, random: &mut Random) {
    for peer_number in 0..PEERS {
        let mut peer = RawPeer::speaking(endpoint, "SUB");
        let prefix_bytes = random.within(8..1_000);
        let subscriptions = (0..random.within(1..300)).flat_map(|number| {
            let mut prefix = format!("\u{1}{number} of {peer_number}").into_bytes();
            prefix.resize(prefix.len().max(prefix_bytes), b'x');
            subscribe(Form::Message, &prefix)
        });
        peer.send(&subscriptions.collect::<Vec<_>>());
        if random.permille(500) {
            sleep(random.pause_ms(0..20));
        }
    }
}

/// A peer subscribes and cancels until it is disconnected.
pub(crate) fn change_the_mind(endpoint: &str) {
    let mut peer = RawPeer::speaking(endpoint, "SUB");
    let change = [subscribe(Form::Message, b"\x01"), frame(0, b"\x00\x01")].concat();
    peer.send(&change.repeat(CHANGES));
}

/// Returns a subscriber to everything. It reads nothing for as long as it lives.
pub(crate) fn subscribe_and_not_read(endpoint: &str) -> RawPeer {
    let mut peer = RawPeer::speaking(endpoint, "SUB");
    peer.send(&subscribe(Form::Message, b""));
    peer
}

/// Publishers send messages of all sizes, as long as these are taken, and leave. The last message may be incomplete.
pub(crate) fn publish_and_leave(endpoint: &str, random: &mut Random) {
    for _ in 0..PUBLISHERS {
        let mut peer = RawPeer::hasty_publisher(endpoint, SEND_TIMEOUT);
        let sent = message(&[HOSTILE_TOPIC, &vec![b' '; random.within(0..200_000)]]);
        let _taken = (0..random.within(1..20)).take_while(|_| peer.send(&sent)).count();
        peer.send(&sent[..random.within(0..sent.len())]);
    }
}

/// Connections are open for a while, and send nothing.
pub(crate) fn be_silent(endpoint: &str, time: Duration) {
    let address = endpoint.strip_prefix("tcp://").expect("a tcp endpoint");
    let silent: Vec<_> = (0..SILENT).map(|_| TcpStream::connect(address)).collect();
    sleep(time);
    drop(silent);
}
