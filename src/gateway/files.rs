//! The thread that does whatever a file, a folder or a lock may hold up: it reads the settings and the certificate, and
//! opens the listeners. The main thread gets news of it, and goes on with what is in force while there is none.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use crate::gateway::certificates::WatchedCertificate;
use crate::gateway::config::{GatewayConfig, TokenSource};
use crate::gateway::events::{EventSink, SettingsChange};
use crate::gateway::failure::Failure;
use crate::gateway::signals::or_never;
use crate::gateway::watched_settings::WatchedSettings;
use crate::server::listener::{BoundAddress, ListenTarget, Listening};
use crate::sys::event_loop;
use crate::sys::log::log;
use crate::sys::timed_join::on_thread;
use crate::sys::timer::KernelTimer;
use crate::sys::watch::Watch;
use crate::sys::watchdog::Watchdog;
use crate::terms::token::Token;
use crate::tls::session::Acceptor;
use crate::tls::source::CertificateSource;

/// How long the gateway tries to listen on an address that is taken. The kernel closes the listening socket of a killed
/// process some 20 ms after the process is reaped, if a ring had an accept pending on it.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(1);

const TAKEN_PAUSE: Duration = Duration::from_millis(5);

/// What the main thread learns.
pub(super) enum FileNews {
    /// Requests are to be accepted with this token on these sockets, in TLS if there is an acceptor.
    Open(Token, Arc<Listening>, Option<Arc<Acceptor>>),
    /// Nothing is to listen, for this reason. A command can switch the API on in the file, if there is one.
    Off(String, Option<PathBuf>),
    /// The settings open the API, but an address is taken, as this says. It is tried again.
    Taken(String),
    /// What has become of settings that are new. What they change was told before.
    Settings(SettingsChange),
    /// This does not answer.
    Overdue(String),
    /// The run ends.
    Failed(Failure),
}

/// The main thread's end. The thread ends when this is dropped, unless a file holds it up, and removes what it has made.
pub(super) struct Files {
    /// Asks the thread to read everything again. If that was asked already, once is enough.
    pub(super) reload: Sender<()>,
    news: UnboundedReceiver<FileNews>,
    watchdog: Arc<Watchdog>,
    ended: oneshot::Receiver<()>,
}

impl Files {
    /// Starts the thread. The first news are those of the start.
    pub(super) fn start(config: Arc<GatewayConfig>, source: TokenSource, emit: EventSink) -> Result<Self, Failure> {
        let cannot = || Failure::cannot::<io::Error>("start a thread");
        let watchdog = Arc::new(Watchdog::new().map_err(cannot())?);
        let (reload, reloads) = channel(1);
        let (sender, news) = unbounded_channel();
        let settings = WatchedSettings::new(source, config.server.policy.limits.head_bytes);
        let (certificate, listeners) = (None, ListenState::None);
        let dog = Arc::clone(&watchdog);
        let body = move || {
            let thread = FilesThread { config, settings, certificate, listeners, watchdog: dog, emit, news: sender };
            match event_loop() {
                Ok(runtime) => runtime.block_on(thread.run(reloads)),
                Err(error) => thread.tell(FileNews::Failed(cannot()(error))),
            }
        };
        let ended = on_thread("files", body).map_err(cannot())?;
        Ok(Self { reload, news, watchdog, ended })
    }

    /// Asks nothing more, and resolves when the thread has ended.
    pub(super) async fn end(self) {
        let Self { reload, news, ended, .. } = self;
        drop((reload, news));
        let _ = ended.await;
    }

    /// Waits for the next news. Cancel-safe.
    pub(super) async fn news(&mut self) -> FileNews {
        tokio::select! {
            biased;
            Some(news) = self.news.recv() => news,
            subject = self.watchdog.overdue() => FileNews::Overdue(subject),
        }
    }
}

enum ListenState {
    None,
    /// An address is taken. It is tried again, until this time.
    Taken(Instant),
    Open(Arc<Listening>),
}

struct FilesThread {
    config: Arc<GatewayConfig>,
    settings: WatchedSettings,
    /// `None` until a certificate is needed.
    certificate: Option<WatchedCertificate>,
    listeners: ListenState,
    watchdog: Arc<Watchdog>,
    emit: EventSink,
    news: UnboundedSender<FileNews>,
}

impl FilesThread {
    async fn run(mut self, reloads: Receiver<()>) {
        if let Err(failure) = self.follow(reloads).await {
            self.tell(FileNews::Failed(failure));
        }
    }

