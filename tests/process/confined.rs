//! The gateway where the system gives it less: as process 1 of a container with a read-only root; where io_uring is
//! refused, by seccomp or by a limit; and where there are no watches on files, as their instances are used up.

use crate::support::*;

/// Makes the gateway process 1 of a container with a read-only `$ROOT`, in which `$SOURCE` is mounted at `$TARGET`.
const CONTAINER: &str = r#"exec unshare --user --map-root-user --mount --pid --fork --kill-child sh -c '
    mount --rbind / "$ROOT" && mount -o remount,bind,ro "$ROOT" && mount --bind "$SOURCE" "$ROOT$TARGET" &&
    ! test -w "$ROOT/etc" && exec chroot "$ROOT" "$@"' sh "$@""#;

/// A file that is mounted alone stays the old one: this is why the documents say that the folder is to be mounted.
#[test]
fn a_replaced_file_counts_in_a_mounted_folder_with_a_read_only_root() {
    needs!(can_mount());
    for mounts_folder in [true, false] {
        let settings = enabled_settings("first");
        let [root, config] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let folder = config.path().join("adapter");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("user_settings.py");
        fs::write(&file, "").unwrap();
        let mounted =
            if mounts_folder { (settings.path().parent().unwrap(), &folder) } else { (settings.path(), &file) };
        let [root, config, source, target] = [root.path(), config.path(), mounted.0, mounted.1].map(Path::display);
        let script =
            format!("export ROOT={root} XDG_CONFIG_HOME={config} SOURCE={source} TARGET={target}; {CONTAINER}");
        let builder = Gateway::serve().no_settings().settings_by_default_path().bind("tcp://127.0.0.1:*");
        let mut gateway = builder.after(&script).beside(settings).spawn();
        let listening = gateway.wait_event("listening");
        assert_eq!(listening["pid"], 1);
        let address = listening["url"].as_str().unwrap().split('/').nth(2).unwrap().parse().unwrap();
        let status = |name| Client::connect(address).status_with(&token(name));
        assert_eq!(status("first"), 200);
        gateway.settings.write(&enabled(&token("second")));
        let statuses = if mounts_folder {
            gateway.wait_settings("reloaded");
            (401, 200)
        } else {
            gateway.signal_child(Signal::HUP);
            gateway.wait_event("settings");
            (200, 401)
        };
        assert_eq!((status("first"), status("second")), statuses);
        gateway.signal_child(Signal::TERM);
        gateway.expect_stopped();
    }
}

/// The errors with which container runtimes refuse: Docker with EPERM, gVisor and older kernels with ENOSYS.
const REFUSALS: [Errno; 2] = [Errno::PERM, Errno::NOSYS];

/// Serves requests of one connection, the later of which the gateway must wait for, and returns the log.
fn serve_some(builder: Builder) -> String {
    let mut gateway = builder.start();
    let mut client = gateway.served_client();
    (0..2).for_each(|_| gateway.serve_each([&mut client]));
    gateway.stop().stderr
}

#[test]
fn where_io_uring_is_refused_auto_uses_epoll_and_says_why_once_epoll_does_not_try_it_and_uring_exits_with_5() {
    // A profile of seccomp may allow the set-up alone.
    let calls = [(libc::SYS_io_uring_setup, "1"), (libc::SYS_io_uring_setup, "3"), (libc::SYS_io_uring_enter, "1")];
    for (errno, (call, workers)) in REFUSALS.into_iter().flat_map(|errno| calls.map(|call| (errno, call))) {
        let refused = |io, expected| {
            let builder = Gateway::serve().arguments(["--workers", workers]).io(io, expected);
            builder.refused(Refusal { call, argument: None, errno })
        };
        let reason = format!("os error {}", errno.raw_os_error());
        let stderr = serve_some(refused("auto", "epoll"));
        let lines: Vec<_> = stderr.lines().filter(|line| line.contains("io_uring")).collect();
        assert_eq!(lines.len(), 1, "{stderr}");
        assert!(lines[0].contains(&reason) && lines[0].contains("epoll"), "{stderr}");

        serve_some(refused("epoll", "epoll")).lacks("io_uring");

        let stderr = refused("uring", "uring").fail(5);
        stderr.has(&reason).has("kernel.io_uring_disabled").has("seccomp").has("memlock");
    }
}

/// A ring that can be entered, and takes no operation.
#[test]
fn where_a_ring_completes_nothing_auto_uses_epoll() {
    let operations = Refusal { call: libc::SYS_io_uring_enter, argument: Some((1, 1)), errno: Errno::PERM };
    serve_some(Gateway::serve().io("auto", "epoll").refused(operations))
        .has("io_uring is not available (an operation does not end)");
}

/// Whether rings count against this limit depends on the kernel, and on the capability `CAP_IPC_LOCK` of the process.
#[test]
fn a_memlock_limit_of_zero_does_not_prevent_serving() {
    let limited = || Gateway::serve().after("ulimit -l 0");
    let has_ring = limited().io("uring", "uring").spawn().listens_before_its_end();
    serve_some(limited().io("auto", if has_ring { "uring" } else { "epoll" }));
}

#[test]
fn without_watches_the_settings_and_the_certificate_are_followed_and_the_log_says_how() {
    needs!(is_possible("unshare --user --map-root-user true"));
    let script = unshared("", "echo 0 > /proc/sys/user/max_inotify_instances");
    let mut gateway = Gateway::serve().token(&token("a")).listen(free_address()).after(&script).start();
    gateway.wait_log(&format!("{} is looked at every 5 s instead", gateway.settings.path().display()));
    gateway.change_token("b");
    assert_eq!(gateway.client().status_with(&token("a")), 401);
    assert_eq!(gateway.client().status_with(&token("b")), 200);
    gateway.disable();
    assert!(refuses(gateway.address()));
    assert_eq!(gateway.log().matches("is looked at").count(), 1, "{}", gateway.log());

    let mut gateway = Gateway::serve().https().after(&script).start();
    let directory = gateway.settings.path().parent().unwrap().to_owned();
    fs::remove_file(directory.join("gateway-key.pem")).unwrap();
    gateway.wait_state("certificate", "rejected");
}
