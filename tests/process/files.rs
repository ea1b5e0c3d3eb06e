//! File systems, mounts and locks of others: none holds the gateway up, and no switch-off is missed.

use rustix::fs::{FlockOperation, flock};

use crate::support::*;

const SILENT: &str = "does not answer";

/// Starts a gateway whose settings are in such a folder.
fn on_a_hanging_folder(builder: Builder, hangs: bool) -> Option<(Gateway, HangingFolder)> {
    let folder = HangingFolder::with(&enabled(&token("of-the-test")), hangs)?;
    let settings = SettingsFile::absent();
    let builder = folder.mounted_at(settings.path().parent().unwrap(), builder);
    Some((builder.beside(settings).spawn(), folder))
}

/// Returns a gateway whose certificate and key are in such a folder, alone, and the path of the file.
fn with_a_hanging_certificate(hangs: bool) -> Option<(Builder, HangingFolder, String, TempDir)> {
    let Pair { certificate, key } = Pair::ec();
    let folder = HangingFolder::with(&(certificate + &key), hangs)?;
    let mounted = tempfile::tempdir().unwrap();
    let file = mounted.path().join("user_settings.py").display().to_string();
    let builder = Gateway::serve().https().listen(free_address()).arguments(["--tls-cert", &file, "--tls-key", &file]);
    Some((folder.mounted_at(mounted.path(), builder), folder, file, mounted))
}

#[test]
fn a_certificate_that_does_not_answer_hides_no_change_of_the_settings() {
    for is_on in [true, false] {
        let Some((builder, folder, file, _mounted)) = with_a_hanging_certificate(false) else { return };
        let mut gateway = builder.start();
        if !is_on {
            gateway.disable();
        }
        folder.hang(true);
        gateway.signal(Signal::HUP);
        gateway.wait_log(&format!("{file} {SILENT}"));
        if is_on {
            gateway.disable();
        }
        assert!(refuses(gateway.address()));
        gateway.enable("of-the-test");
        gateway.terminate();
    }
}

/// As on a network file system, the kernel tells nothing of the change.
#[test]
fn a_certificate_that_another_computer_replaces_is_served_within_seconds() {
    let Some((builder, folder, _file, _mounted)) = with_a_hanging_certificate(false) else { return };
    let mut gateway = builder.start();
    let Pair { certificate, key } = Pair::ec();
    let (lateness, since) = (Lateness::watch(), Instant::now());
    folder.write(&(certificate + &key));
    gateway.wait_state("certificate", "replaced");
    lateness.assert_took(since.elapsed(), Duration::from_secs(20));
}

/// A start that the certificate may still refuse touches nothing else.
#[test]
fn settings_that_are_read_again_before_the_certificate_is_loaded_bind_no_endpoint() {
    let Some((builder, _folder, _file, _mounted)) = with_a_hanging_certificate(true) else { return };
    let mut gateway = builder.spawn();
    eventually_handles_signals(&gateway);
    gateway.signal(Signal::HUP);
    gateway.wait_settings("unchanged");
    gateway.stop().stdout.lacks("bound");
}

#[test]
fn settings_that_do_not_answer_keep_no_socket_while_requests_are_answered() {
    let (_directory, socket) = temporary_path("socket");
    let Some((mut gateway, folder)) = on_a_hanging_folder(Gateway::serve().listen_at(&socket), false) else { return };
    gateway.wait_listening();
    let mut client = Client::connect_to(&socket);
    let request = gateway.request(FINE).bytes();
    let (half, rest) = request.split_at(request.len() - 1);
    client.send(half);
    folder.hang(true);
    gateway.signal(Signal::HUP);
    gateway.wait_log(SILENT);
    gateway.signal(Signal::TERM);
    wait_until("the end of the socket", || !socket.exists());
    client.send(rest);
    client.response().assert_accepted();
    gateway.finish(0);
}

