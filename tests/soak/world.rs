//! What clients know of the gateway: where it is, its token, its certificate, and what is changing just now. An answer
//! that is wrong otherwise may be right during a change.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use adapter_gateway::terms::limits::{Limits, Timeouts};
use rustls::pki_types::CertificateDer;
use rustls::{ALL_VERSIONS, ClientConfig};
use tokio::sync::watch;

use crate::account::Account;
use crate::support::ladder::Fault;
use crate::support::plan::Plan;
use crate::support::planned::{Author, Moment, Planned};
use crate::support::tls::trusting;
use crate::support::token;

/// The timeouts of the gateway. A request that met none of them may not end without its answer.
pub(crate) const TIMEOUTS: Timeouts =
    Timeouts { head: Duration::from_secs(10), body: Duration::from_secs(15), idle: Duration::from_secs(20) };

/// What changes while clients are served.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The settings switch the API off and on.
    Switch,
    Token,
    Certificate,
    /// A hub ends, until the gateway is connected to the next one.
    Hub,
}

/// How often each of the four has begun to change, and how often such a change was complete.
#[derive(Default)]
pub(crate) struct Changes {
    begun: [AtomicU32; 4],
    complete: [AtomicU32; 4],
}

/// The complete changes of a moment, for the question what has changed since.
#[derive(Clone, Copy)]
pub(crate) struct Since([u32; 4]);

impl Changes {
    pub(crate) fn begin(&self, what: Change) {
        self.begun[what as usize].fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn complete(&self, what: Change) {
        self.complete[what as usize].fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> Since {
        Since(self.complete.each_ref().map(|count| count.load(Ordering::SeqCst)))
    }

    pub(crate) fn has_changed(&self, what: Change, since: Since) -> bool {
        self.begun[what as usize].load(Ordering::SeqCst) > since.0[what as usize]
    }

    /// Returns what may have decided on a request that was sent then, on a connection that began then.
    pub(crate) fn moments(&self, begun: Since, sent: Since) -> Vec<Moment> {
        let tokens = sent.0[Change::Token as usize]..=self.begun[Change::Token as usize].load(Ordering::SeqCst);
        let switched_off = self.has_changed(Change::Switch, begun).then_some(None);
        let tokens = tokens.map(|number| Some(number as usize)).chain(switched_off);
        let connected = [Some(true), self.has_changed(Change::Hub, sent).then_some(false)];
        let moments = connected.into_iter().flatten();
        moments.flat_map(|is_connected| tokens.clone().map(move |token| Moment { token, is_connected })).collect()
    }
}

pub(crate) struct World {
    pub(crate) tcp: SocketAddr,
    pub(crate) unix: PathBuf,
    pub(crate) changes: Changes,
    tls: Mutex<Option<Arc<ClientConfig>>>,
    account: Mutex<Account>,
    /// Set at the end of the load: clients finish what they do and begin nothing new.
    pub(crate) over: watch::Sender<bool>,
}

impl World {
    pub(crate) fn new(tcp: SocketAddr, unix: PathBuf) -> Self {
        let (changes, tls, account, over) = Default::default();
        Self { tcp, unix, changes, tls, account, over }
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().expect("no thread panics while it holds the account")
    }

    pub(crate) fn fail(&self, what: &str) {
        self.account().fail(what);
    }

    /// Returns the number of the token that is in force: each change brings the next one.
    pub(crate) fn token_number(&self) -> u32 {
        self.changes.now().0[Change::Token as usize]
    }

    pub(crate) fn token(&self) -> String {
        nth_token(self.token_number())
    }

    /// Returns what a client sends on this connection, and enters it into the account. The client may know a token alone
    /// that is not in force any more.
    pub(crate) fn planned(
        &self,
        connection: u32,
        knows_former_token: bool,
        write: impl FnOnce(&mut Author<'_>) -> (Plan, Vec<Planned>),
    ) -> (Plan, Vec<Planned>) {
        let token = self.token_number().wrapping_sub(knows_former_token.into());
        let (plan, requests) = write(&mut Author {
            client: connection,
            next_number: &mut || self.account().next_number(connection),
            token: (token as usize, nth_token(token)),
            max_body_bytes: Limits::DEFAULT.body_bytes as usize,
            timeouts: TIMEOUTS,
            excluded: &[Fault::NoHub, Fault::None],
        });
        self.account().expect(&requests);
        (plan, requests)
    }

    /// Lets later connections trust these certificates and no others.
    pub(crate) fn trust(&self, certificates: impl IntoIterator<Item = CertificateDer<'static>>) {
        let config = trusting(certificates, ALL_VERSIONS);
        *self.tls.lock().expect("no thread panics while it holds this") = Some(Arc::new(config));
    }

    pub(crate) fn tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.lock().expect("no thread panics while it holds this").clone()
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Waits for this time, or for the end of the load.
    pub(crate) async fn pause(&self, time: Duration) {
        let mut over = self.over.subscribe();
        let _ = tokio::time::timeout(time, over.wait_for(|over| *over)).await;
    }
}

pub(crate) fn nth_token(number: u32) -> String {
    token(&format!("soak-{number}"))
}
