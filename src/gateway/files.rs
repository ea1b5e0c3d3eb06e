//! The threads that do whatever a file, a folder or a lock may hold up: one reads the settings, and opens and removes
//! the sockets, the other one has the certificate. The main thread gets news of them, and goes on with what is in force
//! while there is none.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep, sleep_until};

use crate::gateway::certificates::WatchedCertificate;
use crate::gateway::config::{GatewayConfig, TokenSource};
use crate::gateway::events::{EventSink, SettingsChange};
use crate::gateway::failure::Failure;
use crate::gateway::watched_settings::WatchedSettings;
use crate::server::listener::{BoundAddress, ListenTarget, Listening};
use crate::sys::retry::PAUSE;
use crate::sys::timed_join::on_thread;
use crate::sys::watch::Watch;
use crate::sys::watchdog::Watchdog;
use crate::sys::{event_loop, or_never};
use crate::terms::token::Token;
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
    /// Requests are to be accepted with this token on these sockets, in TLS if there is an acceptor.
    Open(Token, Arc<Listening>, Option<Arc<Acceptor>>),
    /// Nothing is to listen, for this reason. A command can switch the API on in the file, if there is one.
    Off(String, Option<PathBuf>),
    /// The settings open the API, but an address is taken. It is tried again, [`TAKEN_TIMEOUT`] long.
    Taken(io::Error),
    /// What has become of settings that are new. What they change was told before, or waits for the certificate.
    Settings(SettingsChange),
    /// Something does not answer, as this says.
    Overdue(String),
    /// The run ends.
    Failed(Failure),
}

/// The main thread's end. The threads end when this is dropped, unless a file holds them up.
pub(super) struct Files {
    /// Asks the threads to read everything again. If that was asked already, once is enough.
    pub(super) reload: Arc<Sender<()>>,
    news: UnboundedReceiver<FileNews>,
    watchdog: Arc<Watchdog>,
}

impl Files {
    /// Starts the thread of the settings. The first news are those of the start.
    pub(super) fn start(config: Arc<GatewayConfig>, source: TokenSource, emit: EventSink) -> Result<Self, Failure> {
        let (reload, reloads) = channel(());
        let (sender, news) = unbounded_channel();
        let follower = Follower::new(reloads, sender.clone())?;
        let watchdog = Arc::clone(&follower.watchdog);
        let settings = WatchedSettings::new(source, config.server.policy.limits.head_bytes);
        let (certificate, api) = (None, Api::Off);
        let thread = SettingsThread { config, settings, certificate, api, emit, follower };
        on_event_loop("settings", sender, Box::pin(thread.follow()))?;
        Ok(Self { reload: Arc::new(reload), news, watchdog })
    }

    /// Waits for the next news. Cancel-safe.
    pub(super) async fn news(&mut self) -> FileNews {
        tokio::select! {
            biased;
            Some(news) = self.news.recv() => news,
            silence = self.watchdog.overdue() => FileNews::Overdue(silence),
        }
    }
}

/// What a thread that follows files has.
struct Follower {
    watchdog: Arc<Watchdog>,
    reloads: Receiver<()>,
    news: UnboundedSender<FileNews>,
}

impl Follower {
    /// The runtime that this is called in waits for what is overdue.
    fn new(reloads: Receiver<()>, news: UnboundedSender<FileNews>) -> Result<Self, Failure> {
        let watchdog = Arc::new(Watchdog::new().map_err(Failure::cannot("create a timer"))?);
        Ok(Self { watchdog, reloads, news })
    }

    /// The watch starts before anything is read, so that no later change is missed.
    fn watch(&self, paths: impl IntoIterator<Item = PathBuf>, interval: Duration) -> Result<Watch, Failure> {
        let watch = Watch::start(paths, interval, |path| self.watchdog.begin(path.display()));
        watch.map_err(Failure::cannot("create a timer"))
    }

    /// Resolves when it is time for the next look at the files. Returns whether it was asked for; `None` when the
    /// thread is to end. Cancel-safe.
    async fn next_look(&mut self, watch: &mut Watch) -> Option<bool> {
        self.watchdog.rest();
        let is_asked = tokio::select! {
            asked = self.reloads.changed() => asked.map(|()| true).ok()?,
            () = watch.changed() => false,
        };
        watch.renew(|path| self.watchdog.begin(path.display()));
        Some(is_asked)
    }

    fn tell(&self, news: FileNews) {
        // The main thread may have ended.
        let _ = self.news.send(news);
    }
}

/// What a thread does. It is boxed, so that the program has the code of an event loop once.
type Body = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Runs a thread on an event loop of its own. A failure of it ends the run.
fn on_event_loop(name: &str, news: UnboundedSender<FileNews>, body: Body) -> Result<(), Failure> {
    let body = move || {
        let runtime = event_loop().map_err(Failure::cannot("create an event loop"));
        let ended = runtime.and_then(|runtime| runtime.block_on(body));
        ended.unwrap_or_else(|failure| drop(news.send(FileNews::Failed(failure))));
    };
    on_thread(name, body).map(drop).map_err(Failure::cannot("start a thread"))
}

/// The end of the thread that has the certificate.
struct CertificateThread {
    /// `None` until the certificate is loaded.
    acceptor: Option<Arc<Acceptor>>,
    /// `None` when that has come, or the thread has failed, which ends the run.
    loaded: Option<oneshot::Receiver<Arc<Acceptor>>>,
    watchdog: Arc<Watchdog>,
}

