//! What `user_settings.py` means, and that the running gateway follows it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::support::*;

/// A path is bytes. The commands that `enable` prints can be pasted.
#[test]
fn a_settings_file_may_have_a_path_that_is_not_utf_8() {
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join(OsStr::from_bytes(b"a\xff'\xc3\xa9\\")).join("user_settings.py");
    let with_settings = |command: &str| {
        let mut with_settings = binary();
        with_settings.arg(command).arg("--settings").arg(&settings);
        with_settings
    };
    let printed = Process::spawn(&mut with_settings("enable")).finish(0).stdout;
    let mut serve = with_settings("serve");
    serve.args(["--listen", "127.0.0.1:0", "--io", io_mode(), "--bind"]);
    let serve = serve.arg(format!("ipc://{}", directory.path().join("bus").display()));
    let mut gateway = Process::spawn(serve);
    let url = gateway.wait_event("listening")["url"].as_str().unwrap().replace("/api/message", "");
    let send = printed.lines().find_map(|line| line.strip_prefix("adapter-gateway send")).unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("\"$0\" send --url '{url}'{send}")]).arg(binary().get_program());
    Process::spawn(&mut shell).finish(0);
    Process::spawn(&mut with_settings("disable")).finish(0);
    gateway.wait_event("disabled");
    gateway.stop(Signal::TERM);
}

#[test]
fn settings_of_the_users_configuration_directory_are_read_and_never_executed() {
    let (_directory, proof) = temporary_path("executed");
    let text = format!("import sys\nopen({proof:?}, 'w').write('x')\n{}raise SystemExit(1)\n", enabled(&token("a")),);
    let gateway = Gateway::serve().settings(&text).settings_by_default_path().start();
    assert_eq!(gateway.client().status_with(&token("a")), 200);
    assert!(!proof.exists());
}

/// A client in a row learns that the gateway is off, and doubts no message, also if a part of its request was read.
#[test]
fn requests_over_connections_of_a_gateway_that_was_disabled_are_503_whatever_their_token_and_counted() {
    let mut gateway = Gateway::serve().start();
    let [mut first, mut second, mut begun] = [(); 3].map(|()| gateway.client());
    gateway.serve_each([&mut first, &mut second]);
    let request = gateway.request(FINE).bytes();
    let (beginning, rest) = request.split_at(request.len() / 2);
    // Both are in one write, so the answer to the first shows that the beginning of the second was read too.
    begun.send([&request, beginning].concat());
    begun.response().assert_accepted();

    gateway.disable();
    let with = |name: &str| Request::post(&format!("/api/message?token={name}"), FINE).bytes();
    for (mut client, bytes) in [(first, with("s3cr3t-other")), (second, with("s3cr3t-another")), (begun, rest.to_vec())]
    {
        client.send(bytes);
        assert_eq!(client.expect_last(503).kind, "disabled");
    }
    let stats = gateway.stats();
    assert_eq!(stats["refused"], json!({ "disabled": 3 }), "{stats}");
}

#[test]
fn disabling_removing_or_emptying_closes_the_port_and_the_idle_connections_until_a_restored_file_enables() {
    let changes: [fn(&Gateway); 4] = [
        |gateway| gateway.settings.remove(),
        |gateway| gateway.settings.write(disabled()),
        |gateway| gateway.settings.write_in_place(""),
        |gateway| gateway.settings.remove(),
    ];
    let mut gateway = Gateway::serve().listen(free_address()).start();
    let mut idle = gateway.served_client();
    for (name, change) in ["first", "second", "third", "fourth"].into_iter().zip(changes) {
        change(&gateway);
        gateway.wait_event("disabled");
        gateway.wait_settings("reloaded");
        assert!(refuses(gateway.address()));
        idle.expect_close();
        gateway.enable(name);
        gateway.wait_settings("reloaded");
        idle = gateway.client();
        assert_eq!(idle.status_with(&token(name)), 200);
    }
}

