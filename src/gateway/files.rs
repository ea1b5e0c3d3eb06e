//! The threads that do whatever a file, a folder or a lock may hold up: one reads the settings, and opens and removes
//! the sockets, the other one has the certificate. The main thread gets news of them, and goes on with what is in force
//! while there is none.

use std::future::ready;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::gateway::api::Api;
use crate::gateway::certificates::WatchedCertificate;
use crate::gateway::config::{GatewayConfig, TokenSource};
use crate::gateway::events::{EventSink, SettingsChange};
use crate::gateway::failure::Failure;
use crate::gateway::follower::{Follower, Look, STEP_CHECK_PAUSE};
use crate::gateway::watched_settings::WatchedSettings;
use crate::server::listener::{BoundAddress, Listening};
use crate::server::shared::Opened;
use crate::sys::{lock, or_never, process};
use crate::tls::session::Acceptor;
use crate::tls::source::CertificateSource;

/// The time between two looks at the settings: a switch-off counts within seconds, wherever it was made. So long is it
/// too until a certificate that cannot be loaded is tried again.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(5);

/// The most time between two looks at a certificate that is loaded: each one wakes the process up, and only mounts,
/// mapped memory and renewals wait for it.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(60);

/// What the main thread learns.
pub(super) enum FileNews {
    Api(Api),
    /// What has become of settings that are new. What they change was told before, or waits for the certificate.
    Settings(SettingsChange),
}

/// The main thread's end. The threads end when this is dropped, unless a file holds them up.
pub(super) struct Files {
    news: UnboundedReceiver<FileNews>,
    pub(super) followers: Arc<Followers>,
}

/// What the threads and the main thread share.
pub(super) struct Followers {
    pub(super) settings: Arc<Follower>,
    certificate: Arc<Follower>,
    loading: Mutex<CertificateLoading>,
}

/// How far the first load of the certificate is. The thread of the settings asks for it, and that of the certificate
/// loads it, until that succeeds.
enum CertificateLoading {
    NotNeeded,
    Asked {
        /// Whether the load is a part of the start.
        is_start: bool,
    },
    Done(Result<Arc<Acceptor>, Failure>),
}

impl Files {
    /// Starts the threads. The first news are those of the start.
    pub(super) fn start(config: Arc<GatewayConfig>, source: TokenSource, emit: &EventSink) -> Result<Self, Failure> {
        let (sender, news) = unbounded_channel();
        let (settings, certificate) = (Follower::new()?, Follower::new()?);
        let loading = CertificateLoading::NotNeeded.into();
        let followers = Arc::new(Followers { settings, certificate, loading });
        if let Some(source) = config.certificate.clone() {
            let (paths, look) = (source.files().into(), follow_certificate(source, Arc::clone(emit), &followers));
            followers.certificate.start("certificate", paths, CERTIFICATE_INTERVAL, look)?;
        }
        let settings = WatchedSettings::new(source, config.server.policy.limits.head_bytes);
        let path = settings.path.iter().cloned().collect();
        let shared = Arc::clone(&followers);
        let mut thread = SettingsThread { config, settings, api: None, followers: shared, news: sender };
        let look = Box::new(move |is_asked| thread.look(is_asked));
        followers.settings.start("settings", path, SETTINGS_INTERVAL, look)?;
        Ok(Self { news, followers })
    }

    /// Waits for the next news. Cancel-safe.
    pub(super) async fn news(&mut self) -> FileNews {
        // The thread of the settings sends until it is told to end.
        or_never(self.news.recv().await.map(ready)).await
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        [&self.followers.settings, &self.followers.certificate].into_iter().for_each(|follower| follower.end());
    }
}

impl Followers {
    /// Asks the threads to read everything again.
    pub(super) fn reload(&self) {
        [&self.settings, &self.certificate].into_iter().for_each(|follower| follower.ask());
    }

    /// Returns what does not answer.
    pub(super) fn silent(&self) -> Option<String> {
        self.settings.silent().or_else(|| self.certificate.silent())
    }
}

/// Returns what loads the certificate once it is needed, and then keeps it current. The thread of the settings looks
/// again when it is loaded, or refused.
fn follow_certificate(source: CertificateSource, emit: EventSink, followers: &Arc<Followers>) -> Look {
    let followers = Arc::clone(followers);
    let mut watched: Option<WatchedCertificate> = None;
    Box::new(move |_is_asked| {
        if let Some(certificate) = &mut watched {
            certificate.reload();
            return None;
        }
        let is_start = match *lock(&followers.loading) {
            CertificateLoading::NotNeeded => return None,
            CertificateLoading::Asked { is_start } => is_start,
            CertificateLoading::Done(_) => false,
        };
        let loaded = WatchedCertificate::load(source.clone(), &emit, is_start);
        let acceptor = loaded.map(|certificate| Arc::clone(&watched.insert(certificate).acceptor));
        let again = acceptor.is_err().then_some(SETTINGS_INTERVAL);
        *lock(&followers.loading) = CertificateLoading::Done(acceptor);
        followers.settings.ring();
        again
    })
}

