//! What `send` says of lines that are refused, and with which status it exits.

use super::*;

#[test]
fn a_refused_line_and_one_that_cannot_be_read_is_named_and_ends_it_unless_it_keeps_going() {
    const LINES: &str = "a\t{}\nadapter/nodes/data\t{}\nb\t{}\nno tab\nc\t{}\n";
    let fixture = Fixture::start();
    let refused = "warning: line 2 was refused: 422 not-a-message: ";
    let faulty = "warning: line 4 was refused: it has no tab between a topic and a payload\n";

    for (option, end, topics) in [
        (None, "error: 2 lines refused; unsent: everything from line 5 on\n", &["a", "b"][..]),
        (Some("--keep-going"), "error: 2 lines refused\n", &["a", "b", "c"]),
    ] {
        run(send_to(&fixture.gateway, "http").args(option).stdin(file(LINES)), 1).has(refused).has(faulty).ends(end);
        topics.iter().for_each(|topic| assert_eq!(fixture.subscriber.next().topic, *topic));
        fixture.assert_nothing_more_published();
    }
    let directory = File::open("/").unwrap();
    run(send_to(&fixture.gateway, "http").stdin(directory), 1)
        .begins("warning: line 1 was refused: it cannot be read: ")
        .ends("error: 1 line refused; unsent: everything from line 2 on\n");
}

#[test]
fn settings_that_open_no_gateway_are_3_and_those_with_a_token_alone_are_enough() {
    let settings = SettingsFile::absent();
    run(send_with(&settings).args(["a", "{}"]), 3).has("does not exist; `adapter-gateway enable --settings '");
    for (text, reason) in [
        (disabled(), "OPEN_REST_API is not set to True"),
        ("OPEN_REST_API = True\n", "; `adapter-gateway enable --settings '"),
        ("OPEN_REST_API = \n", "invalid syntax"),
    ] {
        settings.write(text);
        run(send_with(&settings).args(["a", "{}"]), 3).begins("error: ").has(reason);
    }

    // On another machine than that of the gateway, nothing listens, and a token alone is enough.
    let fixture = Fixture::start();
    settings.write(&format!("TOKEN = {:?}\n", token("of-the-test")));
    let url = format!("http://{}", fixture.gateway.address());
    run(send_with(&settings).args(["--url", &url, "a", "{}"]), 0);
    settings.write("");
    run(send_with(&settings).args(["a", "{}"]), 3).has("TOKEN is not set").lacks("listen");
}

/// It names the file in every directory. Without the name, it would edit the user's settings.
#[test]
fn the_command_that_switches_the_gateway_on_works_as_printed() {
    let settings = SettingsFile::absent();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut send = binary();
    send.current_dir(settings.path().parent().unwrap()).args(["send", "--settings", "user_settings.py", "a", "{}"]);
    let log = run(&mut send, 3);
    let arguments = log.split('`').nth(1).unwrap().strip_prefix("adapter-gateway").expect(&log);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$0\"{arguments}")]).arg(binary().get_program());
    shell.current_dir(&elsewhere).env("XDG_CONFIG_HOME", elsewhere.path());
    assert!(shell.output().unwrap().status.success(), "{log}");
    run(send_with(&settings).arg("--unix").arg(elsewhere.path().join("none")).args(["a", "{}"]), 4)
        .has("no gateway at unix:");
}

#[test]
fn no_gateway_is_4_and_usage_errors_are_2_and_show_no_url() {
    let settings = enabled_settings("x");
    let free = free_address();
    for scheme in ["http", "https"] {
        run(send_with(&settings).args(["--url", &format!("{scheme}://{free}"), "a", "{}"]), 4)
            .begins(format!("error: no gateway at {scheme}://{free}: "));
    }
    let log = run(send_with(&settings).args(["--unix", "/nonexistent/socket"]).stdin(file("a\t{}\n")), 4);
    log.has("error: no gateway at unix:/nonexistent/socket: ").has("unsent: line 1");

    let url = format!("https://localhost/?token={}", token("x"));
    let wrong = [&["a"][..], &["a", "{}", "b"], &["a", "{"], &["--url", &url], &["--url", "http://a", "--unix", "b"]];
    wrong.iter().for_each(|arguments| _ = run(send_with(&settings).args(*arguments), 2));
}

#[test]
fn a_certificate_that_is_not_trusted_is_5() {
    let (one, other) = (fixture_by("https", []), fixture_by("https", []));
    let url = format!("https://localhost:{}", one.gateway.address().port());
    // The second one has no certificate beside it.
    for settings in [&other.gateway.settings, &enabled_settings("of-the-test")] {
        run(send_with(settings).args(["--url", &url, "a", "{}"]), 5).has("is not trusted: ").has("gateway-cert.pem");
    }
    // A certificate that is trusted, and has another name.
    let (_directory, endpoint) = temporary_endpoint();
    let other = Gateway::serve().https().listen("127.0.0.2:0".parse().unwrap()).bind(&endpoint).start();
    let url = format!("https://{}", other.address());
    run(send_with(&other.settings).args(["--url", &url, "a", "{}"]), 5)
        .has("start the gateway with `--cert-name 127.0.0.2`");
    let Fixture { gateway, subscriber } = &one;
    run(send_to(gateway, "https").args(["marker", "{}"]), 0);
    assert_eq!(subscriber.next().topic, "marker");
}

#[test]
fn a_refused_token_is_6_and_everything_behind_it_is_unsent() {
    let fixture = Fixture::start();
    let other = enabled_settings("another");
    let url = format!("http://{}", fixture.gateway.address());
    for option in [None, Some("--keep-going")] {
        run(send_with(&other).args(["--url", &url]).args(option).stdin(file(&lines(100))), 6)
            .has(format!("refuses the token of {}", other.path().display()))
            .ends("unsent: everything from line 1 on\n");
    }
    fixture.assert_nothing_more_published();
}

/// A school's proxy knows no gateway of this computer.
#[test]
fn no_proxy_of_the_environment_comes_between_send_and_a_gateway_of_this_computer() {
    for scheme in ["http", "https"] {
        let fixture = fixture_by(scheme, []);
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", proxy.local_addr().unwrap());
        let names = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
        let mut send = send_to(&fixture.gateway, scheme);
        run(send.args(["t", "{}"]).envs(names.map(|name| (name, &url))).env_remove("no_proxy"), 0);
        assert_eq!(fixture.subscriber.next().topic, "t");
        proxy.set_nonblocking(true).unwrap();
        assert!(proxy.accept().is_err(), "{scheme} was sent to the proxy");
    }
}

/// The rest of a body that is too large is not read, and the connection ends.
#[test]
fn a_line_that_is_too_large_is_refused_and_those_behind_it_are_posted() {
    let fixture = Fixture::with(["--max-body", "1000"]);
    let lines = format!("a\t{{}}\nb\t{{\"x\":\"{}\"}}\nc\t{{}}\nd\t{{}}\n", "x".repeat(500_000));
    let log = run(send_to(&fixture.gateway, "http").arg("--keep-going").stdin(file(&lines)), 1);
    log.has("warning: line 2 was refused: 413 ").has("3 lines accepted");
    assert_eq!(["a", "c", "d"].map(|_| fixture.subscriber.next().topic), ["a", "c", "d"]);
    fixture.assert_nothing_more_published();
}
