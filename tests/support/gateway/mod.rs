//! `adapter-gateway serve` as its parent process sees it: events on stdout, log lines on stderr.

mod builder;

use std::net::IpAddr;
use std::ops::DerefMut;

pub(crate) use self::builder::*;
use crate::support::*;

/// An address with any free port. The `listening` event names the port.
pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The URL of every Unix socket.
pub(crate) const UNIX_URL: &str = "http://localhost/api/message";

/// A running gateway. Drop kills it and checks its output with [`assert_output`].
pub(crate) struct Gateway {
    process: Process,
    pub(crate) settings: SettingsFile,
    token: String,
    scheme: &'static str,
    /// The events that came and that the test has not waited for yet.
    pending: VecDeque<Value>,
    addresses: Vec<SocketAddr>,
    expected_io: &'static str,
}

impl Gateway {
    pub(crate) fn serve() -> Builder {
        Builder::new()
    }

    /// Returns the first event that `wanted` accepts. The others stay, because different sources have no order.
    pub(crate) fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.pending.iter().position(&wanted) {
                return self.pending.remove(at).unwrap();
            }
            let line = self.process.next_line_for(what, deadline);
            let line = line.unwrap_or_else(|| panic!("stdout closed before {what}"));
            self.pending.push_back(parse_event(&line));
        }
    }

    pub(crate) fn wait_event(&mut self, name: &str) -> Value {
        self.wait_for(name, |event| is_event(event, name))
    }

    pub(crate) fn wait_state(&mut self, name: &str, state: &str) -> Value {
        self.wait_for(state, |event| is_event(event, name) && event["state"] == state)
    }

    pub(crate) fn wait_settings(&mut self, state: &str) -> Value {
        self.wait_state("settings", state)
    }

    /// Waits until the bus is connected. Subscriptions that were made before have then arrived at the gateway.
    pub(crate) fn wait_connected(&mut self) -> Value {
        self.wait_state("bus", "connected")
    }

    /// Waits until it tells why this endpoint is not connected, with this in its reason.
    pub(crate) fn wait_disconnected(&mut self, endpoint: &str, reason: &str) -> Value {
        let has_reason = |event: &Value| event["reason"].as_str().is_some_and(|text| text.contains(reason));
        let is_wanted = |event: &Value| is_event(event, "bus") && event["endpoint"] == endpoint && has_reason(event);
        let event = self.wait_for(reason, is_wanted);
        assert_eq!(event["state"], "disconnected");
        self.wait_log(&format!("not connected to {endpoint}: {}", event["reason"].as_str().unwrap()));
        event
    }

    /// Waits until it has read the subscription of the only subscriber at this endpoint. On a busy machine, this may be
    /// after it counts as connected. The log tells of subscriptions when the counters are asked for.
    pub(crate) fn wait_subscribed(&mut self, endpoint: &str) {
        let subscribed = format!("subscriptions at {endpoint}: 1");
        wait_until(&subscribed, || {
            self.stats();
            self.log().contains(&subscribed)
        });
    }

    /// Waits until one listener is open and keeps its address.
    pub(crate) fn wait_listening(&mut self) -> Value {
        let event = self.wait_event("listening");
        assert_eq!(event["pid"], self.id(), "{event}");
        let io = event["io"].as_str().expect("how it waits");
        assert!(self.expected_io.split(" or ").any(|expected| expected == io), "{event}");
        let url = event["url"].as_str().expect("a url");
        if url == UNIX_URL {
            return event;
        }
        let address = url.strip_prefix(&format!("{}://", self.scheme)).and_then(|it| it.strip_suffix("/api/message"));
        let address = address.unwrap_or_else(|| panic!("url {url}"));
        self.addresses.push(address.parse().unwrap());
        event
    }

    pub(crate) fn address(&self) -> SocketAddr {
        *self.addresses.first().expect("a `listening` event was waited for")
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// Connects a socket that sends these bytes, whatever they are.
    pub(crate) fn raw_client(&self, bytes: &[u8]) -> Socket {
        let mut client = connect(&self.address().into()).unwrap();
        client.write_all(bytes).unwrap();
        client
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns a client whose first message was accepted.
    pub(crate) fn served_client(&self) -> Client {
        let mut client = self.client();
        client.exchange(&self.request(FINE)).assert_accepted();
        client
    }

    pub(crate) fn serve_each<'c, S: Read + Write + 'c>(&self, clients: impl IntoIterator<Item = &'c mut Client<S>>) {
        clients.into_iter().for_each(|client| client.exchange(&self.request(FINE)).assert_accepted());
    }

    /// Changes the settings to those that disable the gateway, and waits until it is disabled.
    pub(crate) fn disable(&mut self) {
        self.settings.write(disabled());
        self.wait_event("disabled");
    }

    /// Changes the settings to those that enable it with the [`token`] of this name, and waits until it listens.
    pub(crate) fn enable(&mut self, name: &str) -> Value {
        self.settings.write(&enabled(&token(name)));
        self.wait_listening()
    }

    /// Changes the [`token`] to that of this name, and waits until it is in force.
    pub(crate) fn change_token(&mut self, name: &str) {
        self.settings.write(&enabled(&token(name)));
        self.wait_settings("reloaded");
    }

    pub(crate) fn target(&self) -> String {
        format!("/api/message?token={}", self.token)
    }

    /// Returns a request with this body that is right in everything else.
    pub(crate) fn request(&self, body: impl AsRef<[u8]>) -> Request {
        Request::post(&self.target(), body)
    }

    /// Sends one request on a connection of its own.
    pub(crate) fn post(&self, body: impl AsRef<[u8]>) -> Answer {
        self.client().exchange(&self.request(body))
    }

    /// Sends SIGUSR1 and returns the `stats` event.
    pub(crate) fn stats(&mut self) -> Value {
        self.signal(Signal::USR1);
        self.wait_event("stats")
    }

    /// Returns how often it has answered 503.
    pub(crate) fn refusals(&mut self) -> u64 {
        self.stats()["answers"]["503"].as_u64().unwrap_or(0)
    }

    /// Waits until the count of this name has this value, and returns all counts then.
    pub(crate) fn wait_count(&mut self, name: &str, wanted: impl Into<Value>) -> Value {
        let wanted = wanted.into();
        eventually(&format!("{name}: {wanted}"), || Some(self.stats()).filter(|stats| stats[name] == wanted))
    }

    /// Waits until it accepts requests or has closed its stdout. Returns which of them happened.
    pub(crate) fn listens_before_its_end(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while let Some(line) = self.process.next_line_for("listening", deadline) {
            let event = parse_event(&line);
            let listens = is_event(&event, "listening");
            self.pending.push_back(event);
            if listens {
                self.wait_listening();
                return true;
            }
        }
        false
    }

    pub(crate) fn wait_exit(&mut self) -> i32 {
        let status = self.process.wait_exit();
        status.code().unwrap_or_else(|| panic!("ended by a signal: {status}"))
    }

    /// Sends SIGTERM and waits until the drain has begun: nothing listens any more.
    pub(crate) fn begin_drain(&self) {
        self.signal(Signal::TERM);
        wait_until("the drain", || refuses(self.address()));
    }

    /// Sends SIGTERM and checks what a parent may rely on then.
    pub(crate) fn terminate(&mut self) -> u64 {
        self.signal(Signal::TERM);
        self.expect_stopped()
    }

    /// Stops it as [`Self::terminate`] does, and returns all that it has written.
    pub(crate) fn stop(&mut self) -> Transcript {
        self.terminate();
        self.end()
    }

    /// Checks that it exits with 0 and that all accepted messages were published. Returns how many there were.
    pub(crate) fn expect_stopped(&mut self) -> u64 {
        let (_, last) = self.wait_stopped();
        assert_eq!(last["accepted"], last["published"], "{last}");
        count(&last, "accepted")
    }

    /// Waits for the end with status 0, and returns all that it has written, and its last event, which tells the stop.
    pub(crate) fn wait_stopped(&mut self) -> (Transcript, Value) {
        let written = self.finish(0);
        let last = parse_event(written.stdout.split_inclusive('\n').next_back().expect("a last line"));
        assert!(is_event(&last, "stopped"), "the last line is {last}");
        (written, last)
    }
}

impl Deref for Gateway {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Gateway {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let output = self.end();
        // A second panic would abort the run and hide the first.
        if !thread::panicking() {
            assert_output(&output);
        }
    }
}

pub(crate) fn count(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap_or_else(|| panic!("{name}: {event}"))
}

pub(crate) fn is_event(event: &Value, name: &str) -> bool {
    event["event"] == name
}

/// Checks that each line of stdout is a JSON object with an `event`, and that no token is on stdout or stderr.
fn assert_output(output: &Transcript) {
    output.stdout.split_inclusive('\n').for_each(|line| drop(parse_event(line)));
    for stream in [&output.stdout, &output.stderr] {
        assert!(!stream.contains(TOKEN_MARK), "a token is in the output:\n{stream}");
    }
}

/// Checks what a parent and a user learn of a start that has failed with this status.
pub(crate) fn assert_failed(output: &Transcript, status: i32) {
    let failed = parse_event(output.stdout.split_inclusive('\n').next_back().expect("a last line"));
    assert_eq!((&failed["event"], &failed["status"]), (&"failed".into(), &status.into()), "{failed}");
    let reason = failed["reason"].as_str().expect("a reason");
    assert!(!reason.is_empty() && output.stderr.contains(reason), "{reason:?} is not in {}", output.stderr);
    assert!(output.stderr.lines().next_back().is_some_and(|line| line.starts_with("error: ")), "{}", output.stderr);
    for event in ["stopped", "listening"] {
        assert!(!output.stdout.contains(&format!(r#"{{"event":"{event}""#)), "{}", output.stdout);
    }
}

fn parse_event(line: &str) -> Value {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    assert!(line.ends_with('\n') && event["event"].is_string(), "not a line with an event: {line:?}");
    event
}
