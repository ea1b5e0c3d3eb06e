//! Keeps the certificate current: loaded at the start, and again when its files change, when it is to be renewed, and
//! when asked to. A new one drops no connection.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use crate::events::log;
use crate::exit::Failure;
use crate::settings::watch::Watch;
use crate::tls::acceptor::Acceptor;
use crate::tls::certificate::Loaded;
use crate::tls::source::CertificateSource;

/// The longest wait before the time of renewal is looked at again: the clock may be set, and the machine may sleep.
const RENEWAL_CHECK: Duration = Duration::from_secs(6 * 60 * 60);

/// The certificate in force, and where it comes from.
pub(crate) struct Certificates {
    source: CertificateSource,
    acceptor: Arc<Acceptor>,
    watches: Vec<Watch>,
    renew_at: Option<SystemTime>,
}

impl Certificates {
    /// Loads the certificate, or makes it where it is the gateway's own.
    pub(crate) fn load(source: CertificateSource) -> Result<Self, Failure> {
        let loaded = source.load(SystemTime::now()).map_err(Failure::configuration)?;
        tell(&loaded);
        let acceptor = Acceptor::new(loaded.identity).map_err(Failure::configuration)?;
        let watch = |path| Watch::start(path).map_err(|error| log(format_args!("{error}; SIGHUP reads it again"))).ok();
        let watches = source.files().iter().filter_map(|path| watch(path)).collect();
        Ok(Self { source, acceptor: Arc::new(acceptor), watches, renew_at: loaded.renew_at })
    }

    /// What begins connections with it.
    pub(crate) fn acceptor(&self) -> Arc<Acceptor> {
        Arc::clone(&self.acceptor)
    }

    /// Waits until it is to be looked at again.
    pub(crate) async fn due(&mut self) {
        let left = self.renew_at.and_then(|at| at.duration_since(SystemTime::now()).ok());
        let wait = sleep(left.unwrap_or(RENEWAL_CHECK).min(RENEWAL_CHECK));
        match self.watches.as_mut_slice() {
            [certificate, key] => tokio::select! {
                () = certificate.changed() => {}
                () = key.changed() => {}
                () = wait => {}
            },
            _ => wait.await,
        }
    }

    /// Looks at it again. One that cannot be used changes nothing.
    pub(crate) fn reload(&mut self) {
        match self.source.load(SystemTime::now()) {
            Ok(loaded) => {
                tell(&loaded);
                self.renew_at = loaded.renew_at;
                match self.acceptor.replace(loaded.identity) {
                    Ok(true) => log(format_args!("new connections get the new certificate")),
                    Ok(false) => {}
                    Err(error) => log(format_args!("{error}; the certificate stays as it was")),
                }
            }
            Err(error) => log(format_args!("{error}; the certificate stays as it was")),
        }
    }
}

fn tell(loaded: &Loaded) {
    for notice in &loaded.notices {
        log(format_args!("{notice}"));
    }
}
