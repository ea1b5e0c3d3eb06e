//! The gateway as a container runs it: as process 1, with a read-only root, and with what is mounted to write to.

use std::process::{Command, Stdio};

use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use crate::support::*;

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
        let listening = process.wait_event("listening");
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
        assert!(self.process.finish(0).stdout.contains("\"stopped\""));
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

/// A file that is mounted alone stays the old one when it is replaced: this is why the documents say that the folder is
/// to be mounted.
#[test]
fn a_replaced_file_counts_in_a_mounted_folder_with_a_read_only_root() {
    if !is_possible() {
        return;
    }
    for mounts_folder in [true, false] {
        let settings = enabled_settings("first");
        let container = Container::start(&settings, mounts_folder);
        assert_eq!(container.status(&token("first")), 200);
        settings.write(&enabled(&token("second")));
        let statuses = if mounts_folder {
            assert_eq!(container.process.wait_event("settings")["state"], "reloaded");
            (401, 200)
        } else {
            container.signal(Signal::HUP);
            container.process.wait_event("settings");
            (200, 401)
        };
        assert_eq!((container.status(&token("first")), container.status(&token("second"))), statuses);
        container.stop();
    }
}