#[test]
fn a_broken_file_is_rejected_and_the_last_good_settings_stay_in_force() {
    let mut gateway = Gateway::serve().token(&token("a")).start();
    let mut client = gateway.client();
    assert_eq!(client.status_with(&token("a")), 200);
    gateway.settings.write("OPEN_REST_API = True\nTOKEN = open('token').read()\n");
    let event = gateway.wait_settings("rejected");
    assert!(event["reason"].as_str().unwrap().contains("user_settings.py:2:"), "{event}");
    assert_eq!(client.status_with(&token("a")), 200);
    assert_eq!(gateway.client().status_with(&token("a")), 200);

    // A changed token is in force from the next request on, also on an open connection.
    gateway.change_token("repaired");
    assert_eq!(client.status_with(&token("repaired")), 200);
    assert_eq!(client.status_with(&token("a")), 401);
}

#[test]
fn settings_that_cannot_be_understood_at_the_start_disable_the_gateway_until_they_are_mended() {
    let address = free_address();
    let mut gateway = Gateway::serve().settings("OPEN_REST_API = True\nTOKEN = \"s3cr3t-a\n").listen(address).spawn();
    let event = gateway.wait_event("disabled");
    assert!(event["reason"].as_str().unwrap().contains("user_settings.py:2:"), "{event}");
    assert!(refuses(address));
    gateway.wait_log(&format!("warning: not listening: {}", event["reason"].as_str().unwrap()));

    gateway.settings.write("\n\nOPEN_REST_API = true\n");
    let reason = gateway.wait_settings("rejected")["reason"].clone();
    assert!(reason.as_str().unwrap().ends_with("write True"), "{reason}");
    assert_eq!(gateway.wait_event("disabled")["reason"], reason);
    assert!(refuses(address));

    gateway.enable("mended");
    gateway.wait_settings("reloaded");
    assert_eq!(gateway.client().status_with(&token("mended")), 200);
}

