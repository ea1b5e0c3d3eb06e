//! A child process: its output is read as it comes, and a test can wait for its end.

use std::process::{Child, ExitStatus};

use rustix::process::PidfdFlags;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::*;

/// All that a child has written so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Claims of what a text has. A failure shows the text.
pub(crate) trait Claims: AsRef<str> + Sized {
    #[track_caller]
    fn claim(self, claim: &str, part: impl AsRef<str>, holds: impl FnOnce(&str, &str) -> bool) -> Self {
        let (text, part) = (self.as_ref(), part.as_ref());
        assert!(holds(text, part), "{claim} {part:?}:\n{text}");
        self
    }

    #[track_caller]
    fn has(self, part: impl AsRef<str>) -> Self {
        self.claim("it lacks", part, |text, part| text.contains(part))
    }

    #[track_caller]
    fn lacks(self, part: impl AsRef<str>) -> Self {
        self.claim("it has", part, |text, part| !text.contains(part))
    }

    #[track_caller]
    fn has_times(self, count: usize, part: impl AsRef<str>) -> Self {
        self.claim(&format!("it has not {count} times"), part, |text, part| text.matches(part).count() == count)
    }

    #[track_caller]
    fn begins(self, part: impl AsRef<str>) -> Self {
        self.claim("it does not begin with", part, |text, part| text.starts_with(part))
    }

    #[track_caller]
    fn ends(self, part: impl AsRef<str>) -> Self {
        self.claim("it does not end with", part, |text, part| text.ends_with(part))
    }
}

impl<T: AsRef<str>> Claims for T {}

/// A running child. Drop ends it and waits for it, whatever the test did.
pub(crate) struct Process {
    child: Child,
    command: String,
    lines: Receiver<String>,
    transcript: Arc<Mutex<Transcript>>,
    readers: Vec<JoinHandle<()>>,
}

/// Returns the command of the binary that `ADAPTER_GATEWAY` names, such as an installed one, or that cargo has built.
pub(crate) fn binary() -> Command {
    let built = || env!("CARGO_BIN_EXE_adapter-gateway").into();
    let mut command = Command::new(std::env::var_os("ADAPTER_GATEWAY").unwrap_or_else(built));
    command.stdin(Stdio::null());
    command
}

/// Copies the binary for a user without permissions there. A process of its own does so: nobody inherits the file.
pub(crate) fn copy_binary(to: &Path) {
    assert!(Command::new("cp").arg(binary().get_program()).arg(to).status().unwrap().success());
}

/// Returns a command that lets a shell run this script, and then the given command under the same process id.
pub(crate) fn after(script: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{script} && exec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    shell.envs(set);
    shell
}

/// Returns a script that runs this one in new namespaces, of these options of `unshare`, and then what follows.
pub(crate) fn unshared(namespaces: &str, script: &str) -> String {
    format!("exec unshare --user --map-root-user {namespaces} sh -c '{script} && exec \"$@\"' sh \"$@\"")
}

/// Returns a script in a new network, which begins with this one and starts a hub there, for as long as what follows.
pub(crate) fn beside_a_hub(script: &str, publishers: &str) -> String {
    let sides = format!("--hub-publishers \"{publishers}\" --hub-subscribers tcp://127.0.0.1:16103");
    let hub = format!("\"$1\" serve --hub {sides} --settings /nowhere --watch-parent >/dev/null 2>&1");
    unshared("--net", &format!("ip link set lo up && {script} && {{ {hub} & }}"))
}

/// Returns a command that runs this program, with its arguments, in the network of a process.
pub(crate) fn in_network_of(process: u32, program: &str) -> Command {
    let words = format!("nsenter --target {process} --user --preserve-credentials --net {program}");
    command(&words.split(' ').collect::<Vec<_>>())
}

/// A system call that the kernel refuses: always, or where an argument, given by its place, is at least so large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) call: i64,
    pub(crate) argument: Option<(u8, u64)>,
    pub(crate) errno: Errno,
}

