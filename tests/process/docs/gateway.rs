//! A gateway as a child process, and a hub for it.

use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

pub(crate) use crate::support::PATIENCE;
use crate::support::eventually;
use crate::support::process::{Process, binary};

/// The token in the settings of every gateway here.
pub(crate) const TOKEN: &str = "t0ken";

/// The settings that open the gateway.
pub(crate) const ENABLED: &str = "OPEN_REST_API = True\nTOKEN = 't0ken'\n";

/// The process. It is killed when dropped.
pub(crate) struct Gateway(Process);

impl Gateway {
    /// Starts `serve` on a free port, with the settings file of `directory`, and with these options.
    pub(crate) fn serve(directory: &Path, options: &[&str]) -> Self {
        let settings = directory.join("user_settings.py");
        std::fs::write(&settings, ENABLED).unwrap();
        let mut serve = binary();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--settings"]).arg(settings).args(options);
        Self(Process::spawn(&mut serve))
    }

    /// Returns whether this line is in the log.
    pub(crate) fn has_logged(&self, line: &str) -> bool {
        self.0.transcript().stderr.lines().any(|logged| logged == line)
    }

    /// Waits for these lines of the log, in any order.
    pub(crate) fn wait_for_log(&self, lines: &str) {
        eventually(lines, || lines.lines().all(|line| self.has_logged(line)).then_some(()));
    }

    /// Returns the next event. The test waits for the event that `awaited` names.
    pub(crate) fn event(&self, awaited: &str) -> Value {
        let line = self.0.next_line_for(awaited, Instant::now() + PATIENCE);
        serde_json::from_str(&line.unwrap_or_else(|| panic!("no event {awaited} comes any more"))).unwrap()
    }

    /// Returns the next event of this name, and drops those before it.
    pub(crate) fn wait_for(&self, name: &str) -> Value {
        std::iter::repeat_with(|| self.event(name)).find(|event| event["event"] == name).unwrap()
    }

    /// Returns where messages are posted, once they are taken.
    pub(crate) fn ready(&self) -> String {
        let mut url = None;
        loop {
            let event = self.event("ready");
            match event["event"].as_str().unwrap() {
                // A Unix socket has a path.
                "listening" if event.get("socket").is_none() => url = event["url"].as_str().map(str::to_owned),
                "ready" => return url.unwrap(),
                _ => {}
            }
        }
    }

    /// Returns where messages are posted.
    pub(crate) fn listening(&self) -> String {
        self.wait_for("listening")["url"].as_str().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.0.signal(signal);
    }
}

/// Binds a subscriber to everything, to which a gateway connects.
pub(crate) fn hub(endpoint: &str) -> zmq::Socket {
    let hub = zmq::Context::new().socket(zmq::SUB).unwrap();
    hub.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    hub.set_linger(0).unwrap();
    hub.set_subscribe(b"").unwrap();
    hub.bind(endpoint).unwrap();
    hub
}