impl CertificateThread {
    /// The thread ends when nobody can ask for a reload any more.
    fn start(source: CertificateSource, emit: EventSink, of_settings: &Follower) -> Result<Self, Failure> {
        let news = of_settings.news.clone();
        let mut follower = Follower::new(of_settings.reloads.clone(), news.clone())?;
        let watchdog = Arc::clone(&follower.watchdog);
        let (sender, loaded) = oneshot::channel();
        let follow = async move {
            let mut watch = follower.watch(source.files(), CERTIFICATE_INTERVAL)?;
            let mut certificate = WatchedCertificate::load(source, &follower.watchdog, &emit)?;
            let _ = sender.send(Arc::clone(&certificate.acceptor));
            while follower.next_look(&mut watch).await.is_some() {
                certificate.reload(&follower.watchdog);
            }
            Ok(())
        };
        on_event_loop("certificate", news, Box::pin(follow))?;
        Ok(Self { acceptor: None, loaded: Some(loaded), watchdog })
    }

    /// Resolves when the certificate is loaded, or when it does not answer, and then returns a sentence that says so.
    /// Cancel-safe.
    async fn next(&mut self) -> Option<String> {
        tokio::select! {
            loaded = or_never(self.loaded.as_mut()) => {
                (self.loaded, self.acceptor) = (None, loaded.ok());
                if self.acceptor.is_some() { None } else { pending().await }
            }
            silence = self.watchdog.overdue() => Some(silence),
        }
    }
}

/// What has become of the REST API.
enum Api {
    Off,
    /// The settings open it, and an address is taken. It is tried again, until this time.
    Retrying {
        until: Instant,
    },
    Open(Arc<Listening>),
}

struct SettingsThread {
    config: Arc<GatewayConfig>,
    settings: WatchedSettings,
    /// `None` until a certificate is needed.
    certificate: Option<CertificateThread>,
    api: Api,
    emit: EventSink,
    follower: Follower,
}

impl SettingsThread {
    async fn follow(mut self) -> Result<(), Failure> {
        let mut watch = self.follower.watch(self.settings.path.clone(), SETTINGS_INTERVAL)?;
        self.read_settings(true);
        // The user's files are checked now. A self-signed certificate is made once the settings open the API.
        if matches!(self.config.certificate, Some(CertificateSource::Files { .. })) {
            self.load_certificate()?;
        } else {
            self.apply()?;
        }
        loop {
            let is_forced = tokio::select! {
                look = self.follower.next_look(&mut watch) => match look {
                    Some(is_forced) => is_forced,
                    None => {
                        // The main thread may let go of the sockets last, and waits for no folder.
                        self.close();
                        return Ok(());
                    }
                },
                () = or_never(self.settings.counts_at().map(sleep_until)) => false,
                () = sleep(PAUSE), if matches!(self.api, Api::Retrying { .. }) => {
                    self.apply()?;
                    continue;
                }
                silence = or_never(self.certificate.as_mut().map(CertificateThread::next)) => {
                    let is_loaded = self.certificate.as_ref().is_some_and(|thread| thread.acceptor.is_some());
                    match silence {
                        Some(silence) if is_loaded => self.follower.tell(FileNews::Overdue(silence)),
                        _ => self.apply()?,
                    }
                    continue;
                }
            };
            if let Some(change) = self.read_settings(is_forced) {
                self.apply()?;
                self.follower.tell(FileNews::Settings(change));
            }
        }
    }

    fn read_settings(&mut self, is_forced: bool) -> Option<SettingsChange> {
        self.follower.watchdog.begin(self.settings.path.as_ref()?.display());
        self.settings.read_again(is_forced)
    }

    fn load_certificate(&mut self) -> Result<(), Failure> {
        if let (Some(source), None) = (&self.config.certificate, &self.certificate) {
            let emit = Arc::clone(&self.emit);
            self.certificate = Some(CertificateThread::start(source.clone(), emit, &self.follower)?);
        }
        Ok(())
    }

    /// Tells what the settings make of the API. If the certificate is not loaded yet, or an address is taken, that is
    /// told later.
    fn apply(&mut self) -> Result<(), Failure> {
        let token = match self.settings.token() {
            Ok(token) => token.clone(),
            Err(reason) => {
                self.follower.tell(FileNews::Off(reason, self.settings.to_switch_on().map(Path::to_path_buf)));
                self.close();
                return Ok(());
            }
        };
        self.load_certificate()?;
        let tls = match &self.certificate {
            None => None,
            Some(CertificateThread { acceptor: Some(acceptor), .. }) => Some(Arc::clone(acceptor)),
            Some(CertificateThread { watchdog, .. }) => {
                if let Some(silence) = watchdog.silence() {
                    self.follower.tell(FileNews::Off(silence, None));
                }
                return Ok(());
            }
        };
        let now = Instant::now();
        let until = if let Api::Retrying { until } = self.api { until } else { now + TAKEN_TIMEOUT };
        if !matches!(self.api, Api::Open(_)) {
            match self.listen() {
                Ok(listening) => self.api = Api::Open(Arc::new(listening)),
                Err(error) if is_taken(&error) && now < until => {
                    if let Api::Off = self.api {
                        self.follower.tell(FileNews::Taken(error));
                    }
                    self.api = Api::Retrying { until };
                }
                Err(error) => return Err(Failure::listen(&error)),
            }
        }
        if let Api::Open(listening) = &self.api {
            self.follower.tell(FileNews::Open(token, Arc::clone(listening), tls));
        }
        Ok(())
    }

    /// Removes the files of Unix sockets. So they are gone before the next ones are opened.
    fn close(&mut self) {
        if let Api::Open(listening) = std::mem::replace(&mut self.api, Api::Off)
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

fn is_taken(failed: &io::Error) -> bool {
    failed.kind() == io::ErrorKind::AddrInUse
}
