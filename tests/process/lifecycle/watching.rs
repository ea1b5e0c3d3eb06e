//! `--watch-stdin`: stdin has ended. `--watch-parent`: the parent has ended, whoever still holds its pipes.

use super::*;
use crate::endurance::assert_idle;

fn watching() -> Builder {
    Gateway::serve().arguments(["--watch-stdin"])
}

/// A service manager starts a gateway with a stdin that is at its end.
#[test]
fn without_the_option_the_end_of_stdin_is_ignored() {
    let mut gateway = Gateway::serve().stdin(Stdio::piped()).start();
    gateway.close_stdin();
    // The gateway handles a signal after that, so it would have seen the end of stdin before.
    gateway.stats();
    gateway.post(FINE).assert_accepted();
    assert!(gateway.is_running());
}

/// The parent shares the flags of the stream, and may use the same pipe without blocking, as event loops do.
#[test]
fn a_pipe_that_blocks_still_blocks_and_one_that_does_not_block_has_not_ended() {
    for nonblocking in [false, true] {
        let (reader, mut writer) = io::pipe().unwrap();
        let shared = reader.try_clone().unwrap();
        set_nonblocking(&reader, nonblocking);
        let mut gateway = watching().stdin(reader).start();
        for _ in 0..3 {
            writer.write_all(b"ignored\n").unwrap();
            gateway.stats();
            gateway.post(FINE).assert_accepted();
        }
        assert_eq!(fcntl_getfl(&shared).unwrap().contains(OFlags::NONBLOCK), nonblocking);
        drop(writer);
        assert_eq!(gateway.expect_stopped(), 3);
        gateway.wait_log("info: stdin ended, so the gateway stops\n");
    }
}

#[test]
fn a_file_ends_after_its_content_and_dev_null_and_a_closed_stdin_at_once() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[b'x'; 100_000]).unwrap();
    for stdin in [file, OpenOptions::new().read(true).open("/dev/null").unwrap()] {
        watching().stdin(stdin).spawn().expect_stopped();
    }
    watching().listen(free_address()).after("exec <&-").spawn().expect_stopped();
}

/// Whoever starts the gateway may give it a stdin that always has something to read.
#[test]
fn a_stdin_without_an_end_takes_no_processor() {
    let zeros = OpenOptions::new().read(true).open("/dev/zero").unwrap();
    let mut gateway = watching().stdin(zeros).start();
    assert_idle(&gateway, "while stdin can always be read");
    gateway.post(FINE).assert_accepted();
    gateway.terminate();
}

/// A person types, and ends the input with Ctrl-D.
#[test]
fn a_terminal_ends_when_the_person_says_so() {
    for nonblocking in [false, true] {
        let mut terminal = Terminal::open();
        let stdin = terminal.stream();
        set_nonblocking(&stdin, nonblocking);
        let mut gateway = watching().stdin(stdin).start();
        terminal.type_in(b"a line\n");
        gateway.stats();
        gateway.post(FINE).assert_accepted();
        terminal.type_in(b"\x04");
        gateway.expect_stopped();
    }
}

/// A shell, the parent of the gateway.
struct Parent {
    process: Process,
    gateway: Option<Pid>,
    _settings: SettingsFile,
}

impl Parent {
    /// Starts a shell in a session of its own. Its script starts the gateway by `"$@"`.
    fn start(script: &str) -> Self {
        let settings = enabled_settings("of-the-test");
        let mut shell = Command::new("setsid");
        shell.args(["sh", "-c", script, "sh"]).arg(binary().get_program());
        shell.args(["serve", "--plain", "--listen", "127.0.0.1:0", "--watch-parent", "--io", io_mode()]);
        shell.args(["--bind", &format!("ipc://{}", settings.config_home().join("bus").display())]);
        shell.arg("--settings").arg(settings.path()).stdin(Stdio::null());
        Self { process: Process::spawn(&mut shell), gateway: None, _settings: settings }
    }

    fn wait_event(&mut self, name: &str) {
        let event = self.process.wait_event(name);
        if name == "listening" {
            self.gateway = Pid::from_raw(event["pid"].as_i64().unwrap().try_into().unwrap());
        }
    }
}

impl Drop for Parent {
    /// Ends a gateway that has outlived its parent.
    fn drop(&mut self) {
        if let Some(gateway) = self.gateway {
            let _ = kill_process(gateway, Signal::KILL);
        }
    }
}

#[test]
fn the_gateway_stops_when_its_parent_is_killed_or_exits() {
    for (script, signal, status) in [
        ("\"$@\" & exec sleep 1000", Some(Signal::KILL), None),
        ("\"$@\" & kill -STOP $$; exit 3", Some(Signal::CONT), Some(3)),
        // The shell has ended and was waited for before the gateway runs and could look.
        ("(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; exec \"$@\") & exit 0", None, Some(0)),
    ] {
        let mut parent = Parent::start(script);
        if let Some(signal) = signal {
            parent.wait_event("listening");
            parent.process.signal(signal);
        }
        assert_eq!(parent.process.wait_exit().code(), status);
        parent.wait_event("stopped");
        // The gateway alone holds stdout when its parent has ended.
        assert_eq!(parent.process.next_line(), None, "stdout stays open");
        parent.gateway = None;
    }
}

/// A process that leads no group may begin a session of its own at any time.
#[test]
fn a_parent_that_has_left_the_session_has_not_ended() {
    let mut parent = Parent::start(
        "python3 -c 'import os, sys, time
if os.fork():
    os.setsid()
    os.wait()
else:
    while os.getsid(os.getppid()) == os.getsid(0):
        time.sleep(0.01)
    os.execv(sys.argv[1], sys.argv[1:])' \"$@\"; exit 3",
    );
    parent.wait_event("listening");
    for (signal, event) in [(Signal::USR1, "stats"), (Signal::TERM, "stopped")] {
        kill_process(parent.gateway.unwrap(), signal).unwrap();
        parent.wait_event(event);
    }
    parent.gateway = None;
    parent.process.finish(3);
}