#[test]
fn an_api_that_is_switched_on_while_the_certificate_does_not_answer_says_so() {
    let Some((builder, folder, file, _mounted)) = with_a_hanging_certificate(true) else { return };
    let mut gateway = builder.no_settings().start_disabled();
    gateway.settings.write(&enabled(&token("of-the-test")));
    for _ in 0..2 {
        gateway.wait_event("not-ready")["reason"].as_str().unwrap().to_owned().has(&file).ends(SILENT);
        gateway.disable();
        gateway.settings.write(&enabled(&token("of-the-test")));
    }
    folder.hang(false);
    gateway.wait_listening();
    gateway.terminate();
}

#[test]
fn settings_that_do_not_answer_hold_nothing_up_and_count_when_they_answer_again() {
    let builder = Gateway::serve().listen(free_address());
    let Some((mut gateway, folder)) = on_a_hanging_folder(builder, false) else { return };
    gateway.wait_listening();
    folder.hang(true);
    gateway.signal(Signal::HUP);
    gateway.wait_log(&format!("{} {SILENT}", gateway.settings.path().display()));
    gateway.stats();
    gateway.post(FINE).assert_accepted();
    folder.write(disabled());
    folder.hang(false);
    gateway.wait_event("disabled");
    gateway.wait_log("answers again");
    assert!(refuses(gateway.address()));

    // The kernel tells nothing of this change.
    folder.write(&enabled(&token("of-the-test")));
    gateway.wait_listening();
    folder.hang(true);
    gateway.signal(Signal::HUP);
    wait_until("a second warning", || gateway.log().matches(SILENT).count() == 2);
    gateway.terminate();
}

