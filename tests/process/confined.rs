//! The gateway where the system gives it less: as a container runs it, as process 1 with a read-only root and with
//! what is mounted to write to; where io_uring is refused, by seccomp, as containers refuse it, or by a limit; and
//! where there are no watches on files, as on a desktop whose inotify instances are used up.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use crate::settings::status_with;
use crate::support::*;

/// Makes a read-only view of the file system at `$ROOT`, and mounts `$SOURCE` at `$TARGET` in it, to be written.
const READ_ONLY_ROOT: &str = r#"
    mount --rbind / "$ROOT" && mount -o remount,bind,ro "$ROOT" && mount --bind "$SOURCE" "$ROOT$TARGET" &&
    ! test -w "$ROOT/etc" && exec chroot "$ROOT" "$@""#;

/// A gateway in namespaces of its own, in which it is process 1.
struct Container {
    /// `unshare`, the parent of the gateway.
    process: Process,
    address: SocketAddr,
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
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().parse().unwrap();
        Self { process, address, _directories: [root, config] }
    }

    fn signal(&self, signal: Signal) {
        let parent = self.process.id();
        let children = eventually("the process has a child", || {
            let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
            (!children.is_empty()).then_some(children)
        });
        kill_process(Pid::from_raw(children.trim().parse().unwrap()).unwrap(), signal).unwrap();
    }
}

fn in_namespaces() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "sh"]);
    command.stdin(Stdio::null());
    command
}

/// A file that is mounted alone stays the old one when it is replaced: this is why the documents say that the folder is
/// to be mounted.
#[test]
fn a_replaced_file_counts_in_a_mounted_folder_with_a_read_only_root() {
    let probe = in_namespaces().args(["-c", "mount --bind /etc /etc"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip("a read-only root cannot be made here: this needs `unshare`");
    }
    for mounts_folder in [true, false] {
        let settings = enabled_settings("first");
        let mut container = Container::start(&settings, mounts_folder);
        let address = container.address;
        let status = |name| status_with(&mut Client::connect(address), &token(name));
        assert_eq!(status("first"), 200);
        settings.write(&enabled(&token("second")));
        let statuses = if mounts_folder {
            assert_eq!(container.process.wait_event("settings")["state"], "reloaded");
            (401, 200)
        } else {
            container.signal(Signal::HUP);
            container.process.wait_event("settings");
            (200, 401)
        };
        assert_eq!((status("first"), status("second")), statuses);
        container.signal(Signal::TERM);
        assert!(container.process.finish(0).stdout.contains("\"stopped\""));
    }
}

/// The errors with which container runtimes refuse: Docker with EPERM, gVisor and older kernels with ENOSYS.
const REFUSALS: [Errno; 2] = [Errno::PERM, Errno::NOSYS];

fn serve_one(builder: Builder) -> String {
    let mut gateway = builder.start();
    gateway.post(FINE).assert_accepted();
    gateway.stop().stderr
}

#[test]
fn where_io_uring_is_refused_auto_uses_epoll_and_says_why_once_epoll_does_not_try_it_and_uring_exits_with_5() {
    for (errno, workers) in REFUSALS.into_iter().flat_map(|errno| [(errno, "1"), (errno, "3")]) {
        let refused = |io, expected| {
            let builder = Gateway::serve().arguments(["--workers", workers]).io(io, expected);
            builder.io_uring_refused_with(errno)
        };
        let reason = format!("os error {}", errno.raw_os_error());
        let stderr = serve_one(refused("auto", "epoll"));
        let lines: Vec<_> = stderr.lines().filter(|line| line.contains("io_uring")).collect();
        assert_eq!(lines.len(), 1, "{stderr}");
        assert!(lines[0].contains(&reason) && lines[0].contains("epoll"), "{stderr}");

        let stderr = serve_one(refused("epoll", "epoll"));
        assert!(!stderr.contains("io_uring"), "{stderr}");

        let stderr = refused("uring", "uring").fail(5);
        for text in [reason.as_str(), "kernel.io_uring_disabled", "seccomp", "memlock"] {
            assert!(stderr.contains(text), "{text}: {stderr}");
        }
    }
}

/// Whether rings count against this limit depends on the kernel, and on the capability `CAP_IPC_LOCK` of the process.
#[test]
fn a_memlock_limit_of_zero_does_not_prevent_serving() {
    let limited = || Gateway::serve().after("ulimit -l 0");
    let has_ring = limited().io("uring", "uring").spawn().listens_before_its_end();
    serve_one(limited().io("auto", if has_ring { "uring" } else { "epoll" }));
}

const WITHOUT_INOTIFY: &str = "exec unshare --user --map-root-user \
     sh -c 'echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"' sh \"$@\"";

#[test]
fn without_watches_the_settings_and_the_certificate_are_followed_and_the_log_says_how() {
    let mut gateway = Gateway::serve().token(&token("a")).listen(free_address()).after(WITHOUT_INOTIFY).start();
    gateway.wait_log(&format!("{} is looked at every 1 s instead", gateway.settings.path().display()));
    gateway.change_token("b");
    assert_eq!(status_with(&mut gateway.client(), &token("a")), 401);
    assert_eq!(status_with(&mut gateway.client(), &token("b")), 200);
    gateway.disable();
    assert!(refuses(gateway.address()));
    assert_eq!(gateway.log().matches("is looked at").count(), 1, "{}", gateway.log());

    let mut gateway = Gateway::serve().https().after(WITHOUT_INOTIFY).start();
    let directory = gateway.settings.path().parent().unwrap().to_owned();
    std::fs::remove_file(directory.join("gateway-key.pem")).unwrap();
    gateway.wait_state("certificate", "renewed");
}
