//! What clients know of the gateway: where it is, its token, its certificate, and what is changing just now. An answer
//! that is wrong otherwise may be right during a change.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ALL_VERSIONS, ClientConfig};
use tokio::sync::watch;

use crate::account::Account;
use crate::support::tls::trusting;
use crate::support::token;

/// The timeouts of the gateway. A request that met none of them may not end without its answer.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(15);
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

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
pub(crate) struct Moment([u32; 4]);

impl Changes {
    pub(crate) fn begin(&self, what: Change) {
        self.begun[what as usize].fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn complete(&self, what: Change) {
        self.complete[what as usize].fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> Moment {
        Moment(self.complete.each_ref().map(|count| count.load(Ordering::SeqCst)))
    }

    pub(crate) fn has_changed(&self, what: Change, since: Moment) -> bool {
        self.begun[what as usize].load(Ordering::SeqCst) > since.0[what as usize]
    }
}

pub(crate) struct World {
    pub(crate) tcp: SocketAddr,
    pub(crate) unix: PathBuf,
    pub(crate) changes: Changes,
    /// How many tokens there were. The last one is in force.
    tokens: AtomicU32,
    tls: Mutex<Option<Arc<ClientConfig>>>,
    account: Mutex<Account>,
    over: watch::Sender<bool>,
}

impl World {
    pub(crate) fn new(tcp: SocketAddr, unix: PathBuf) -> Self {
        let (changes, tokens, tls, account, over) = Default::default();
        Self { tcp, unix, changes, tokens, tls, account, over }
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().expect("no thread panics while it holds the account")
    }

    pub(crate) fn fail(&self, what: &str) {
        self.account().fail(what);
    }

    pub(crate) fn token(&self) -> String {
        nth_token(self.tokens.load(Ordering::SeqCst))
    }

    pub(crate) fn next_token(&self) -> String {
        nth_token(self.tokens.load(Ordering::SeqCst) + 1)
    }

    /// Returns a token that is not in force any more.
    pub(crate) fn former_token(&self) -> String {
        nth_token(self.tokens.load(Ordering::SeqCst).wrapping_sub(1))
    }

    pub(crate) fn use_next_token(&self) {
        self.tokens.fetch_add(1, Ordering::SeqCst);
    }

    /// Lets later connections trust these certificates and no others.
    pub(crate) fn trust(&self, certificates: impl IntoIterator<Item = CertificateDer<'static>>) {
        let config = trusting(certificates, ALL_VERSIONS);
        *self.tls.lock().expect("no thread panics while it holds this") = Some(Arc::new(config));
    }

    pub(crate) fn tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.lock().expect("no thread panics while it holds this").clone()
    }

    /// Ends the load: clients finish what they do and begin nothing new.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
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

fn nth_token(number: u32) -> String {
    token(&format!("soak-{number}"))
}