struct SettingsThread {
    config: Arc<GatewayConfig>,
    settings: WatchedSettings,
    /// What the last look made of the API, and what the main thread was sent; `None` until the certificate is loaded.
    api: Option<Api>,
    followers: Arc<Followers>,
    news: UnboundedSender<FileNews>,
}

impl SettingsThread {
    /// Reads the settings again, and sends what they make of the API where that is new. Returns the most time to the
    /// next look, if that is less than usual.
    fn look(&mut self, is_asked: bool) -> Option<Duration> {
        process::return_freed_memory();
        let mut changes = Vec::from_iter(self.settings.read_again(is_asked, Instant::now()));
        let mut listening = self.listening();
        let was_listening = listening.is_some();
        let mut api = self.next_api(&mut listening);
        if !was_listening && listening.is_some() {
            // To open the sockets may have taken long.
            self.settings.path.iter().for_each(|path| self.followers.settings.begin(path.display()));
            changes.extend(self.settings.read_again(false, Instant::now()));
            api = self.next_api(&mut listening);
        }
        let (is_open, is_awaited) = (matches!(api, Some(Api::Open(_))), api.is_none());
        if let Some(api) = api
            && self.api.as_ref() != Some(&api)
        {
            // The main thread may have ended.
            let _ = self.news.send(FileNews::Api(api.clone()));
            self.api = Some(api);
        }
        if !is_open && let Some(listening) = listening {
            self.remove_files(&listening);
        }
        changes.into_iter().for_each(|change| drop(self.news.send(FileNews::Settings(change))));
        let again = is_awaited.then_some(STEP_CHECK_PAUSE);
        again.into_iter().chain(self.settings.counts_in(Instant::now())).min()
    }

    /// Returns the sockets of an open API.
    fn listening(&self) -> Option<Arc<Listening>> {
        if let Some(Api::Open(opened)) = &self.api { Some(Arc::clone(&opened.listening)) } else { None }
    }

    /// Returns what the settings make of the API, and opens the sockets where they are to be open; `None` while the
    /// certificate is awaited.
    fn next_api(&self, listening: &mut Option<Arc<Listening>>) -> Option<Api> {
        let token = self.settings.token().cloned();
        let closed = |failure, may_pass| Some(Api::Closed { failure, may_pass });
        // The user's files are checked in any case. A certificate is made once the settings open the API.
        let is_needed = |source: &CertificateSource| token.is_ok() || matches!(source, CertificateSource::Files { .. });
        let mut tls = None;
        if self.config.certificate.as_ref().is_some_and(is_needed) {
            let mut loading = lock(&self.followers.loading);
            if matches!(*loading, CertificateLoading::NotNeeded) {
                *loading = CertificateLoading::Asked { is_start: self.api.is_none() };
                self.followers.certificate.ring();
            }
            match (&*loading, self.followers.certificate.silent()) {
                (CertificateLoading::Done(Ok(acceptor)), _) => tls = Some(Arc::clone(acceptor)),
                (CertificateLoading::Done(Err(failure)), _) if token.is_ok() || self.api.is_none() => {
                    return closed(failure.clone(), false);
                }
                (CertificateLoading::Done(Err(_)), _) => {}
                (_, None) => return None,
                (_, Some(silent)) if token.is_ok() => {
                    return closed(Failure::configuration(silence_of(&silent)), true);
                }
                (_, Some(_)) => {}
            }
        }
        let token = match token {
            Ok(token) => token,
            Err(reason) => {
                let to_switch_on = self.settings.path.clone().filter(|_| self.settings.in_force.is_some());
                return Some(Api::Off { reason, to_switch_on });
            }
        };
        if listening.is_none() {
            match self.listen() {
                Ok(bound) => *listening = Some(Arc::new(bound)),
                Err(error) => return closed(Failure::listen(&error), false),
            }
        }
        Some(Api::Open(Opened { listening: listening.clone()?, token, tls }))
    }

    /// Removes the files of Unix sockets. So they are gone before the next ones are opened.
    fn remove_files(&self, listening: &Listening) {
        if let Some(path) = listening.addresses().find(|address| !address.is_tcp()) {
            self.followers.settings.begin(path);
            listening.remove_files();
        }
    }

    fn listen(&self) -> io::Result<Listening> {
        let begin = |address: &BoundAddress| self.followers.settings.begin(address);
        let listened = Listening::bind(&self.config.listen, begin);
        match &self.config.other_listen {
            Some(other) if listened.as_ref().is_err_and(|it| it.kind() == io::ErrorKind::AddrInUse) => {
                Listening::bind(other, begin)
            }
            _ => listened,
        }
    }
}

impl Drop for SettingsThread {
    /// The main thread may let go of the sockets last, and waits for no folder.
    fn drop(&mut self) {
        self.listening().iter().for_each(|listening| self.remove_files(listening));
    }
}

pub(super) fn silence_of(subject: &str) -> String {
    format!("{subject} does not answer")
}
