//! `adapter-gateway serve` as its parent process sees it: events on stdout, log lines on stderr.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::Value;

use super::http::{Client, Response};
use super::io_mode::io_mode;
use super::process::{Process, Transcript, after, binary, with_file_at, without_io_uring};
use super::request::Request;
use super::settings_file::{SettingsFile, TOKEN_MARK, enabled, token};
use super::{PATIENCE, eventually};

/// An address with any free port. The `listening` event names the port.
pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The URL of every Unix socket.
pub(crate) const UNIX_URL: &str = "http://localhost/api/message";

/// What a gateway is started with. The defaults make a gateway that is ready to use; a test sets only what differs.
pub(crate) struct Builder {
    settings: Option<String>,
    by_default_path: bool,
    token: String,
    listen: Vec<String>,
    bus: Vec<String>,
    io: &'static str,
    expected_io: &'static str,
    io_uring_refusal: Option<Errno>,
    ulimit: Option<&'static str>,
    script: Option<&'static str>,
    user: Option<u32>,
    file_at: Option<(&'static str, PathBuf)>,
    arguments: Vec<String>,
    scheme: &'static str,
    stdin: Stdio,
    has_stdin: bool,
    stdout: Stdio,
    stderr: Stdio,
    closes_stdout_after: Option<&'static str>,
}

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

/// The counts of the `stopped` event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stopped {
    pub(crate) accepted: u64,
    pub(crate) published: u64,
}

impl Builder {
    pub(crate) fn settings(mut self, text: &str) -> Self {
        self.settings = Some(text.to_owned());
        self
    }

    pub(crate) fn no_settings(mut self) -> Self {
        self.settings = None;
        self
    }

    /// Leaves `--settings` out and sets `XDG_CONFIG_HOME` instead.
    pub(crate) fn settings_by_default_path(mut self) -> Self {
        self.by_default_path = true;
        self
    }

    /// Sets the token of the settings, with which requests are sent.
    pub(crate) fn token(mut self, token: &str) -> Self {
        token.clone_into(&mut self.token);
        self.settings = Some(enabled(token));
        self
    }

    /// Listens on this address, instead of on [`ANY_PORT`].
    pub(crate) fn listen(mut self, address: SocketAddr) -> Self {
        self.listen.push(address.to_string());
        self
    }

    /// Listens at this path, instead of on [`ANY_PORT`].
    pub(crate) fn listen_at(mut self, path: &Path) -> Self {
        self.listen.push(format!("unix:{}", path.display()));
        self
    }

    /// Passes this listening socket as descriptor 3 and listens on it, instead of on [`ANY_PORT`]. The socket is shared.
    pub(crate) fn inherit(mut self, socket: &impl AsFd) -> Self {
        self.listen.push("fd:3".to_owned());
        self.passes(socket, "exec 3<&0 </dev/null")
    }

    /// Passes this descriptor as stdin to a shell, which runs this script first.
    pub(crate) fn passes(self, descriptor: &impl AsFd, script: &'static str) -> Self {
        self.stdin(descriptor.as_fd().try_clone_to_owned().unwrap()).after(script)
    }

    /// Starts the gateway after this script.
    pub(crate) fn after(mut self, script: &'static str) -> Self {
        self.script = Some(script);
        self
    }

    /// Publishes to this endpoint, instead of on an endpoint of its own that nothing connects to.
    pub(crate) fn connect(mut self, endpoint: &str) -> Self {
        self.bus.extend(["--connect".to_owned(), endpoint.to_owned()]);
        self
    }

    pub(crate) fn bind(mut self, endpoint: &str) -> Self {
        self.bus.extend(["--bind".to_owned(), endpoint.to_owned()]);
        self
    }

