//! The threads that do whatever a file, a folder or a lock may hold up: one reads the settings, and opens and removes
//! the sockets, the other one has the certificate. The main thread gets news of them, and goes on with what is in force
//! while there is none.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch::Sender;

use crate::gateway::certificates::WatchedCertificate;
use crate::gateway::config::{GatewayConfig, TokenSource};
use crate::gateway::events::{EventSink, SettingsChange};
use crate::gateway::failure::Failure;
use crate::gateway::watched_settings::WatchedSettings;
use crate::server::listener::{BoundAddress, ListenTarget, Listening};
use crate::server::shared::Opened;
use crate::sys::event_loop;
use crate::sys::retry::{PAUSE, retry_until};
use crate::sys::timed_join::on_thread;
use crate::sys::watch::Watch;
use crate::sys::watchdog::Watchdog;
use crate::tls::session::Acceptor;
use crate::tls::source::CertificateSource;

/// How long the gateway tries to listen on an address that is taken. The kernel closes the listening socket of a killed
/// process some 20 ms after the process is reaped, if a ring had an accept pending on it.
pub(super) const TAKEN_TIMEOUT: Duration = Duration::from_secs(1);

/// The time between two looks at the settings: a switch-off counts within seconds, wherever it was made.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(5);

/// The most time between two looks at the certificate: each one wakes the process up, and only mounts, mapped memory and
/// renewals wait for it.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(60);

/// What the main thread learns.
pub(super) enum FileNews {
    /// Requests are to be accepted.
    Open(Opened),
    /// Nothing is to listen, for this reason. A command can switch the API on in the file, if there is one.
    Off(String, Option<PathBuf>),
    /// The settings open the API, but an address is taken. It is tried again, [`TAKEN_TIMEOUT`] long.
    Taken(io::Error),
    /// What has become of settings that are new. What they change was told before, or waits for the certificate.
    Settings(SettingsChange),
    /// Something does not answer, as this says.
    Overdue(String),
}

/// The main thread's end. The threads end when this is dropped, unless a file holds them up.
pub(super) struct Files {
    /// Asks the threads to read everything again. If that was asked already, once is enough.
    pub(super) reload: Sender<()>,
    news: UnboundedReceiver<Result<FileNews, Failure>>,
    settings: Arc<Follower>,
    certificate: Arc<Follower>,
    /// The certificate, once it is loaded.
    acceptor: Arc<OnceLock<Arc<Acceptor>>>,
}

impl Files {
    /// Starts the thread of the settings. The first news are those of the start.
    pub(super) fn start(config: Arc<GatewayConfig>, source: TokenSource, emit: EventSink) -> Result<Self, Failure> {
        let reload = Sender::new(());
        let (sender, news) = unbounded_channel();
        let follower = || -> Result<_, Failure> {
            let watchdog = Watchdog::new().map_err(Failure::cannot("create a timer"))?;
            Ok(Arc::new(Follower { watchdog, reload: reload.clone(), again: Notify::new(), news: sender.clone() }))
        };
        let (settings, certificate, acceptor) = (follower()?, follower()?, Arc::default());
        let mut thread = SettingsThread {
            settings: WatchedSettings::new(source, config.server.policy.limits.head_bytes),
            to_load: config.certificate.clone(),
            config,
            change: None,
            is_told: false,
            listening: None,
            emit,
            follower: Arc::clone(&settings),
            certificate: Arc::clone(&certificate),
            acceptor: Arc::clone(&acceptor),
        };
        let path = thread.settings.path.iter().cloned().collect();
        settings.start("settings", path, SETTINGS_INTERVAL, Box::new(move |is_asked| thread.look(is_asked)))?;
        Ok(Self { reload, news, settings, certificate, acceptor })
    }

    /// Waits for the next news. A failure ends the run. Cancel-safe.
    pub(super) async fn news(&mut self) -> Result<FileNews, Failure> {
        loop {
            tokio::select! {
                biased;
                Some(news) = self.news.recv() => return news,
                silence = self.settings.watchdog.overdue() => return Ok(FileNews::Overdue(silence)),
                silence = self.certificate.watchdog.overdue() => match self.acceptor.get() {
                    Some(_) => return Ok(FileNews::Overdue(silence)),
                    None => self.settings.again.notify_one(),
                },
            }
        }
    }
}