pub(crate) const NO_RING: Refusal = Refusal { call: libc::SYS_io_uring_setup, argument: None, errno: Errno::PERM };

impl Refusal {
    /// Calls `start` in a thread of its own, and refuses the call to it and to its children. A filter applies to the
    /// thread that sets it and to what that thread starts, so no unsafe code is needed between fork and exec.
    pub(crate) fn during<T: Send>(self, start: impl FnOnce() -> T + Send) -> T {
        let action = SeccompAction::Errno(u32::try_from(self.errno.raw_os_error()).unwrap());
        let condition = |(place, least)| SeccompCondition::new(place, SeccompCmpArgLen::Dword, SeccompCmpOp::Ge, least);
        let rules = self.argument.map(|argument| SeccompRule::new(vec![condition(argument).unwrap()]).unwrap());
        let rules = [(self.call, rules.into_iter().collect())].into();
        let machine = std::env::consts::ARCH.try_into().expect("an architecture that seccompiler knows");
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, machine).unwrap();
        let program: BpfProgram = filter.try_into().unwrap();
        let confined = || {
            seccompiler::apply_filter(&program).expect("a filter can be set");
            start()
        };
        thread::scope(|threads| threads.spawn(confined).join().unwrap())
    }
}

/// Returns the command of these words. Its stdin is empty.
pub(crate) fn command(words: &[impl AsRef<str>]) -> Command {
    let (program, arguments) = words.split_first().unwrap();
    let mut command = Command::new(program.as_ref());
    command.args(arguments.iter().map(AsRef::as_ref)).stdin(Stdio::null());
    command
}

/// Returns whether the command of these words can be run, and succeeds.
pub(crate) fn succeeds(words: &[impl AsRef<str>]) -> bool {
    command(words).output().is_ok_and(|output| output.status.success())
}

/// Returns whether this line of a shell succeeds here, and says that a check is skipped where it does not.
pub(crate) fn is_possible(line: &str) -> bool {
    let is_possible = succeeds(&["sh", "-c", line, "sh", "true"]);
    if !is_possible {
        skip(&format!("this fails here: {line}"));
    }
    is_possible
}

/// Returns whether a process may have mounts of its own. If not, that is said.
pub(crate) fn can_mount() -> bool {
    is_possible("unshare --user --map-root-user --mount mount --bind /etc/hosts /etc/hosts")
}

/// Ends the test where it is not possible, which was said.
#[allow(unused_macros, reason = "only tests that start the gateway need something of the machine")]
macro_rules! needs {
    ($is_possible:expr) => {
        if !$is_possible {
            return;
        }
    };
}
pub(crate) use needs;

/// Runs a command that ends by itself with this status, and returns its output.
pub(crate) fn run<'a>(arguments: impl IntoIterator<Item = &'a str>, status: i32) -> Transcript {
    Process::spawn(binary().args(arguments)).finish(status)
}

