//! A gateway as a child process, and a hub for it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::GATEWAY;
pub(crate) use crate::support::PATIENCE;

/// The token in the settings of every gateway here.
pub(crate) const TOKEN: &str = "t0ken";

/// The settings that open the gateway.
pub(crate) const ENABLED: &str = "OPEN_REST_API = True\nTOKEN = 't0ken'\n";

/// The process. It is killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    events: Receiver<Value>,
    log: Receiver<String>,
}

impl Gateway {
    /// Starts `serve` on a free port, with the settings file of `directory`, and with these options.
    pub(crate) fn serve(directory: &Path, options: &[&str]) -> Self {
        let settings = directory.join("user_settings.py");
        std::fs::write(&settings, ENABLED).unwrap();
        let mut serve = Command::new(GATEWAY);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--settings"]).arg(settings).args(options);
        let mut child = serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Nobody listens after the end of the test.
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, log) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // A test that fails shows it.
                eprintln!("{line}");
                let _ = sender.send(line);
            }
        });
        Self { child, events, log }
    }

    /// Returns whether this line is among those of the log since the last call.
    pub(crate) fn has_logged(&self, line: &str) -> bool {
        self.log.try_iter().any(|logged| logged == line)
    }

    /// Waits for these lines of the log, in any order.
    pub(crate) fn wait_for_log(&self, lines: &str) {
        let mut awaited: Vec<_> = lines.lines().collect();
        while !awaited.is_empty() {
            let line = self.log.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("the log has no {awaited:#?}: {error}"));
            awaited.retain(|awaited| *awaited != line);
        }
    }

    /// Returns the next event. The test waits for the event that `awaited` names.
    pub(crate) fn event(&self, awaited: &str) -> Value {
        let event = self.events.recv_timeout(PATIENCE);
        event.unwrap_or_else(|error| panic!("the event {awaited} did not come: {error}"))
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
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
