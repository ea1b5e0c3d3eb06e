//! What the command line decides for the whole run.

use std::path::PathBuf;
use std::time::Duration;

use crate::bus::BusConfig;
use crate::http::token::Token;
use crate::server::listener::ListenTarget;
use crate::server::pool::ServerConfig;
use crate::tls::source::CertificateSource;

/// How the gateway runs. All values were checked when the arguments were parsed.
#[derive(Debug)]
pub struct GatewayConfig {
    /// Where to listen with sockets of the gateway.
    pub listen: Vec<ListenTarget>,
    /// Whether the gateway may listen on any free port if one of `listen` is taken.
    pub any_port: bool,
    /// Where the certificate of https comes from; `None` for plain http. Unix sockets speak http in any case.
    pub certificate: Option<CertificateSource>,
    /// How requests are served.
    pub server: ServerConfig,
    /// The bound on the time from the request to stop to the end of the process.
    pub drain_timeout: Duration,
    /// The endpoints to publish to, and the bounds of the queue.
    pub bus: BusConfig,
    /// Whether the end of standard input stops the gateway.
    pub watch_stdin: bool,
    /// Whether the end of the process that started this one asks the gateway to stop.
    pub watch_parent: bool,
    /// Whether SIGHUP, which a terminal sends when it is closed, asks to stop and not to reload. It then does neither if
    /// the process was started with SIGHUP ignored, as by nohup(1).
    pub stops_at_hangup: bool,
    /// The time between two `stats` events; `None` for no such events.
    pub stats_interval: Option<Duration>,
}

impl GatewayConfig {
    /// Returns whether clients connect by TCP to one of the listening sockets.
    #[must_use]
    pub fn has_tcp(&self) -> bool {
        self.listen.iter().any(|target| matches!(target, ListenTarget::Addresses(_)))
            || self.server.inherited.iter().any(|socket| socket.address().is_tcp())
    }

    /// Returns the number of listening sockets, at most.
    #[must_use]
    pub fn listeners(&self) -> usize {
        let of_target = |target: &ListenTarget| match target {
            ListenTarget::Addresses(addresses) => addresses.len(),
            ListenTarget::Path(_) => 1,
        };
        self.listen.iter().map(of_target).sum::<usize>() + self.server.inherited.len()
    }
}

/// Where the token comes from.
#[derive(Debug)]
pub enum TokenSource {
    /// The user settings file, which is watched.
    SettingsFile(PathBuf),
    /// A token that was made for this run.
    Fixed(Token),
}