/// The unit tests of `settings` have the other reasons, and what `enable` makes of other texts.
#[test]
fn a_disabled_gateway_names_the_file_and_logs_the_command_that_switches_it_on() {
    for (text, end) in [(None, ""), (Some("\nOPEN_REST_API = 1\n"), ": line 2 has 1; write OPEN_REST_API = True")] {
        let address = free_address();
        let builder = Gateway::serve().no_settings().listen(address);
        let mut gateway = if let Some(text) = text { builder.settings(text) } else { builder }.spawn();
        let path = gateway.settings.path().display().to_string();
        let reason = gateway.wait_event("disabled")["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(&path) && reason.ends_with(end), "{reason}");
        assert!(refuses(address));
        gateway.wait_log(&format!("not listening: {reason}\n"));
        let command = format!("adapter-gateway enable --settings '{path}'");
        gateway.wait_log(&format!("info: to switch the API on: {command}\n"));

        run(["enable", "--settings", &path], 0);
        assert_eq!(gateway.wait_listening()["url"], format!("http://{address}/api/message"));
        let token = written_token(gateway.settings.path());
        assert_eq!(gateway.client().status_with(&token), 200);
        run(["disable", "--settings", &path], 0);
        gateway.wait_event("disabled");
        let Transcript { stdout, stderr } = gateway.stop();
        assert!(!stdout.contains(&token) && !stderr.contains(&token), "the token is in an event or in the log");
    }
}

/// Settings that are good again are reported once as reloaded.
#[test]
fn who_saves_and_waits_is_answered() {
    let text = enabled(&token("a"));
    let mut gateway = Gateway::serve().token(&token("a")).start();
    gateway.signal(Signal::HUP);
    gateway.wait_settings("unchanged");
    for _ in 0..2 {
        gateway.settings.write(&text);
        gateway.wait_settings("unchanged");
        gateway.settings.write_in_place(&format!("{text}# a comment\n"));
        gateway.wait_settings("unchanged");
    }
    for _ in 0..2 {
        gateway.settings.write("TOKEN = (\n");
        gateway.wait_settings("rejected");
    }
    gateway.settings.write(&text);
    gateway.signal(Signal::HUP);
    gateway.wait_settings("reloaded");
    gateway.settings.write(&text);
    let next = gateway.wait_for("settings", |event| is_event(event, "settings"));
    assert_eq!(next["state"], "unchanged");
}

#[test]
fn what_others_can_do_with_the_token_is_logged() {
    let mut gateway = Gateway::serve().settings(disabled()).start_disabled();
    let file = gateway.settings.path().to_owned();
    let directory = file.parent().unwrap();
    set_mode(&file, 0o600);
    gateway.wait_settings("unchanged");
    // Some editors write into the existing file, which is empty or incomplete for a moment.
    gateway.settings.write_in_place(&enabled(&token("a")));
    gateway.wait_settings("reloaded");
    gateway.wait_listening();
    let modes = [0o640, 0o604, 0o620, 0o602];
    for mode in modes {
        set_mode(&file, mode);
        gateway.wait_settings("unchanged");
        gateway.wait_log(&format!("the token is open to others than its owner (mode {mode:04o})"));
    }
    assert_eq!(gateway.log().matches("is open to others").count(), modes.len(), "{}", gateway.log());

    // In a directory with the sticky bit, nobody replaces the file of another one.
    for mode in [0o777, 0o1777] {
        gateway.disable();
        set_mode(directory, mode);
        gateway.enable("a");
    }
    let replaceable = "others than its owner may replace the token in it (mode 0777)";
    gateway.wait_log(&format!("{}: {replaceable}", directory.display())).has_times(1, "may replace");

    needs!(can_give_away());
    for path in [file.as_path(), directory] {
        give_away(path);
        gateway.signal(Signal::HUP);
        gateway.wait_log(&format!("{}: belongs to another user (number {NOBODY})", path.display()));
    }
}

#[test]
fn a_token_that_is_bad_is_logged_with_the_way_to_a_better_one() {
    let mut gateway = Gateway::serve().token(&token("16-chars.")).arguments(["--max-head", "1024"]).start();
    let long = "x".repeat(800);
    for name in ["15-chars", "ends with a blank ", "with\u{7}a bell", "äöü-and-more", &long] {
        gateway.change_token(name);
    }
    let log = gateway.stop().stderr;
    let lines: Vec<_> = log.lines().filter(|line| line.contains("openssl rand -hex 16")).collect();
    let flaws = ["fewer than 16 characters", "white space", "control", "outside ASCII", "longer than"];
    assert!(lines.len() == flaws.len() && lines.iter().zip(flaws).all(|(line, flaw)| line.contains(flaw)), "{log}");
}

#[test]
fn settings_behind_a_link_are_followed_where_they_are_written() {
    let mut gateway = Gateway::serve().settings(disabled()).start_disabled();
    let elsewhere = SettingsFile::absent();
    elsewhere.write(&enabled(&token("old")));
    gateway.settings.remove();
    std::os::unix::fs::symlink(elsewhere.path(), gateway.settings.path()).unwrap();
    gateway.wait_listening();
    assert_eq!(gateway.client().status_with(&token("old")), 200);
    elsewhere.write(&enabled(&token("new")));
    wait_until("the new token", || gateway.client().status_with(&token("new")) == 200);
}

/// Without the signal, it counts after 250 ms, and the kernel tells of the file before.
#[test]
fn a_file_that_has_just_been_emptied_counts_at_sighup_without_a_wait() {
    let mut gateway = Gateway::serve().token(&token("a")).start();
    for _ in 0..5 {
        let (lateness, emptied) = (Lateness::watch(), Instant::now());
        gateway.settings.write_in_place("");
        gateway.signal(Signal::HUP);
        gateway.wait_event("disabled");
        lateness.assert_took(emptied.elapsed(), Duration::from_millis(150));
        gateway.enable("a");
    }
}