/// Looks at files. It learns whether that was asked for. It is boxed, so that the program has the code of an event loop
/// once.
type Look = Box<dyn FnMut(bool) -> Result<(), Failure> + Send>;

/// What a thread that follows files shares with the others.
struct Follower {
    watchdog: Watchdog,
    reload: Sender<()>,
    /// Notified when something else has changed that the thread is to look at.
    again: Notify,
    news: UnboundedSender<Result<FileNews, Failure>>,
}

impl Follower {
    /// Starts the thread, which looks at the files now, when they may have changed, when it is time, and when it is asked
    /// to. A failure of it ends the run.
    fn start(
        self: &Arc<Self>,
        name: &str,
        files: Vec<PathBuf>,
        interval: Duration,
        mut look: Look,
    ) -> Result<(), Failure> {
        let (follower, mut reloads, news) = (Arc::clone(self), self.reload.subscribe(), self.news.clone());
        let follow = async move {
            let subject = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" or ");
            let mut watch = Watch::new(files, interval).map_err(Failure::cannot("create a timer"))?;
            let mut is_asked = true;
            loop {
                // The watch starts before anything is read, so that no later change is missed.
                watch.renew(|path| follower.watchdog.begin(path.display()));
                follower.watchdog.begin(&subject);
                look(is_asked)?;
                follower.watchdog.rest();
                is_asked = tokio::select! {
                    () = follower.news.closed() => return Ok(()),
                    Ok(()) = reloads.changed() => true,
                    () = watch.changed() => false,
                    () = follower.again.notified() => false,
                };
            }
        };
        let body = move || {
            let runtime = event_loop().map_err(Failure::cannot("create an event loop"));
            let ended = runtime.and_then(|runtime| runtime.block_on(follow));
            ended.unwrap_or_else(|failure| drop(news.send(Err(failure))));
        };
        on_thread(name, body).map(drop).map_err(Failure::cannot("start a thread"))
    }
}

struct SettingsThread {
    config: Arc<GatewayConfig>,
    settings: WatchedSettings,
    /// What has become of settings that are new, until it is told.
    change: Option<SettingsChange>,
    /// Whether the main thread knows what the settings make of the API.
    is_told: bool,
    /// The certificate that a thread is to be started for.
    to_load: Option<CertificateSource>,
    /// The sockets of an open API.
    listening: Option<Arc<Listening>>,
    emit: EventSink,
    follower: Arc<Follower>,
    certificate: Arc<Follower>,
    acceptor: Arc<OnceLock<Arc<Acceptor>>>,
}

impl SettingsThread {
    /// Follows the settings. Where an address is taken, tells so, and tries again for [`TAKEN_TIMEOUT`], by what the
    /// settings say meanwhile.
    fn look(&mut self, is_asked: bool) -> Result<(), Failure> {
        let followed = match self.read_and_apply(is_asked) {
            Err(error) if is_taken(&error) => {
                self.tell(FileNews::Taken(error));
                let again = || {
                    self.tell_change();
                    self.read_and_apply(false)
                };
                retry_until(TAKEN_TIMEOUT, PAUSE, again, is_taken)
            }
            followed => followed,
        };
        followed.map_err(|error| Failure::listen(&error))?;
        self.tell_change();
        Ok(())
    }

    /// Reads the settings again, and tells what they make of the API where that is new.
    fn read_and_apply(&mut self, is_asked: bool) -> io::Result<()> {
        // The step before this one may have been to listen.
        self.settings.path.iter().for_each(|path| self.follower.watchdog.begin(path.display()));
        // Whoever asks meanwhile wants to know what the file says at this moment.
        let reloads = self.follower.reload.subscribe();
        let is_asked_again = || reloads.has_changed().is_ok_and(|is_asked| is_asked).then_some(()).ok_or(());
        let wait = |time| retry_until(time, PAUSE, is_asked_again, |()| true).unwrap_or_default();
        self.change = self.settings.read_again(is_asked, wait);
        if self.change.is_some() || !self.is_told { self.apply() } else { Ok(()) }
    }

