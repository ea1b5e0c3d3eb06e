//! Starts that fail: the exit status and the last event give the reason to the parent, and stderr gives it to the user.

use super::*;

/// The XDG Base Directory Specification has relative directories ignored.
#[test]
fn no_directory_for_the_settings_is_3_and_named() {
    let relative = [("XDG_CONFIG_HOME", "relative"), ("HOME", "relative")];
    let output = Process::spawn(binary().args(["serve", "--plain"]).envs(relative)).finish(3);
    assert_failed(&output, 3);
    assert!(output.stderr.contains("neither XDG_CONFIG_HOME nor HOME names a directory"), "{}", output.stderr);
}

/// Returns a gateway that the settings enable while another program has its port.
fn enabled_at_a_taken_port() -> (TcpListener, Gateway) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = Gateway::serve().no_settings().listen(taken.local_addr().unwrap()).start_disabled();
    gateway.settings.write(&enabled(&token("a")));
    (taken, gateway)
}

/// Its hub may carry other programs.
#[test]
fn a_port_that_is_taken_when_the_settings_enable_the_gateway_is_told_and_tried_again() {
    let (taken, mut gateway) = enabled_at_a_taken_port();
    gateway.wait_event("not-ready")["reason"].as_str().unwrap().to_owned().has("cannot listen on").has("in use");
    gateway.wait_log("it is tried again");
    gateway.stats();
    drop(taken);
    gateway.wait_listening();
    gateway.wait_event("ready");
    let (_taken, mut gateway) = enabled_at_a_taken_port();
    gateway.wait_event("not-ready");
    gateway.settings.write(disabled());
    gateway.wait_event("disabled");
    gateway.terminate();
}

#[test]
fn a_certificate_that_cannot_be_made_when_the_settings_enable_the_gateway_is_told_and_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("folder");
    fs::write(&folder, "").unwrap();
    let builder = Gateway::serve().https().no_settings().arguments(["--cert-dir", folder.to_str().unwrap()]);
    let mut gateway = builder.start_disabled();
    gateway.settings.write(&enabled(&token("a")));
    gateway.wait_event("not-ready")["reason"].as_str().unwrap().to_owned().has(folder.to_str().unwrap());
    fs::remove_file(&folder).unwrap();
    gateway.wait_listening();
    gateway.wait_event("ready");
    gateway.terminate();
}

/// NAME has 64 bytes, and no label of a name is longer than 63 (RFC 1035 §2.3.4), so no name server is asked, as for an
/// interface. The other address is for documents (RFC 3849), and no host has it. libzmq accepts some of the endpoints,
/// and would then try to connect for ever. `ipc://*` has no place for its file.
#[test]
fn what_refuses_a_start_is_named() {
    let other_program = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other_program.local_addr().unwrap().to_string();
    let (_directory, [one, other]) = hub_endpoints();
    let words = [("TAKEN", taken), ("NAME", "x".repeat(64)), ("ONE", one), ("OTHER", other)];
    let refused =
        words.iter().fold(include_str!("../../data/refused-starts.json").to_owned(), |text, (word, value)| {
            text.replace(word, value)
        });
    for (arguments, (status, named)) in serde_json::from_str::<BTreeMap<String, (i32, String)>>(&refused).unwrap() {
        let builder = Gateway::serve().after("export TMPDIR=/proc").arguments(arguments.split(' '));
        let builder = if arguments.starts_with("--tls") { builder.https() } else { builder };
        let stderr = builder.fail(status);
        assert!(stderr.contains(&named), "{arguments}: {stderr}");
    }
}

/// The unit tests of `cli` have one of each kind; here are those of `main`, and those of several options together.
#[test]
fn wrong_arguments_are_2_with_a_message_on_stderr() {
    let wrong = include_str!("../../data/wrong-arguments.json");
    for (arguments, said) in serde_json::from_str::<BTreeMap<String, String>>(wrong).unwrap() {
        let output = run(arguments.split_whitespace(), 2);
        assert!(!output.stderr.trim().is_empty() && output.stderr.contains(&said), "{arguments}: {}", output.stderr);
        assert_eq!(output.stdout, "", "{arguments}");
    }
}