/// Starts the command. A copied program is busy while a child of another test still holds the copy, up to its `exec`.
fn start(command: &mut Command) -> Child {
    eventually("the program is not busy", || match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => None,
        started => Some(started.expect("the binary starts")),
    })
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::spawn_with_streams(command, Stdio::piped(), Stdio::piped())
    }

    /// Starts a child whose stdout is this stream, which the caller reads.
    pub(crate) fn spawn_printing_to(command: &mut Command, stdout: impl Into<Stdio>) -> Self {
        Self::spawn_with_streams(command, stdout.into(), Stdio::piped())
    }

    /// Gives the child these streams for its output. It reads those that are piped.
    pub(crate) fn spawn_with_streams(command: &mut Command, stdout: Stdio, stderr: Stdio) -> Self {
        let mut child = start(command.stdout(stdout).stderr(stderr));
        // The command must not hold the streams open that it gave to the child.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let command = format!("{command:?}");
        let transcript = Arc::new(Mutex::new(Transcript::default()));
        let (sender, lines) = channel();
        let [of_stdout, of_stderr] = [&transcript; 2].map(Arc::clone);
        let take = move |line: String| {
            of_stdout.lock().unwrap().stdout.push_str(&line);
            // The receiver is gone when the test has dropped this process.
            let _ = sender.send(line);
        };
        let stdout = child.stdout.take().into_iter().flat_map(lines_of);
        let stderr = child.stderr.take().into_iter().flat_map(lines_of);
        let log = move |line: String| of_stderr.lock().unwrap().stderr.push_str(&line);
        let readers = vec![thread::spawn(move || stdout.for_each(take)), thread::spawn(move || stderr.for_each(log))];
        Self { child, command, lines, transcript, readers }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line of stdout, and `None` if stdout is closed. The test waits for what `awaited` names.
    pub(crate) fn next_line_for(&self, awaited: &str, deadline: Instant) -> Option<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("did not come on stdout in time: {awaited}"),
        }
    }

    pub(crate) fn next_line(&self) -> Option<String> {
        self.next_line_for("a line", Instant::now() + PATIENCE)
    }

    /// Returns the next line of stdout that `wanted` accepts, and drops those before it.
    pub(crate) fn wait_line(&self, awaited: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        let lines = std::iter::repeat_with(|| self.next_line_for(awaited, deadline));
        let mut lines = lines.map(|line| line.unwrap_or_else(|| panic!("stdout closed before {awaited}")));
        lines.find(|line| wanted(line)).unwrap()
    }

    /// Returns the next event of this name on stdout, and drops those before it.
    pub(crate) fn wait_event(&self, name: &str) -> Value {
        let event = |line: &str| serde_json::from_str::<Value>(line).expect("an event");
        event(&self.wait_line(name, |line| event(line)["event"] == name))
    }

    pub(crate) fn log(&self) -> String {
        self.transcript().stderr
    }

    /// Waits until it has logged `text`. The log has a pipe of its own, so the order of events tells nothing about it.
    pub(crate) fn wait_log(&self, text: &str) -> String {
        eventually(text, || Some(self.log()).filter(|log| log.contains(text)))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends a signal to its only child, such as what `unshare` has started.
    pub(crate) fn signal_child(&self, signal: Signal) {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.id())).unwrap();
        kill_process(Pid::from_raw(children.trim().parse().unwrap()).unwrap(), signal).unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take().expect("stdin was piped"));
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of the process with a pidfd, which is readable from then on.
    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        if let Some(status) = self.child.try_wait().unwrap() {
            return status;
        }
        let pidfd = rustix::process::pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).unwrap();
        assert!(is_readable_within(pidfd, PATIENCE), "the process did not end in time");
        self.child.wait().unwrap()
    }

    /// Sends this signal, at which it must end with status 0, and returns all that it has written.
    pub(crate) fn stop(&mut self, signal: Signal) -> Transcript {
        self.signal(signal);
        self.finish(0)
    }

    /// Waits until it ends by itself with this status, and returns all that it has written.
    pub(crate) fn finish(&mut self, status: i32) -> Transcript {
        let ended = self.wait_exit();
        let written = self.end();
        assert_eq!(ended.code(), Some(status), "{written:?}");
        written
    }

    /// Kills it if it still runs, and returns all that it has written.
    pub(crate) fn end(&mut self) -> Transcript {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        self.transcript()
    }

    pub(crate) fn transcript(&self) -> Transcript {
        self.transcript.lock().unwrap().clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let transcript = self.end();
        if thread::panicking() {
            eprintln!("--- {}", self.command);
            eprintln!("--- the child's stdout\n{}", transcript.stdout);
            eprintln!("--- the child's stderr\n{}", transcript.stderr);
        }
    }
}

/// Returns the lines with their ends, as they come.
fn lines_of(stream: impl Read) -> impl Iterator<Item = String> {
    let mut stream = BufReader::new(stream);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let length = stream.read_until(b'\n', &mut line).ok()?;
        (length > 0).then(|| String::from_utf8_lossy(&line).into_owned())
    })
}
