//! The gateway as a container runs it: as process 1, with a read-only root, and with what is mounted to write to.

use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::http::Client;
use crate::support::io_mode::io_mode;
use crate::support::process::{Process, binary};
use crate::support::request::Request;
use crate::support::settings_file::{SettingsFile, enabled, token};
use crate::support::{PATIENCE, eventually, skip};

/// Makes a read-only view of the file system at `$ROOT`, and mounts `$SOURCE` at `$TARGET` in it, to be written.
const READ_ONLY_ROOT: &str = r#"
    mount --rbind / "$ROOT" && mount -o remount,bind,ro "$ROOT" && mount --bind "$SOURCE" "$ROOT$TARGET" &&
    ! test -w "$ROOT/etc" && exec chroot "$ROOT" "$@""#;

/// A gateway in namespaces of its own, in which it is process 1.
struct Container {
    /// `unshare`, the parent of the gateway.
    process: Process,
    address: String,
    _directories: [TempDir; 2],
}

impl Container {
    /// Starts a gateway with the folder of the settings mounted, or only the file. It can write to nothing else.
    fn start(settings: &SettingsFile, mounts_folder: bool) -> Self {
        let [root, config] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let inside = config.path().join("user_settings.py");
        let (source, target) = if mounts_folder {
            (settings.path().parent().unwrap(), config.path())
        } else {
            std::fs::write(&inside, "").unwrap();
            (settings.path(), inside.as_path())
        };
        let mut command = in_namespaces();
        command.args(["-c", READ_ONLY_ROOT, "sh"]).arg(binary().get_program());
        command.args(["serve", "--plain", "--listen", "127.0.0.1:0", "--bind", "tcp://127.0.0.1:*", "--io", io_mode()]);
        command.arg("--settings").arg(&inside);
        command.env("ROOT", root.path()).env("SOURCE", source).env("TARGET", target);
        let process = Process::spawn(&mut command);
        let listening = next_event(&process, "listening");
        assert_eq!(listening["pid"], 1);
        let url = listening["url"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        Self { process, address, _directories: [root, config] }
    }

    /// Returns the status of the answer to a message with this token.
    fn status(&self, token: &str) -> u16 {
        let mut client = Client::connect(self.address.parse().unwrap());
        let target = format!("/api/message?token={token}");
        client.exchange(&Request::post(&target, r#"{"topic":"a","payload":{}}"#)).status
    }

    fn signal(&self, signal: Signal) {
        let parent = self.process.id();
        let children = eventually("the process has a child", || {
            let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
            (!children.is_empty()).then_some(children)
        });
        kill_process(Pid::from_raw(children.trim().parse().unwrap()).unwrap(), signal).unwrap();
    }

    fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.process.wait_exit(PATIENCE).code(), Some(0));
        next_event(&self.process, "stopped");
    }
}

/// Returns the command of a shell in namespaces of its own.
fn in_namespaces() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "sh"]);
    command.stdin(Stdio::null());
    command
}

/// Returns whether such namespaces can be made here.
fn is_possible() -> bool {
    let probe = in_namespaces().args(["-c", "mount --bind /etc /etc"]).stderr(Stdio::null()).status();
    let possible = probe.is_ok_and(|status| status.success());
    if !possible {
        skip("a read-only root cannot be made here: this needs `unshare`");
    }
    possible
}

/// Returns the next event with this name.
fn next_event(process: &Process, name: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let line = process.next_line(deadline).expect("stdout is closed before the event");
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["event"] == name {
            return event;
        }
    }
}

#[test]
fn a_changed_file_in_a_mounted_folder_counts_with_a_read_only_root() {
    if !is_possible() {
        return;
    }
    let settings = SettingsFile::absent();
    settings.write(&enabled(&token("first")));
    let container = Container::start(&settings, true);
    assert_eq!(container.status(&token("first")), 200);
    settings.write(&enabled(&token("second")));
    assert_eq!(next_event(&container.process, "settings")["state"], "reloaded");
    assert_eq!((container.status(&token("first")), container.status(&token("second"))), (401, 200));
    container.stop();
}

/// This is why the documents say that the folder is to be mounted.
#[test]
fn a_mounted_file_stays_the_old_one_when_it_is_replaced() {
    if !is_possible() {
        return;
    }
    let settings = SettingsFile::absent();
    settings.write(&enabled(&token("first")));
    let container = Container::start(&settings, false);
    settings.write(&enabled(&token("second")));
    container.signal(Signal::HUP);
    next_event(&container.process, "settings");
    assert_eq!((container.status(&token("first")), container.status(&token("second"))), (200, 401));
    container.stop();
}