    async fn follow(&mut self, mut reloads: Receiver<()>) -> Result<(), Failure> {
        let certificate = self.config.certificate.iter().flat_map(CertificateSource::files);
        let paths: Vec<_> = self.settings.path.iter().cloned().chain(certificate).collect();
        let watchdog = Arc::clone(&self.watchdog);
        let begin = |path: &Path| watchdog.begin(format_args!("{}", path.display()));
        // The watch starts before anything is read, so that no later change is missed.
        let mut watch = Watch::start(paths, begin);
        let look = KernelTimer::new().map_err(Failure::cannot("create a timer"))?;
        self.read_settings(true);
        // The user's files are checked now. A self-signed certificate is made once the settings open the API.
        if self.settings.token().is_ok() || matches!(self.config.certificate, Some(CertificateSource::Files { .. })) {
            self.load_certificate()?;
        }
        // Nothing is served yet that a pause could delay.
        self.listeners = ListenState::Taken(Instant::now() + TAKEN_TIMEOUT);
        self.apply()?;
        loop {
            self.watchdog.rest();
            look.set(watch.look_interval());
            let forced = tokio::select! {
                asked = reloads.recv() => match asked {
                    Some(()) => true,
                    None => return Ok(()),
                },
                () = watch.changed() => false,
                () = look.expired() => match watch.is_changing() {
                    true => continue,
                    false => false,
                },
                () = or_never(self.settings.counts_at().map(sleep_until)) => false,
                () = sleep(TAKEN_PAUSE), if matches!(self.listeners, ListenState::Taken(_)) => {
                    self.apply()?;
                    continue;
                }
            };
            watch.renew(begin);
            if let Some(certificate) = &mut self.certificate {
                certificate.reload(&self.watchdog);
            }
            if let Some(change) = self.read_settings(forced) {
                self.apply()?;
                self.tell(FileNews::Settings(change));
            }
        }
    }

    fn tell(&self, news: FileNews) {
        // The main thread may have ended.
        let _ = self.news.send(news);
    }

    fn read_settings(&mut self, forced: bool) -> Option<SettingsChange> {
        let path = self.settings.path.as_ref()?.display();
        self.watchdog.begin(format_args!("{path}"));
        self.settings.read_again(forced)
    }

    fn load_certificate(&mut self) -> Result<(), Failure> {
        if let (Some(source), None) = (&self.config.certificate, &self.certificate) {
            self.certificate = Some(WatchedCertificate::load(source.clone(), &self.watchdog, &self.emit)?);
        }
        Ok(())
    }

    /// Tells what the settings make of the API. If an address is taken, that is told later: it is tried again,
    /// [`TAKEN_TIMEOUT`] long.
    fn apply(&mut self) -> Result<(), Failure> {
        let token = match self.settings.token() {
            Ok(token) => token.clone(),
            Err(reason) => {
                self.listeners = ListenState::None;
                self.tell(FileNews::Off(reason, self.settings.to_switch_on().map(Path::to_path_buf)));
                return Ok(());
            }
        };
        self.load_certificate()?;
        let now = Instant::now();
        let until = match &self.listeners {
            ListenState::Open(_) => now,
            ListenState::Taken(until) => *until,
            ListenState::None => now + TAKEN_TIMEOUT,
        };
        if !matches!(self.listeners, ListenState::Open(_)) {
            match self.listen() {
                Ok(listening) => self.listeners = ListenState::Open(Arc::new(listening)),
                Err(error) if is_taken(&error) && now < until => {
                    if let ListenState::None = self.listeners {
                        log(format_args!("{error}: trying again for {} s", TAKEN_TIMEOUT.as_secs()));
                        self.tell(FileNews::Taken(Failure::listen(&error).to_string()));
                    }
                    self.listeners = ListenState::Taken(until);
                }
                Err(error) => return Err(Failure::listen(&error)),
            }
        }
        if let ListenState::Open(listening) = &self.listeners {
            let tls = self.certificate.as_ref().map(|certificate| Arc::clone(&certificate.acceptor));
            self.tell(FileNews::Open(token, Arc::clone(listening), tls));
        }
        Ok(())
    }

    /// Binds the listeners: where an address is taken, on any free ports if the configuration allows that.
    fn listen(&self) -> io::Result<Listening> {
        let begin = |address: &BoundAddress| self.watchdog.begin(format_args!("{address}"));
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