    pub(crate) fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments.extend(arguments.into_iter().map(str::to_owned));
        self
    }

    /// Sets `--io`, instead of the mode of this run, and the mode that the `listening` event must name.
    pub(crate) fn io(mut self, mode: &'static str, expected: &'static str) -> Self {
        (self.io, self.expected_io) = (mode, expected);
        self
    }

    /// Starts the gateway where the kernel answers `io_uring_setup` with this error.
    pub(crate) fn io_uring_refused_with(mut self, errno: Errno) -> Self {
        self.io_uring_refusal = Some(errno);
        self
    }

    /// Starts the gateway after `ulimit` with these arguments.
    pub(crate) fn ulimit(mut self, arguments: &'static str) -> Self {
        self.ulimit = Some(arguments);
        self
    }

    /// Starts the gateway as this user and the group of the same number, which needs root.
    pub(crate) fn user(mut self, id: u32) -> Self {
        self.user = Some(id);
        self
    }

    /// Starts the gateway where this file stands in the place of `path`.
    pub(crate) fn file_at(mut self, path: &'static str, file: &Path) -> Self {
        self.file_at = Some((path, file.to_owned()));
        self
    }

    /// Serves https, instead of plain http.
    pub(crate) fn https(mut self) -> Self {
        self.scheme = "https";
        self
    }

    pub(crate) fn piped_stdin(self) -> Self {
        self.stdin(Stdio::piped())
    }

    pub(crate) fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Starts the gateway without the descriptor 0.
    pub(crate) fn without_stdin(mut self) -> Self {
        self.has_stdin = false;
        self
    }

    /// Gives the gateway this stdout, which the test reads itself. There are no events to wait for then.
    pub(crate) fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = stdout.into();
        self
    }

    /// Gives the gateway this stderr, which the test reads itself.
    pub(crate) fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = stderr.into();
        self
    }

    /// Closes the reading end of the gateway's stdout when this event has come.
    pub(crate) fn closes_stdout_after(mut self, event: &'static str) -> Self {
        self.closes_stdout_after = Some(event);
        self
    }

    /// Starts the gateway and waits for nothing.
    pub(crate) fn spawn(self) -> Gateway {
        self.spawn_beside(SettingsFile::absent())
    }

    /// Starts the gateway with the directory of these settings and waits for nothing.
    pub(crate) fn spawn_beside(self, settings: SettingsFile) -> Gateway {
        if let Some(text) = &self.settings {
            settings.write(text);
        }
        let mut command = self.command(&settings);
        command.stdin(self.stdin);
        let last = self.closes_stdout_after;
        let is_last = move |line: &str| last.is_some_and(|name| is_event(&parse_event(line), name));
        let (stdout, stderr) = (self.stdout, self.stderr);
        let spawn = || Process::spawn_with_streams(&mut command, stdout, stderr, is_last);
        let process = match self.io_uring_refusal {
            None => spawn(),
            Some(errno) => without_io_uring(errno, spawn),
        };
        let (pending, addresses) = (VecDeque::new(), Vec::new());
        let (token, scheme, expected_io) = (self.token, self.scheme, self.expected_io);
        Gateway { process, settings, token, scheme, pending, addresses, expected_io }
    }

    /// Starts the gateway and waits until it accepts requests.
    pub(crate) fn start(self) -> Gateway {
        let mut gateway = self.spawn();
        gateway.wait_listening();
        gateway
    }

    fn command(&self, settings: &SettingsFile) -> Command {
        let mut command = binary();
        command.arg("serve");
        if self.scheme == "http" {
            command.arg("--plain");
        }
        if self.by_default_path {
            command.env("XDG_CONFIG_HOME", settings.config_home());
        } else {
            command.arg("--settings").arg(settings.path());
        }
        if self.listen.is_empty() {
            command.args(["--listen", &ANY_PORT.to_string()]);
        }
        for place in &self.listen {
            command.args(["--listen", place]);
        }
        if self.bus.is_empty() {
            let endpoint = settings.config_home().join("bus");
            command.args(["--bind", &format!("ipc://{}", endpoint.display())]);
        }
        command.args(["--io", self.io]).args(&self.bus).args(&self.arguments);
        let mut command = match (self.ulimit, self.has_stdin) {
            (None, true) => command,
            (None, false) => after("exec <&-", &command),
            (Some(arguments), _) => after(&format!("ulimit {arguments}"), &command),
        };
        if let Some(script) = self.script {
            command = after(script, &command);
        }
        if let Some((path, file)) = &self.file_at {
            command = with_file_at(path, file, &command);
        }
        if let Some(id) = self.user {
            command = self.as_user(id, &command, settings);
        }
        command
    }

    /// Returns the command for another user, with a copy of the program: the user may have no permission for the
    /// directories in which the program was built.
    fn as_user(&self, id: u32, command: &Command, settings: &SettingsFile) -> Command {
        let program = settings.config_home().join("adapter-gateway");
        std::fs::copy(command.get_program(), &program).unwrap();
        let mut copied = Command::new(program);
        copied.args(command.get_args()).uid(id).gid(id);
        copied.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        copied
    }
}

impl Gateway {
    pub(crate) fn serve() -> Builder {
        let token = token("of-the-test");
        Builder {
            settings: Some(enabled(&token)),
            by_default_path: false,
            token,
            listen: Vec::new(),
            bus: Vec::new(),
            io: io_mode(),
            expected_io: io_mode(),
            io_uring_refusal: None,
            ulimit: None,
            script: None,
            user: None,
            file_at: None,
            arguments: Vec::new(),
            scheme: "http",
            stdin: Stdio::null(),
            has_stdin: true,
            stdout: Stdio::piped(),
            stderr: Stdio::piped(),
            closes_stdout_after: None,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the first event that `wanted` accepts among those that the test has not waited for. The others stay,
    /// because events of different sources come in no fixed order.
    pub(crate) fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.pending.iter().position(&wanted) {
                return self.pending.remove(at).unwrap();
            }
            let line = self.process.next_line(deadline);
            let line = line.unwrap_or_else(|| panic!("stdout closed before {what}"));
            self.pending.push_back(parse_event(&line));
        }
    }

