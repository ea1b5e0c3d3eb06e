//! Keeps the certificate current. It is loaded at the start, and again when its files change, when it is due for
//! renewal, when the clock was set, and at SIGHUP. A new certificate ends no connection.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep_until};

use crate::gateway::clock::ClockWatch;
use crate::gateway::failure::Failure;
use crate::log::log;
use crate::tls::acceptor::Acceptor;
use crate::tls::fault::CertificateNotice;
use crate::tls::source::CertificateSource;
use crate::watch::Watch;

/// The longest time between two checks: a renewal that failed may now succeed.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(6 * 60 * 60);

/// The certificate in force, with a watch on its files.
pub(crate) struct WatchedCertificate {
    source: CertificateSource,
    acceptor: Arc<Acceptor>,
    watches: Vec<Watch>,
    /// `None` where the kernel has no such timer.
    clock: Option<ClockWatch>,
    /// The time of the next check, whether a file changes before it or not.
    check_at: Instant,
    /// What was said about the certificate when it was loaded last.
    notices: Vec<CertificateNotice>,
}

impl WatchedCertificate {
    /// Loads the certificate. A self-signed one that is absent or about to expire is made.
    pub(crate) fn load(source: CertificateSource) -> Result<Self, Failure> {
        let now = SystemTime::now();
        let loaded = source.load(now).map_err(Failure::configuration)?;
        log_new(&loaded.notices, &[]);
        let check_at = Instant::now() + time_until_check(loaded.check_at, now);
        let acceptor = Acceptor::new(loaded.identity).map_err(Failure::configuration)?;
        let watch = |path| {
            let watch = Watch::start(path);
            watch.map_err(|error| log(format_args!("{error}; send SIGHUP to read the file again"))).ok()
        };
        let watches = source.files().iter().filter_map(|path| watch(path)).collect();
        let (acceptor, clock, notices) = (Arc::new(acceptor), ClockWatch::start().ok(), loaded.notices);
        Ok(Self { source, acceptor, watches, clock, check_at, notices })
    }

    /// Returns what starts the TLS sessions of new connections.
    pub(crate) fn acceptor(&self) -> Arc<Acceptor> {
        Arc::clone(&self.acceptor)
    }

    /// Waits until the certificate is to be reloaded. Cancel-safe: a future that is dropped postpones nothing.
    pub(crate) async fn due(&mut self) {
        let timer = sleep_until(self.check_at);
        let clock = self.clock.as_ref();
        let clock_set = async {
            match clock {
                Some(clock) => clock.set().await,
                None => pending().await,
            }
        };
        let file_changed = async {
            match self.watches.as_mut_slice() {
                [certificate, key] => tokio::select! {
                    () = certificate.changed() => {}
                    () = key.changed() => {}
                },
                _ => pending().await,
            }
        };
        tokio::select! {
            () = file_changed => {}
            () = clock_set => {}
            () = timer => {}
        }
    }

    /// Loads the certificate again. If it cannot be used, the one in force stays.
    pub(crate) fn reload(&mut self) {
        let now = SystemTime::now();
        let loaded = self.source.load(now);
        self.check_at = Instant::now() + time_until_check(loaded.as_ref().ok().and_then(|loaded| loaded.check_at), now);
        match loaded {
            Ok(loaded) => {
                log_new(&loaded.notices, &self.notices);
                self.notices = loaded.notices;
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

/// Returns the time until the next check: until the pair is to be checked, and [`MAX_CHECK_INTERVAL`] at most.
fn time_until_check(check_at: Option<SystemTime>, now: SystemTime) -> Duration {
    check_at.and_then(|at| at.duration_since(now).ok()).map_or(MAX_CHECK_INTERVAL, |left| left.min(MAX_CHECK_INTERVAL))
}

/// Logs what was not said at the last load.
fn log_new(notices: &[CertificateNotice], last: &[CertificateNotice]) {
    for notice in notices.iter().filter(|notice| !last.contains(notice)) {
        log(format_args!("{notice}"));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn the_next_check_is_at_the_renewal_or_after_six_hours() {
        let now = SystemTime::now();
        for (check_at, interval) in [
            (Some(now + Duration::from_secs(1)), Duration::from_secs(1)),
            (Some(now + 5 * HOUR), 5 * HOUR),
            (Some(now + 24 * HOUR), 6 * HOUR),
            // The renewal failed, or the clock was set.
            (Some(now), Duration::ZERO),
            (Some(now - HOUR), 6 * HOUR),
            // The files belong to the user, who renews them.
            (None, 6 * HOUR),
        ] {
            assert_eq!(time_until_check(check_at, now), interval, "{check_at:?}");
        }
    }

    /// Signals and `stats` events end a wait, and must not restart its timer each time.
    #[tokio::test]
    async fn a_wait_that_is_dropped_postpones_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let source = CertificateSource::SelfSigned { directory: directory.path().into() };
        let mut certificate = WatchedCertificate::load(source).unwrap();
        let before = certificate.check_at;
        timeout(Duration::ZERO, certificate.due()).await.expect_err("the certificate is new");
        assert_eq!(certificate.check_at, before);
        certificate.check_at = Instant::now();
        timeout(HOUR, certificate.due()).await.expect("the check is due");
    }
}
