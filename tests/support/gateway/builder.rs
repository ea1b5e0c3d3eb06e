//! What `adapter-gateway serve` is started with.

use io_uring::{IoUring, cqueue, squeue};

use crate::support::*;

/// What a gateway is started with. The defaults make a gateway that is ready to use; a test sets only what differs.
pub(crate) struct Builder {
    file: SettingsFile,
    settings: Option<String>,
    by_default_path: bool,
    token: String,
    io: &'static str,
    expected_io: &'static str,
    refusal: Option<Refusal>,
    script: Option<String>,
    arguments: Vec<String>,
    scheme: &'static str,
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
}

impl Builder {
    pub(super) fn new() -> Self {
        let token = token("of-the-test");
        Self {
            file: SettingsFile::absent(),
            settings: Some(enabled(&token)),
            by_default_path: false,
            token,
            io: io_mode(),
            expected_io: io_mode(),
            refusal: None,
            script: None,
            arguments: Vec::new(),
            scheme: "http",
            stdin: Stdio::null(),
            stdout: Stdio::piped(),
            stderr: Stdio::piped(),
        }
    }

    pub(crate) fn settings(mut self, text: &str) -> Self {
        self.settings = Some(text.to_owned());
        self
    }

    /// Takes these settings and their directory, instead of those of its own.
    pub(crate) fn beside(mut self, file: SettingsFile) -> Self {
        self.file = file;
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
    pub(crate) fn listen(self, address: SocketAddr) -> Self {
        self.arguments(["--listen", &address.to_string()])
    }

    pub(crate) fn listen_at(self, path: &Path) -> Self {
        self.arguments(["--listen", &format!("unix:{}", path.display())])
    }

    /// Passes this listening socket as descriptor 3, and listens on it. The socket is shared.
    pub(crate) fn inherit(self, socket: &impl AsFd) -> Self {
        let stdin = socket.as_fd().try_clone_to_owned().unwrap();
        self.arguments(["--listen", "fd:3"]).stdin(stdin).after("exec 3<&0 </dev/null")
    }

    pub(crate) fn after(mut self, script: &str) -> Self {
        self.script = Some(script.to_owned());
        self
    }

    /// Publishes to this endpoint, instead of on an endpoint of its own that nothing connects to.
    pub(crate) fn connect(self, endpoint: &str) -> Self {
        self.arguments(["--connect", endpoint])
    }

    pub(crate) fn bind(self, endpoint: &str) -> Self {
        self.arguments(["--bind", endpoint])
    }

    /// Publishes through a hub of its own alone, with these endpoints of its publishers' and its subscribers' side.
    pub(crate) fn only_hub(self, publishers: &str, subscribers: &str) -> Self {
        self.arguments(["--hub", "--hub-publishers", publishers, "--hub-subscribers", subscribers])
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

    pub(crate) fn refused(mut self, refusal: Refusal) -> Self {
        self.refusal = Some(refusal);
        self
    }

    pub(crate) fn https(mut self) -> Self {
        self.scheme = "https";
        self
    }

    pub(crate) fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Gives the gateway this stdout, which the test reads itself. There are no events to wait for then.
    pub(crate) fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = stdout.into();
        self
    }

    pub(crate) fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = stderr.into();
        self
    }

    /// Starts the gateway and waits for nothing.
    pub(crate) fn spawn(self) -> Gateway {
        if let Some(text) = &self.settings {
            self.file.write(text);
        }
        let mut command = self.command();
        command.stdin(self.stdin);
        let spawn = || Process::spawn_with_streams(&mut command, self.stdout, self.stderr);
        let process = match self.refusal {
            None => spawn(),
            Some(refusal) => refusal.during(spawn),
        };
        let (pending, addresses) = (VecDeque::new(), Vec::new());
        let (settings, token, scheme, expected_io) = (self.file, self.token, self.scheme, self.expected_io);
        Gateway { process, settings, token, scheme, pending, addresses, expected_io }
    }

    /// Starts the gateway and waits until it accepts requests.
    pub(crate) fn start(self) -> Gateway {
        let mut gateway = self.spawn();
        gateway.wait_listening();
        gateway
    }

    /// Starts the gateway, which the settings must disable, and waits until it says so.
    pub(crate) fn start_disabled(self) -> Gateway {
        let mut gateway = self.spawn();
        gateway.wait_event("disabled");
        gateway
    }

    /// Starts the gateway and waits until its bus is connected. Subscriptions that were made before have arrived then.
    pub(crate) fn start_connected(self) -> Gateway {
        let mut gateway = self.start();
        gateway.wait_connected();
        gateway
    }

    /// Starts the gateway and waits until a message that is posted is taken.
    pub(crate) fn start_ready(self) -> Gateway {
        let mut gateway = self.start();
        gateway.wait_event("ready");
        gateway
    }

    /// Starts the gateway, which must end with this status before it listens, and returns its stderr. The last event
    /// has the status and the reason, which stderr has too, and no other event tells an end.
    pub(crate) fn fail(self, status: i32) -> String {
        let output = self.spawn().finish(status);
        assert_failed(&output, status);
        output.stderr
    }

    fn command(&self) -> Command {
        let settings = &self.file;
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
        let has_any = |options: &[&str]| self.arguments.iter().any(|argument| options.contains(&argument.as_str()));
        if !has_any(&["--listen"]) {
            command.args(["--listen", &ANY_PORT.to_string()]);
        }
        if !has_any(&["--connect", "--bind", "--hub"]) {
            let endpoint = settings.config_home().join("bus");
            command.args(["--bind", &format!("ipc://{}", endpoint.display())]);
        }
        command.args(["--io", self.io]).args(&self.arguments);
        match &self.script {
            Some(script) => after(script, &command),
            None => command,
        }
    }
}

/// The environment variable with which the tests fail where the kernel refuses a ring, instead of waiting with epoll.
const REQUIRE_URING: &str = "REQUIRE_URING";
/// The environment variable that names the way in which the gateways wait.
pub(crate) const IO_VARIABLE: &str = "GATEWAY_IO";

/// Returns what `GATEWAY_IO` says, else `uring`, or `epoll` where the kernel refuses rings, which is said.
pub(crate) fn io_mode() -> &'static str {
    static MODE: LazyLock<&str> = LazyLock::new(|| match std::env::var(IO_VARIABLE).as_deref() {
        Ok("epoll") => "epoll",
        Ok(other) if other != "uring" => panic!("{IO_VARIABLE} is {other}"),
        _ => match probe_io_uring() {
            Ok(()) => "uring",
            Err(error) if std::env::var_os(REQUIRE_URING).is_some() => panic!("io_uring is refused: {error}"),
            Err(error) => {
                let note = format!("\nNOTE: io_uring is refused here ({error}), so these tests use epoll.\n");
                let _ = io::stderr().write_all(note.as_bytes());
                "epoll"
            }
        },
    });
    *MODE
}

/// Makes a ring as a worker does and enters it. Its end interrupts the system calls of the thread that made it.
fn probe_io_uring() -> io::Result<()> {
    let probe = || {
        let mut ring = IoUring::<squeue::Entry, cqueue::Entry>::builder();
        ring.setup_single_issuer().setup_coop_taskrun().build(256)?.submit().map(drop)
    };
    thread::spawn(probe).join().unwrap()
}