#[test]
fn a_start_whose_settings_do_not_answer_is_disabled_and_follows_signals() {
    let Some((mut gateway, folder)) = on_a_hanging_folder(Gateway::serve().https(), true) else { return };
    eventually_handles_signals(&gateway);
    gateway.stats();
    let reason = gateway.wait_event("disabled")["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason, format!("{} {SILENT}", gateway.settings.path().display()));
    gateway.stats();
    folder.hang(false);
    let Some((mut second, _folder)) = on_a_hanging_folder(Gateway::serve(), true) else { return };
    eventually_handles_signals(&second);
    assert!(!second.stop().stdout.contains("disabled"), "the signal did not wait for the settings");
}

/// It waits only for files of the user, which may refuse the start.
#[test]
fn an_api_that_is_switched_off_again_waits_for_no_certificate_of_its_own() {
    let Some(folder) = HangingFolder::with("", true) else { return };
    let mounted = tempfile::tempdir().unwrap();
    let builder = Gateway::serve().https().arguments(["--cert-dir", mounted.path().to_str().unwrap()]);
    let mut gateway = folder.mounted_at(mounted.path(), builder).spawn();
    eventually_handles_signals(&gateway);
    gateway.signal(Signal::HUP);
    gateway.wait_settings("unchanged");
    gateway.settings.write(disabled());
    let is_off = |it: &Value| is_event(it, "disabled") && !it["reason"].as_str().unwrap().ends_with(SILENT);
    let first = gateway.wait_for("the change", |it| is_off(it) || it["state"] == "reloaded");
    assert!(is_off(&first), "{first}");
    gateway.wait_settings("reloaded");
    gateway.terminate();
}

/// Waits until the process handles signals. Between the system call that installs a handler and the end of its
/// registration, a signal is lost without an effect. SIGHUP is the last that is registered.
fn eventually_handles_signals(gateway: &Gateway) {
    wait_until("signals are handled", || {
        let caught = status(format!("/proc/{}", gateway.id()), "SigCgt");
        u64::from_str_radix(&caught, 16).unwrap() & 1 << (Signal::HUP.as_raw() - 1) != 0
    });
}

/// Whoever may read a folder may lock it. Each lock is waited for, at the cost of the start alone.
#[test]
fn a_locked_folder_of_sockets_delays_no_stop() {
    let ways = [("--listen", "unix:", false), ("--bind", "ipc://", false), ("--bind", "ipc://", true)];
    for (option, scheme, by_stdin) in ways {
        let directory = tempfile::tempdir().unwrap();
        let lock = File::open(directory.path()).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let place = |number: usize| format!("{scheme}{}/{number}", directory.path().display());
        let places: Vec<_> = (0..30).flat_map(|number| [option.to_owned(), place(number)]).collect();
        let arguments = places.iter().map(String::as_str).chain(["--drain-timeout", "0.5", "--watch-stdin"]);
        let mut gateway = Gateway::serve().arguments(arguments).stdin(Stdio::piped()).spawn();
        eventually_handles_signals(&gateway);
        gateway.stats();
        let has_sockets = || entries(&directory).next().is_some();
        wait_until("the first socket", has_sockets);
        if by_stdin {
            gateway.close_stdin();
        } else {
            gateway.signal(Signal::TERM);
        }
        let stdout = gateway.finish(0).stdout;
        assert!(stdout.lines().last().unwrap().contains("stopped") && !stdout.contains("listening"), "{stdout}");
        assert!(!has_sockets(), "{option}");
    }
}

/// Where the address becomes free, the gateway would listen. But the settings are read again once it could.
#[test]
fn settings_that_are_switched_off_while_the_port_is_taken_are_the_last_reason() {
    for is_freed in [false, true, true, true] {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut gateway = Gateway::serve().no_settings().listen(taken.local_addr().unwrap()).start_disabled();
        let off = format!("{}OPEN_REST_API = False\n", enabled(&token("of-the-test")));
        fs::write(gateway.settings.path(), &off).unwrap();
        gateway.wait_event("disabled");
        fs::write(gateway.settings.path(), enabled(&token("of-the-test"))).unwrap();
        gateway.wait_event("not-ready");
        fs::write(gateway.settings.path(), &off).unwrap();
        let _taken = Some(taken).filter(|_| !is_freed);
        let ends = ["disabled", "failed", "listening"];
        let end = gateway.wait_for("the end of the retries", |it| ends.iter().any(|name| is_event(it, name)));
        assert!(is_event(&end, "disabled"), "is_freed: {is_freed}, {end}");
    }
}

/// Returns a program with a lease, which writes this text.
fn leased(path: &Path, text: &str) -> Process {
    let process = Process::spawn(Command::new("python3").args(["-c", include_str!("lease.py")]).arg(path).arg(text));
    process.wait_line("the lease", |line| line == "held\n");
    process
}

#[test]
fn a_lease_of_another_program_is_no_answer() {
    needs!(is_possible("python3 --version"));
    let settings = enabled_settings("of-the-test");
    let path = settings.path().to_owned();
    let of_start = leased(&path, "");
    let mut gateway = Gateway::serve().no_settings().beside(settings).start();
    drop(of_start);
    let of_change = leased(&path, disabled());
    gateway.wait_event("disabled");
    drop(of_change);
    let of_command = leased(&path, "");
    run(["enable", "--settings", path.to_str().unwrap()], 0);
    drop(of_command);
    gateway.wait_listening();
    assert!(!gateway.stop().stdout.contains("rejected"));
}

/// Runs a command where the gateway sees its effect.
fn beside(gateway: &Gateway, script: &str) {
    let target = gateway.id().to_string();
    let enter = ["--target", &target, "--user", "--preserve-credentials", "--mount", "sh", "-c", script];
    assert!(Command::new("nsenter").args(enter).status().unwrap().success(), "{script}");
}

#[test]
fn a_file_that_is_mounted_or_has_another_name_is_followed_where_it_is_written() {
    let (_elsewhere, other) = temporary_path("other");
    for is_mounted in [false, true] {
        let settings = SettingsFile::absent();
        fs::write(&other, enabled(&token("of-the-test"))).unwrap();
        needs!(!is_mounted || can_mount());
        let script = if is_mounted {
            fs::write(settings.path(), "").unwrap();
            unshared("--mount", &format!("mount --bind {} {}", other.display(), settings.path().display()))
        } else {
            fs::hard_link(&other, settings.path()).unwrap();
            "true".into()
        };
        let builder = Gateway::serve().no_settings().listen(free_address()).after(&script);
        let mut gateway = builder.beside(settings).start();
        for name in ["first", "second"] {
            fs::write(&other, disabled()).unwrap();
            gateway.wait_event("disabled");
            fs::write(&other, enabled(&token(name))).unwrap();
            gateway.wait_listening();
            assert_eq!(gateway.client().status_with(&token(name)), 200);
        }
    }
}

#[test]
fn a_file_system_that_is_mounted_over_the_folder_counts_and_what_is_in_it() {
    needs!(can_mount());
    let mut gateway = Gateway::serve().listen(free_address()).after(&unshared("--mount", "true")).start();
    let path = gateway.settings.path().to_owned();
    let folder = path.parent().unwrap().display();
    beside(&gateway, &format!("mount -t tmpfs none {folder}"));
    gateway.wait_event("disabled");
    assert!(refuses(gateway.address()));
    beside(&gateway, &format!("echo OPEN_REST_API = True > {0}; echo TOKEN = \\'$0\\' >> {0}", path.display()));
    // The shell of that script has no name but this.
    gateway.wait_listening();
    assert_eq!(gateway.client().status_with("sh"), 200);
    beside(&gateway, &format!("umount {folder}"));
    gateway.wait_settings("reloaded");
    wait_until("the first file", || gateway.client().status_with(&token("of-the-test")) == 200);
}

/// Nothing is due but the looks at the settings every five seconds, and at the certificate once a minute.
#[test]
fn a_gateway_that_idles_beside_busy_programs_wakes_for_its_looks_alone() {
    side_by_side([(false, false), (false, true), (true, true)], |(is_https, serves)| {
        let settings = SettingsFile::absent();
        let text = if serves { enabled(&token("of-the-test")) } else { disabled().to_owned() };
        settings.write(&text);
        let other = settings.path().with_file_name("other");
        let _busy = Task::repeat(move || {
            // The folder may be gone at the end.
            let _ = fs::write(&other, "").and_then(|()| fs::remove_file(&other));
            thread::sleep(Duration::from_millis(1));
        });
        let builder = Gateway::serve().no_settings().beside(settings);
        let mut gateway = if is_https { builder.https() } else { builder }.spawn();
        gateway.wait_event(if serves { "ready" } else { "disabled" });
        let waits = || threads(gateway.id()).map(|thread| voluntary_switches(&thread)).sum::<u64>();
        // The threads of the start come to rest.
        thread::sleep(Duration::from_secs(1));
        let (since, before) = (Instant::now(), waits());
        thread::sleep(Duration::from_secs(21));
        let (waited, looks) = (waits() - before, since.elapsed().as_secs() / 5 + 1);
        assert!(waited <= looks + 1, "{waited} waits in the time of {looks} looks, https {is_https}, serves {serves}");
    });
}

/// The lock of the folder delays each socket by a second.
#[test]
fn an_api_that_is_switched_off_while_its_sockets_are_opened_never_opens() {
    let directory = tempfile::tempdir().unwrap();
    let lock = File::open(directory.path()).unwrap();
    let place = |number: usize| directory.path().join(number.to_string());
    let builder = (0..3).map(place).fold(Gateway::serve().no_settings(), |it, path| it.listen_at(&path));
    let mut gateway = builder.listen(ANY_PORT).start_disabled();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    fs::write(gateway.settings.path(), enabled(&token("of-the-test"))).unwrap();
    wait_until("the first socket", || entries(&directory).next().is_some());
    fs::write(gateway.settings.path(), disabled()).unwrap();
    gateway.wait_settings("reloaded");
    gateway.wait_settings("reloaded");
    wait_until("no socket", || entries(&directory).next().is_none());
    gateway.stop().stdout.lacks("listening");
}
