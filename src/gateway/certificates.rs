//! Keeps the certificate current. It is loaded when it is needed, and again at each look at the files and at SIGHUP. So
//! one that is due for renewal is renewed, also after the clock of the system was set: a small computer without a
//! battery has the right time only a while after its start. A new certificate ends no connection.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::sign::CertifiedKey;

use crate::gateway::events::{CertificateState, Event, EventSink};
use crate::gateway::failure::Failure;
use crate::sys::log::{StandingWarnings, date_time, log, warning};
use crate::tls::certificate::{CertificateError, LoadedCertificate, MadeCertificate, not_after};
use crate::tls::session::Acceptor;
use crate::tls::source::{CertificateSource, Occasion};

pub(super) struct WatchedCertificate {
    source: CertificateSource,
    emit: EventSink,
    pub(super) acceptor: Arc<Acceptor>,
    warnings: StandingWarnings,
}

impl WatchedCertificate {
    /// Loads the certificate, and makes a self-signed one where there is none. At a start (`is_start`), a new one
    /// replaces one that cannot be used; later it replaces none. A kept key is closed if others may use it.
    pub(super) fn load(source: CertificateSource, emit: &EventSink, is_start: bool) -> Result<Self, Failure> {
        let closed = source.close_key();
        let loaded = source.load(SystemTime::now(), if is_start { Occasion::Start } else { Occasion::Run(None) });
        // The key of a new certificate is another one.
        let is_new = loaded.as_ref().is_ok_and(|loaded| loaded.made.is_some());
        closed.filter(|_| !is_new).iter().for_each(|notice| warning(format_args!("{notice}")));
        let loaded = loaded.map_err(Failure::configuration)?;
        let mut certificate = Self {
            source,
            emit: Arc::clone(emit),
            acceptor: Arc::new(Acceptor::new(Arc::clone(&loaded.identity)).map_err(Failure::configuration)?),
            warnings: StandingWarnings::default(),
        };
        if let Some(made) = &loaded.made {
            certificate.report(state_of(made), None);
        }
        certificate.tell(&loaded);
        Ok(certificate)
    }

    /// Loads the certificate again. If it cannot be used, the one in force stays.
    pub(super) fn reload(&mut self) {
        let now = SystemTime::now();
        let has_expired = |identity: &CertifiedKey| not_after(identity).is_some_and(|end| end < now);
        let [path, _key] = self.source.files();
        let served = self.acceptor.identity();
        let loaded = match self.source.load(now, Occasion::Run(Some(&served))) {
            Ok(loaded) if has_expired(&loaded.identity) && !has_expired(&served) => {
                let expired = CertificateError::of_content(&path, "the certificate has expired");
                return self.warn(Vec::new(), Some(&expired));
            }
            Ok(loaded) => loaded,
            Err(error) => return self.warn(Vec::new(), Some(&error)),
        };
        self.tell(&loaded);
        match self.acceptor.replace(loaded.identity) {
            Ok(true) => {
                log(format_args!("new connections get the new certificate"));
                self.report(loaded.made.as_ref().map_or(CertificateState::Replaced, state_of), None);
            }
            Ok(false) => {}
            Err(error) => warning(format_args!("{error}; the certificate stays as it was")),
        }
    }

    /// Logs what a load has found.
    fn tell(&mut self, loaded: &LoadedCertificate) {
        if let Some(made) = &loaded.made {
            let [certificate, _key] = self.source.files();
            let since = made.reason.as_ref().map_or_else(String::new, |reason| format!(", since {reason}"));
            log(format_args!("{}: a new self-signed certificate{since}; clients can trust it", certificate.display()));
        }
        self.warn(loaded.warnings.clone(), loaded.not_renewed.as_ref());
    }

    /// Logs what did not hold at the last load, and reports the fault of a certificate that is not served, if it is new.
    fn warn(&mut self, mut warnings: Vec<String>, fault: Option<&CertificateError>) {
        if let Some(fault) = fault {
            let text = format!("{fault}; the certificate stays as it was");
            if !self.warnings.contain(&text) {
                self.report(CertificateState::Rejected, Some(fault));
            }
            warnings.push(text);
        }
        self.warnings.replace(warnings);
    }

    fn report(&self, state: CertificateState, fault: Option<&CertificateError>) {
        let [certificate, _key] = self.source.files();
        let path = fault.map_or(&certificate, |fault| &fault.path).display().to_string();
        let not_after = not_after(&self.acceptor.identity()).map(|time| date_time(time) + "Z");
        let reason = fault.map(|fault| fault.reason.as_str());
        (self.emit)(&Event::Certificate { state, path: &path, not_after: not_after.as_deref(), reason });
    }
}

fn state_of(made: &MadeCertificate) -> CertificateState {
    if made.reason.is_some() { CertificateState::Renewed } else { CertificateState::Made }
}
