//! Keeps the certificate current. It is loaded when it is needed, and again at each look at the
//! files and at SIGHUP. So one that is due for renewal is renewed, also after the clock of the system was set: a small
//! computer without a battery has the right time only a while after its start. A new certificate ends no connection.

use std::sync::Arc;
use std::time::SystemTime;

use crate::gateway::events::{CertificateState, Event, EventSink};
use crate::gateway::failure::Failure;
use crate::sys::log::{log, warning};
use crate::sys::time::date_time;
use crate::sys::watchdog::Watchdog;
use crate::tls::certificate::{CertificateError, CertificateNotice, LoadedCertificate};
use crate::tls::session::Acceptor;
use crate::tls::source::CertificateSource;

pub(super) struct WatchedCertificate {
    source: CertificateSource,
    emit: EventSink,
    pub(super) acceptor: Arc<Acceptor>,
    not_after: Option<SystemTime>,
    /// Those of the last load.
    notices: Vec<CertificateNotice>,
    /// Whether the key is closed if others may use it.
    closes_key: bool,
}

impl WatchedCertificate {
    /// Loads the certificate. A self-signed one that is absent or about to expire is made. The watchdog knows what is
    /// to answer.
    pub(super) fn load(source: CertificateSource, watchdog: &Watchdog, emit: &EventSink) -> Result<Self, Failure> {
        let mut closes_key = true;
        let loaded = read(&source, watchdog, &mut closes_key).map_err(Failure::configuration)?;
        let mut certificate = Self {
            source,
            emit: Arc::clone(emit),
            acceptor: Arc::new(Acceptor::new(loaded.identity).map_err(Failure::configuration)?),
            not_after: loaded.not_after,
            notices: Vec::new(),
            closes_key,
        };
        if let Some(state) = made_or_renewed(&loaded.notices) {
            certificate.report(state, None);
        }
        certificate.take_notices(loaded.notices);
        Ok(certificate)
    }

    /// Loads the certificate again. If it cannot be used, the one in force stays.
    pub(super) fn reload(&mut self, watchdog: &Watchdog) {
        let now = SystemTime::now();
        let has_expired = |not_after: Option<SystemTime>| not_after.is_some_and(|end| end < now);
        let [path, _key] = self.source.files();
        let loaded = match read(&self.source, watchdog, &mut self.closes_key) {
            Ok(loaded) if has_expired(loaded.not_after) && !has_expired(self.not_after) => {
                Err(CertificateError::of_content(&path, "the certificate has expired"))
            }
            loaded => loaded,
        };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return self.take_notices(vec![CertificateNotice::Rejected(error)]),
        };
        let made = made_or_renewed(&loaded.notices);
        self.take_notices(loaded.notices);
        match self.acceptor.replace(loaded.identity) {
            Ok(true) => {
                log(format_args!("new connections get the new certificate"));
                self.not_after = loaded.not_after;
                self.report(made.unwrap_or(CertificateState::Replaced), None);
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
            if let CertificateNotice::NotRenewed(error) | CertificateNotice::Rejected(error) = notice {
                self.report(CertificateState::Rejected, Some(error));
            }
        }
        self.notices = notices;
    }

    fn report(&self, state: CertificateState, fault: Option<&CertificateError>) {
        let [certificate, _key] = self.source.files();
        let path = fault.map_or(&certificate, |fault| &fault.path).display().to_string();
        let not_after = self.not_after.map(|time| date_time(time) + "Z");
        let reason = fault.map(|fault| fault.reason.as_str());
        (self.emit)(&Event::Certificate { state, path: &path, not_after: not_after.as_deref(), reason });
    }
}

fn read(
    source: &CertificateSource,
    watchdog: &Watchdog,
    closes_key: &mut bool,
) -> Result<LoadedCertificate, CertificateError> {
    let [certificate, key] = source.files().map(|path| path.display().to_string());
    watchdog.begin(format_args!("{certificate} or {key}"));
    let closed = source.close_key(closes_key);
    let loaded = source.load(SystemTime::now());
    // The key of a new certificate is another one.
    let is_new = loaded.as_ref().is_ok_and(|loaded| made_or_renewed(&loaded.notices).is_some());
    closed.filter(|_| !is_new).iter().for_each(|notice| warning(format_args!("{notice}")));
    loaded
}

fn made_or_renewed(notices: &[CertificateNotice]) -> Option<CertificateState> {
    notices.iter().find_map(|notice| match notice {
        CertificateNotice::Made { is_renewal: false, .. } => Some(CertificateState::Made),
        CertificateNotice::Made { .. } => Some(CertificateState::Renewed),
        _ => None,
    })
}
