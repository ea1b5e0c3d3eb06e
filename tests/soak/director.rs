//! What happens to the gateway while it serves: hubs end, the settings change, certificates are replaced. The kinds
//! come in a random order, each once before any comes again.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::hostile;
use crate::hub::{Bus, Hubs};
use crate::support::pair::{PairFiles, replace};
use crate::support::{Gateway, Pair, Random, disabled, enabled, refuses};
use crate::world::{Change, World};

/// The longest pause between two things in a short run.
const SHORT_PAUSE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Disturbance {
    KillHub,
    StopHub,
    KillStoppedHub,
    SwitchOff,
    NewToken,
    BrokenSettings,
    SameSettings,
    Hangup,
    NewCertificate,
    BrokenCertificate,
    PeersThatLeave,
    PeerThatChangesItsMind,
    SilentPeers,
    PeerThatDoesNotRead,
    PublishersThatLeave,
}

use Disturbance::*;

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
        let mut kinds = vec![StopHub, SwitchOff, NewToken, BrokenSettings, SameSettings, Hangup];
        let bus = &self.hubs.bus;
        for (is_possible, others) in [
            (bus.is_dialled, &[KillHub, KillStoppedHub][..]),
            (self.certificate.is_some(), &[NewCertificate, BrokenCertificate]),
            (!bus.is_dialled, &[PeersThatLeave, PeerThatChangesItsMind, SilentPeers, PeerThatDoesNotRead]),
            (bus.publishers.is_some(), &[PublishersThatLeave]),
        ] {
            kinds.extend(others.iter().filter(|_| is_possible));
        }
        loop {
            self.random.shuffle(&mut kinds);
            for &what in &kinds {
                let pause = self.random.pause_ms(500..longest_pause);
                sleep(pause.min(end.saturating_duration_since(Instant::now())));
                if Instant::now() >= end {
                    return;
                }
                println!("{:>7.1} s: {what:?}", begun.elapsed().as_secs_f64());
                self.disturb(what);
            }
        }
    }

    fn disturb(&mut self, what: Disturbance) {
        let Bus { endpoint, publishers, .. } = &self.hubs.bus;
        match what {
            KillHub => self.replace_hub(),
            StopHub | KillStoppedHub => {
                self.hubs.signal(Signal::STOP);
                sleep(self.random.pause_ms(500..6_000));
                if self.random.permille(300) {
                    self.new_token();
                }
                match what {
                    StopHub => self.hubs.signal(Signal::CONT),
                    _ => self.replace_hub(),
                }
            }
            SwitchOff => self.switch_off(),
            NewToken => self.new_token(),
            BrokenSettings => {
                self.gateway.settings.write("OPEN_REST_API = (\n");
                self.gateway.wait_settings("rejected");
                self.new_token();
            }
            SameSettings => {
                self.gateway.settings.write(&enabled(&self.world.token()));
                self.gateway.wait_settings("unchanged");
            }
            Hangup => {
                self.gateway.signal(Signal::HUP);
                self.gateway.wait_settings("unchanged");
            }
            NewCertificate => self.new_certificate(),
            BrokenCertificate => {
                let certificate = self.certificate.as_ref().expect("a certificate");
                replace(&certificate.files.certificate, "no certificate\n");
                self.gateway.wait_state("certificate", "rejected");
                self.new_certificate();
            }
            PeersThatLeave => hostile::subscribe_and_leave(endpoint, &mut self.random),
            PeerThatChangesItsMind => hostile::change_the_mind(endpoint),
            PublishersThatLeave => {
                let publishers = publishers.as_ref().expect("a hub");
                let _staller = self.random.permille(500).then(|| hostile::subscribe_and_not_read(endpoint));
                hostile::publish_and_leave(publishers, &mut self.random);
            }
            PeerThatDoesNotRead => {
                let staller = hostile::subscribe_and_not_read(endpoint);
                sleep(self.random.pause_ms(100..6_000));
                drop(staller);
            }
            SilentPeers => hostile::be_silent(endpoint, self.random.pause_ms(100..6_000)),
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
        self.gateway.settings.write(&enabled(&self.world.next_token()));
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