    pub(crate) fn wait_event(&mut self, name: &str) -> Value {
        self.wait_for(name, |event| is_event(event, name))
    }

    pub(crate) fn wait_settings(&mut self, state: &str) -> Value {
        self.wait_for(state, |event| is_event(event, "settings") && event["state"] == state)
    }

    /// Waits until the bus is connected. Subscriptions that were made before have then arrived at the gateway.
    pub(crate) fn wait_connected(&mut self) -> Value {
        self.wait_for("connected", |event| is_event(event, "bus") && event["state"] == "connected")
    }

    /// Waits until one listener is open and keeps its address.
    pub(crate) fn wait_listening(&mut self) -> Value {
        let event = self.wait_event("listening");
        assert_eq!(event["io"], self.expected_io, "{event}");
        let url = event["url"].as_str().expect("a url");
        if url == UNIX_URL {
            return event;
        }
        let address = url.strip_prefix(&format!("{}://", self.scheme)).and_then(|it| it.strip_suffix("/api/message"));
        let address = address.unwrap_or_else(|| panic!("url {url}"));
        self.addresses.push(address.parse().unwrap());
        event
    }

    /// Waits until the reading end of its stdout is closed: see [`Builder::closes_stdout_after`].
    pub(crate) fn wait_stdout_closed(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.process.next_line(deadline).is_some() {}
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

    /// Returns the path with the right token.
    pub(crate) fn target(&self) -> String {
        format!("/api/message?token={}", self.token)
    }

    /// Returns a request with this body that is right in everything else.
    pub(crate) fn request(&self, body: impl AsRef<[u8]>) -> Request {
        Request::post(&self.target(), body)
    }

    /// Sends one request on a connection of its own.
    pub(crate) fn post(&self, body: impl AsRef<[u8]>) -> Response {
        self.client().exchange(&self.request(body))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Sends SIGUSR1 and returns the `stats` event.
    pub(crate) fn stats(&mut self) -> Value {
        self.signal(Signal::USR1);
        self.wait_event("stats")
    }

    /// Returns what it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.process.transcript().stderr
    }

    /// Waits until it has logged `text`. The log has a pipe of its own, so the order of events tells nothing about it.
    pub(crate) fn expect_log(&self, text: &str) {
        eventually(text, || self.log().contains(text).then_some(()));
    }

    pub(crate) fn close_stdin(&mut self) {
        self.process.close_stdin();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Waits until it accepts requests or has closed its stdout. Returns which of them happened.
    pub(crate) fn listens_before_its_end(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while let Some(line) = self.process.next_line(deadline) {
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

    /// Waits until it ends by itself and returns its exit status.
    pub(crate) fn wait_exit(&mut self) -> i32 {
        let status = self.process.wait_exit(PATIENCE);
        status.code().unwrap_or_else(|| panic!("ended by a signal: {status}"))
    }

    /// Sends SIGTERM and checks what a parent may rely on then.
    pub(crate) fn terminate(&mut self) -> Stopped {
        self.signal(Signal::TERM);
        self.expect_stopped()
    }

    /// Checks that it exits with 0 and that its last line says that all accepted messages were published.
    pub(crate) fn expect_stopped(&mut self) -> Stopped {
        assert_eq!(self.wait_exit(), 0);
        let output = self.process.end().stdout;
        let last = parse_event(output.split_inclusive('\n').next_back().expect("a last line"));
        assert!(is_event(&last, "stopped"), "the last line is {last}");
        let count = |name: &str| last[name].as_u64().unwrap_or_else(|| panic!("{name}: {last}"));
        let stopped = Stopped { accepted: count("accepted"), published: count("published") };
        assert_eq!(stopped.accepted, stopped.published);
        stopped
    }

    /// Ends it if it still runs, and returns all that it has written.
    pub(crate) fn end(&mut self) -> Transcript {
        self.process.end()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let output = self.process.end();
        // A second panic would abort the run and hide the first.
        if !std::thread::panicking() {
            assert_output(&output);
        }
    }
}

/// Returns whether this is an event of that name.
pub(crate) fn is_event(event: &Value, name: &str) -> bool {
    event["event"] == name
}

/// Checks what holds for the output of every gateway of these tests: each line of stdout is whole and is a JSON object
/// with an `event`, and no token is on stdout or stderr.
fn assert_output(output: &Transcript) {
    output.stdout.split_inclusive('\n').for_each(|line| drop(parse_event(line)));
    for stream in [&output.stdout, &output.stderr] {
        assert!(!stream.contains(TOKEN_MARK), "a token is in the output:\n{stream}");
    }
}

fn parse_event(line: &str) -> Value {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    assert!(line.ends_with('\n') && event["event"].is_string(), "not a line with an event: {line:?}");
    event
}
