//! `--watch-parent`: the gateway stops when the process that started it has ended, whoever still holds its pipes.

use std::process::{Command, Stdio};

use rustix::process::{Pid, kill_process};

use crate::support::*;

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

    /// Waits until stdout is closed, which the gateway alone holds when its parent has ended.
    fn wait_closed(&mut self) {
        assert_eq!(self.process.next_line(Instant::now() + PATIENCE), None);
        self.gateway = None;
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
        assert_eq!(parent.process.wait_exit(PATIENCE).code(), status);
        parent.wait_event("stopped");
        parent.wait_closed();
    }
}
