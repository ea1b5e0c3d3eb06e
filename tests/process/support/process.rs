//! A child process whose output is read as it comes and whose end can be awaited.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::PATIENCE;

/// The number of the system call, the same on every architecture (since kernel 5.1 they share their numbers).
const IO_URING_SETUP: i64 = 425;

/// Everything a child has written so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Ended and reaped when dropped, whatever the test did.
pub(crate) struct Process {
    child: Child,
    command: String,
    lines: Receiver<String>,
    transcript: Arc<Mutex<Transcript>>,
    readers: Vec<JoinHandle<()>>,
}

/// The binary under test.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-gateway"));
    command.stdin(Stdio::null());
    command
}

/// The same command behind the shell's `ulimit` with these arguments, under the same process id.
pub(crate) fn limited(ulimit: &str, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit {ulimit} && exec \"$@\""), "sh"]);
    limited.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    limited.envs(set);
    limited
}

/// Calls `start` in a thread for which, and for whose children, the kernel answers `io_uring_setup` with this error. A
/// filter binds the thread that sets it and what that thread starts, so nothing unsafe is needed between fork and exec.
pub(crate) fn without_uring<T: Send>(refused: Errno, start: impl FnOnce() -> T + Send) -> T {
    let refusal = SeccompAction::Errno(u32::try_from(refused.raw_os_error()).unwrap());
    let rules = [(IO_URING_SETUP, Vec::new())].into();
    let machine = std::env::consts::ARCH.try_into().expect("an architecture that seccompiler knows");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    let confined = || {
        seccompiler::apply_filter(&program).expect("a filter can be set");
        start()
    };
    std::thread::scope(|threads| threads.spawn(confined).join().unwrap())
}

/// Runs the binary to its end, for commands that end by themselves.
pub(crate) fn run<'a>(arguments: impl IntoIterator<Item = &'a str>) -> (i32, Transcript) {
    let mut process = Process::spawn(binary().args(arguments));
    let status = process.wait_exit(PATIENCE);
    (status.code().unwrap_or(-1), process.end())
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::spawn_reading_until(command, |_line| false)
    }

    /// Reads stdout through the line that `is_last` accepts, then closes it in the child's face.
    pub(crate) fn spawn_reading_until(command: &mut Command, is_last: impl Fn(&str) -> bool + Send + 'static) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let command = format!("{command:?}");
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let transcript = Arc::new(Mutex::new(Transcript::default()));
        let (sender, lines) = channel();
        let readers = vec![
            std::thread::spawn({
                let transcript = Arc::clone(&transcript);
                move || read_lines(stdout, &transcript, &sender, is_last)
            }),
            std::thread::spawn({
                let transcript = Arc::clone(&transcript);
                move || read_all(stderr, &transcript)
            }),
        ];
        Self { child, command, lines, transcript, readers }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of stdout; `None` once stdout is closed.
    pub(crate) fn next_line(&self, deadline: Instant) -> Option<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("stdout stayed silent"),
        }
    }

    /// The same where none may come within `bound`.
    pub(crate) fn next_line_within(&self, bound: Duration) -> Option<String> {
        self.lines.recv_timeout(bound).ok()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take().expect("stdin was piped"));
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end by a pidfd, which becomes readable when the process is over.
    pub(crate) fn wait_exit(&mut self, bound: Duration) -> ExitStatus {
        if let Some(status) = self.child.try_wait().unwrap() {
            return status;
        }
        let pid = Pid::from_child(&self.child);
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let bound = Timespec::try_from(bound).unwrap();
        let ready = rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&bound));
        assert_eq!(ready, Ok(1), "the process did not end in time");
        self.child.wait().unwrap()
    }

    /// Kills it if it still runs, and returns all it ever wrote.
    pub(crate) fn end(&mut self) -> Transcript {
        // Both fail only when the process is over already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        self.transcript()
    }

    /// All it has written so far.
    pub(crate) fn transcript(&self) -> Transcript {
        self.transcript.lock().unwrap().clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let transcript = self.end();
        if std::thread::panicking() {
            eprintln!("--- {}", self.command);
            eprintln!("--- the child's stdout\n{}", transcript.stdout);
            eprintln!("--- the child's stderr\n{}", transcript.stderr);
        }
    }
}

fn read_lines(
    stdout: impl Read,
    transcript: &Mutex<Transcript>,
    sender: &Sender<String>,
    is_last: impl Fn(&str) -> bool,
) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    while stdout.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned();
        transcript.lock().unwrap().stdout.push_str(&text);
        let over = is_last(&text);
        // Nobody listens any more once the test is done with this process.
        let _ = sender.send(text);
        if over {
            return;
        }
    }
}

fn read_all(stderr: impl Read, transcript: &Mutex<Transcript>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while stderr.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        transcript.lock().unwrap().stderr.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
}
