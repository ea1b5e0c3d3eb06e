//! Keeps the certificate current. It is loaded at the start, and again when its files change, every minute, and at
//! SIGHUP. So one that is due for renewal is renewed, also after the clock of the system was set. A new certificate
//! ends no connection.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout_at};

use crate::gateway::events::{CertificateState, Event, EventSink};
use crate::gateway::failure::Failure;
use crate::sys::log::{log, warning};
use crate::sys::time::date_time;
use crate::sys::watch::Watch;
use crate::tls::certificate::CertificateNotice;
use crate::tls::session::Acceptor;
use crate::tls::source::CertificateSource;

/// The time between two checks. A small computer without a battery has the right time only a while after its start, and
/// a renewal that failed may now succeed. A check reads two files.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct WatchedCertificate {
    source: CertificateSource,
    emit: EventSink,
    pub(super) acceptor: Arc<Acceptor>,
    watches: [Watch; 2],
    /// The time of the next check, whether a file changes before it or not.
    check_at: Instant,
    not_after: Option<SystemTime>,
    /// Those of the last load.
    notices: Vec<CertificateNotice>,
}

impl WatchedCertificate {
    /// Loads the certificate. A self-signed one that is absent or about to expire is made.
    pub(super) fn load(source: CertificateSource, emit: &EventSink) -> Result<Self, Failure> {
        let loaded = source.load(SystemTime::now()).map_err(Failure::configuration)?;
        let watches = source.files().map(|path| Watch::start(&path));
        let mut certificate = Self {
            source,
            emit: Arc::clone(emit),
            acceptor: Arc::new(Acceptor::new(loaded.identity).map_err(Failure::configuration)?),
            watches,
            check_at: Instant::now() + CHECK_INTERVAL,
            not_after: loaded.not_after,
            notices: Vec::new(),
        };
        if let Some(state) = made_or_renewed(&loaded.notices) {
            certificate.report(state);
        }
        certificate.take_notices(loaded.notices);
        Ok(certificate)
    }

    /// Waits until the certificate is to be reloaded. Cancel-safe: a future that is dropped postpones nothing.
    pub(super) async fn due(&mut self) {
        let [certificate, key] = &mut self.watches;
        let file_changed = async {
            tokio::select! {
                () = certificate.changed() => {}
                () = key.changed() => {}
            }
        };
        let _ = timeout_at(self.check_at, file_changed).await;
    }

    /// Loads the certificate again. If it cannot be used, the one in force stays.
    pub(super) fn reload(&mut self) {
        self.check_at = Instant::now() + CHECK_INTERVAL;
        let loaded = match self.source.load(SystemTime::now()) {
            Ok(loaded) => loaded,
            Err(error) => {
                let (path, reason) = (error.path, error.reason);
                return self.take_notices(vec![CertificateNotice::Rejected { path, reason }]);
            }
        };
        let made = made_or_renewed(&loaded.notices);
        self.take_notices(loaded.notices);
        match self.acceptor.replace(loaded.identity) {
            Ok(true) => {
                log(format_args!("new connections get the new certificate"));
                self.not_after = loaded.not_after;
                self.report(made.unwrap_or(CertificateState::Replaced));
            }
            Ok(false) => {}
            Err(error) => warning(format_args!("{error}; the certificate stays as it was")),
        }
    }

    /// Logs what was not said at the last load, and reports a certificate that is rejected or could not be renewed.
    fn take_notices(&mut self, notices: Vec<CertificateNotice>) {
        let last = std::mem::take(&mut self.notices);
        for notice in notices.iter().filter(|notice| !last.contains(notice)) {
            match notice {
                CertificateNotice::Made { .. } => log(format_args!("{notice}")),
                _ => warning(format_args!("{notice}")),
            }
            if let CertificateNotice::NotRenewed { path, reason } | CertificateNotice::Rejected { path, reason } =
                notice
            {
                self.emit_event(CertificateState::Rejected, path, Some(reason));
            }
        }
        self.notices = notices;
    }

    fn report(&self, state: CertificateState) {
        let [path, _key] = self.source.files();
        self.emit_event(state, &path, None);
    }

    fn emit_event(&self, state: CertificateState, path: &Path, reason: Option<&str>) {
        let not_after = self.not_after.map(|time| date_time(time) + "Z");
        let path = path.display().to_string();
        (self.emit)(&Event::Certificate { state, path: &path, not_after: not_after.as_deref(), reason });
    }
}

fn made_or_renewed(notices: &[CertificateNotice]) -> Option<CertificateState> {
    notices.iter().find_map(|notice| match notice {
        CertificateNotice::Made { is_renewal: false, .. } => Some(CertificateState::Made),
        CertificateNotice::Made { is_renewal: true, .. } => Some(CertificateState::Renewed),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    /// Signals and `stats` events end a wait, and must not restart its timer each time.
    #[tokio::test]
    async fn a_wait_that_is_dropped_postpones_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let source = CertificateSource::SelfSigned { directory: directory.path().into(), names: Vec::new() };
        let sink: EventSink = Arc::new(|_event| {});
        let mut certificate = WatchedCertificate::load(source, &sink).unwrap();
        let before = certificate.check_at;
        assert!(before <= Instant::now() + CHECK_INTERVAL);
        timeout(Duration::ZERO, certificate.due()).await.expect_err("the certificate is new");
        assert_eq!(certificate.check_at, before);
        certificate.check_at = Instant::now();
        timeout(HOUR, certificate.due()).await.expect("the check is due");
        certificate.reload();
        assert!(certificate.check_at >= before, "the next check is a minute later");
    }
}
