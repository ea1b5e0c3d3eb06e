//! Keeps the certificate current: loaded at the start, and again when its files change, when it is to be renewed, and
//! when asked to. A new one drops no connection.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep_until};

use crate::gateway::exit::Failure;
use crate::log::log;
use crate::tls::acceptor::Acceptor;
use crate::tls::certificate::LoadedCertificate;
use crate::tls::source::CertificateSource;
use crate::watch::Watch;

/// The longest wait before it is looked at again: the clock may be set, the machine may sleep, and what could not be
/// renewed may be by then.
const LONGEST_WAIT: Duration = Duration::from_secs(6 * 60 * 60);

/// The certificate in force, and where it comes from.
pub(crate) struct Certificates {
    source: CertificateSource,
    acceptor: Arc<Acceptor>,
    watches: Vec<Watch>,
    /// When it is looked at again, whatever happens meanwhile.
    look_at: Instant,
}

impl Certificates {
    /// Loads the certificate, or makes it where it is the gateway's own.
    pub(crate) fn load(source: CertificateSource) -> Result<Self, Failure> {
        let now = SystemTime::now();
        let loaded = source.load(now).map_err(Failure::configuration)?;
        tell(&loaded);
        let look_at = Instant::now() + wait(loaded.renew_at, now);
        let acceptor = Acceptor::new(loaded.identity).map_err(Failure::configuration)?;
        let watch = |path| Watch::start(path).map_err(|error| log(format_args!("{error}; SIGHUP reads it again"))).ok();
        let watches = source.files().iter().filter_map(|path| watch(path)).collect();
        Ok(Self { source, acceptor: Arc::new(acceptor), watches, look_at })
    }

    /// What begins connections with it.
    pub(crate) fn acceptor(&self) -> Arc<Acceptor> {
        Arc::clone(&self.acceptor)
    }

    /// Waits until it is to be looked at again. Cancel-safe: a dropped wait puts nothing off.
    pub(crate) async fn due(&mut self) {
        let timer = sleep_until(self.look_at);
        match self.watches.as_mut_slice() {
            [certificate, key] => tokio::select! {
                () = certificate.changed() => {}
                () = key.changed() => {}
                () = timer => {}
            },
            _ => timer.await,
        }
    }

    /// Looks at it again. One that cannot be used changes nothing.
    pub(crate) fn reload(&mut self) {
        let now = SystemTime::now();
        let loaded = self.source.load(now);
        self.look_at = Instant::now() + wait(loaded.as_ref().ok().and_then(|loaded| loaded.renew_at), now);
        match loaded {
            Ok(loaded) => {
                tell(&loaded);
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

/// How long it is left alone: until it is to be renewed, and never very long.
fn wait(renew_at: Option<SystemTime>, now: SystemTime) -> Duration {
    renew_at.and_then(|at| at.duration_since(now).ok()).map_or(LONGEST_WAIT, |left| left.min(LONGEST_WAIT))
}

fn tell(loaded: &LoadedCertificate) {
    for notice in &loaded.notices {
        log(format_args!("{notice}"));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn it_is_looked_at_when_it_is_to_be_renewed_and_now_and_then_before() {
        let now = SystemTime::now();
        for (renew_at, waits) in [
            (Some(now + Duration::from_secs(1)), Duration::from_secs(1)),
            (Some(now + 5 * HOUR), 5 * HOUR),
            (Some(now + 24 * HOUR), 6 * HOUR),
            // It could not be renewed, or the clock was set.
            (Some(now), Duration::ZERO),
            (Some(now - HOUR), 6 * HOUR),
            // Somebody else renews it.
            (None, 6 * HOUR),
        ] {
            assert_eq!(wait(renew_at, now), waits, "{renew_at:?}");
        }
    }

    /// Signals and statistics end a wait, and must not begin it anew each time.
    #[tokio::test]
    async fn a_wait_that_is_dropped_puts_nothing_off() {
        let directory = tempfile::tempdir().unwrap();
        let source = CertificateSource::SelfSigned { directory: directory.path().into() };
        let mut certificates = Certificates::load(source).unwrap();
        let before = certificates.look_at;
        timeout(Duration::ZERO, certificates.due()).await.expect_err("it is new");
        assert_eq!(certificates.look_at, before);
        certificates.look_at = Instant::now();
        timeout(HOUR, certificates.due()).await.expect("it is time");
    }
}