    fn tell_change(&mut self) {
        self.change.take().into_iter().for_each(|change| self.tell(FileNews::Settings(change)));
    }

    /// Tells what the settings make of the API; not while the certificate is awaited, or an address is taken.
    fn apply(&mut self) -> io::Result<()> {
        self.is_told = false;
        let token = self.settings.token().cloned();
        // The user's files are checked in any case. A certificate is made once the settings open the API.
        let is_needed = |source: &CertificateSource| token.is_ok() || matches!(source, CertificateSource::Files { .. });
        let is_needed = self.config.certificate.as_ref().is_some_and(is_needed);
        if is_needed && let Some(source) = self.to_load.take() {
            self.load_certificate(source);
        }
        let tls = self.acceptor.get().cloned();
        if is_needed && tls.is_none() {
            let Some(silence) = self.certificate.watchdog.silence() else { return Ok(()) };
            if token.is_ok() {
                self.tell(FileNews::Off(silence, None));
                return Ok(());
            }
        }
        match token {
            Ok(token) => {
                let listening = match &self.listening {
                    Some(listening) => Arc::clone(listening),
                    None => Arc::new(self.listen()?),
                };
                self.listening = Some(Arc::clone(&listening));
                self.tell(FileNews::Open(Opened { listening, token, tls }));
            }
            Err(reason) => {
                self.tell(FileNews::Off(reason, self.settings.to_switch_on().map(Path::to_path_buf)));
                self.close();
            }
        }
        self.is_told = true;
        Ok(())
    }

    /// Starts the thread that has the certificate. If that fails, the run ends.
    fn load_certificate(&self, source: CertificateSource) {
        let (emit, of_settings, acceptor) =
            (Arc::clone(&self.emit), Arc::clone(&self.follower), Arc::clone(&self.acceptor));
        let files = source.files().into();
        let mut certificate: Option<WatchedCertificate> = None;
        let look = move |_is_asked| {
            match &mut certificate {
                Some(certificate) => certificate.reload(),
                None => {
                    let certificate = certificate.insert(WatchedCertificate::load(source.clone(), &emit)?);
                    let _ = acceptor.set(Arc::clone(&certificate.acceptor));
                    of_settings.again.notify_one();
                }
            }
            Ok(())
        };
        let started = self.certificate.start("certificate", files, CERTIFICATE_INTERVAL, Box::new(look));
        started.unwrap_or_else(|failure| drop(self.follower.news.send(Err(failure))));
    }

    fn tell(&self, news: FileNews) {
        // The main thread may have ended.
        let _ = self.follower.news.send(Ok(news));
    }

    /// Removes the files of Unix sockets. So they are gone before the next ones are opened.
    fn close(&mut self) {
        if let Some(listening) = self.listening.take()
            && let Some(path) = listening.addresses().find(|address| !address.is_tcp())
        {
            self.follower.watchdog.begin(path);
            listening.remove_files();
        }
    }

    /// Binds the listeners: where an address is taken, on any free ports if the configuration allows that.
    fn listen(&self) -> io::Result<Listening> {
        let begin = |address: &BoundAddress| self.follower.watchdog.begin(address);
        let targets = &self.config.listen;
        let listened = Listening::bind(targets, begin);
        if !self.config.any_port || !listened.as_ref().is_err_and(is_taken) {
            return listened;
        }
        let any_port = |address: &SocketAddr| SocketAddr::new(address.ip(), 0);
        let targets = targets.iter().map(|target| match target {
            ListenTarget::Addresses(addresses) => ListenTarget::Addresses(addresses.iter().map(any_port).collect()),
            ListenTarget::Path(_) => target.clone(),
        });
        Listening::bind(&targets.collect::<Vec<_>>(), begin)
    }
}

impl Drop for SettingsThread {
    /// The main thread may let go of the sockets last, and waits for no folder.
    fn drop(&mut self) {
        self.close();
    }
}

fn is_taken(failed: &io::Error) -> bool {
    failed.kind() == io::ErrorKind::AddrInUse
}
