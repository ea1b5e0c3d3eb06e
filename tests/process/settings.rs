//! What `user_settings.py` means, and that the running gateway follows it.

use rustix::process::Signal;

use crate::statuses::FINE;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::http::Client;
use crate::support::net::{free_address, refuses};
use crate::support::request::Request;
use crate::support::settings_file::{SettingsFile, disabled, enabled, token};

/// Posts a message with this token, and returns the status of the answer.
pub(crate) fn status_with(client: &mut Client, token: &str) -> u16 {
    let target = format!("/api/message?token={token}");
    client.exchange(&Request::post(&target, FINE)).status
}

#[test]
fn settings_without_true_or_without_a_token_leave_the_port_closed() {
    let closed = [
        "",
        disabled(),
        "TOKEN = 's3cr3t-a'\n",
        "OPEN_REST_API = 1\nTOKEN = 's3cr3t-a'\n",
        "OPEN_REST_API = 'True'\nTOKEN = 's3cr3t-a'\n",
        "OPEN_REST_API = None\nTOKEN = 's3cr3t-a'\n",
        "OPEN_REST_API = True\n",
        "OPEN_REST_API = True\nTOKEN = ''\n",
        "OPEN_REST_API = True\nTOKEN = 's3cr3t-a'\nOPEN_REST_API = False\n",
        "if True:\n    OPEN_REST_API = True\nTOKEN = 's3cr3t-a'\n",
        "def f():\n    OPEN_REST_API = True\nTOKEN = 's3cr3t-a'\n",
        "'''\nOPEN_REST_API = True\n'''\nTOKEN = 's3cr3t-a'\n",
    ];
    for text in closed {
        let address = free_address();
        let mut gateway = Gateway::serve().settings(text).listen(address).spawn();
        let event = gateway.wait_event("disabled");
        assert!(event["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{event}");
        assert!(refuses(address), "{text}");
        assert_eq!(gateway.terminate().accepted, 0);
    }
}

#[test]
fn settings_in_the_forms_that_people_write_open_the_port() {
    let opened = [
        "OPEN_REST_API=True;TOKEN='s3cr3t-a'",
        "# -*- coding: utf-8 -*-\nimport os\nTOKEN: str = \"s3cr3t\" '-a'  # mine\nOPEN_REST_API = True\n",
        "\u{feff}TOKEN = u's3cr3t-\\x61'\r\nOPEN_REST_API = False\r\nOPEN_REST_API = True\r\n",
        "TOKEN = '''s3cr3t-a'''\nOTHER = [x for x in 'abc']\nOPEN_REST_API = (True)\n",
    ];
    for text in opened {
        let gateway = Gateway::serve().settings(text).start();
        assert_eq!(status_with(&mut gateway.client(), "s3cr3t-a"), 200, "{text}");
    }
}

#[test]
fn settings_are_found_in_the_configuration_directory_of_the_user() {
    let gateway = Gateway::serve().settings_by_default_path().start();
    gateway.post(FINE).assert_accepted();
}

#[test]
fn settings_are_read_and_never_executed() {
    let directory = tempfile::tempdir().unwrap();
    let proof = directory.path().join("executed");
    let text = format!("import sys\nopen({proof:?}, 'w').write('x')\n{}raise SystemExit(1)\n", enabled(&token("a")),);
    let gateway = Gateway::serve().settings(&text).start();
    assert_eq!(status_with(&mut gateway.client(), &token("a")), 200);
    assert!(!proof.exists());
}

#[test]
fn enabling_opens_the_port() {
    let address = free_address();
    let mut gateway = Gateway::serve().settings(disabled()).listen(address).spawn();
    gateway.wait_event("disabled");
    gateway.settings.write(&enabled(&token("a")));
    let event = gateway.wait_listening();
    assert_eq!(event["url"], format!("http://{address}/api/message"));
    assert_eq!(status_with(&mut gateway.client(), &token("a")), 200);
}

#[test]
fn disabling_closes_the_port_and_the_idle_connections() {
    let mut gateway = Gateway::serve().listen(free_address()).start();
    let mut idle = gateway.client();
    idle.exchange(&gateway.request(FINE)).assert_accepted();
    gateway.settings.write(disabled());
    gateway.wait_event("disabled");
    assert!(refuses(gateway.address()));
    idle.expect_close();
}

/// The gateway has read a part of the request when it is disabled.
#[test]
fn a_request_that_is_incomplete_when_disabled_is_503_and_counted() {
    let mut gateway = Gateway::serve().start();
    let mut client = gateway.client();
    let request = gateway.request(FINE).bytes();
    let (beginning, rest) = request.split_at(request.len() / 2);
    // Both are in one write, so the answer to the first shows that the beginning of the second was read too.
    client.send([&request, beginning].concat());
    client.response().assert_accepted();

    gateway.settings.write(disabled());
    gateway.wait_event("disabled");
    client.send(rest);
    let refused = client.response();
    assert_eq!(refused.status, 503, "{refused:?}");
    client.expect_close();
    gateway.signal(Signal::USR1);
    let stats = gateway.wait_event("stats");
    assert_eq!(stats["refused"], serde_json::json!({ "disabled": 1 }), "{stats}");
}

#[test]
fn a_removed_file_disables_and_a_restored_file_enables() {
    let mut gateway = Gateway::serve().listen(free_address()).start();
    let mut idle = gateway.client();
    idle.exchange(&gateway.request(FINE)).assert_accepted();
    for name in ["first", "second"] {
        gateway.settings.remove();
        gateway.wait_event("disabled");
        assert!(refuses(gateway.address()));
        idle.expect_close();
        gateway.settings.write(&enabled(&token(name)));
        gateway.wait_listening();
        idle = gateway.client();
        assert_eq!(status_with(&mut idle, &token(name)), 200);
    }
}

#[test]
fn a_gateway_that_starts_without_settings_waits_for_them() {
    let address = free_address();
    let mut gateway = Gateway::serve().no_settings().listen(address).spawn();
    gateway.wait_event("disabled");
    assert!(refuses(address));
    gateway.settings.write(&enabled(&token("a")));
    gateway.wait_listening();
    assert_eq!(status_with(&mut gateway.client(), &token("a")), 200);
}

#[test]
fn a_changed_token_is_in_force_from_the_next_request_on_also_on_an_open_connection() {
    let mut gateway = Gateway::serve().token(&token("old")).start();
    let mut client = gateway.client();
    assert_eq!(status_with(&mut client, &token("old")), 200);
    gateway.settings.write(&enabled(&token("new")));
    gateway.wait_settings("reloaded");
    assert_eq!(status_with(&mut client, &token("old")), 401);
    assert_eq!(status_with(&mut client, &token("new")), 200);
}

/// Some editors write into the existing file, which is empty or incomplete for a moment.
#[test]
fn a_file_that_is_written_in_place_is_read_too() {
    let gateway = Gateway::serve().token(&token("old")).listen(free_address()).start();
    gateway.settings.write_in_place(&enabled(&token("new")));
    eventually("the new token", || {
        let mut client = Client::try_connect(gateway.address()).ok()?;
        client.send(Request::post(&format!("/api/message?token={}", token("new")), FINE).bytes());
        (client.try_response().ok()?.status == 200).then_some(())
    });
}

#[test]
fn a_broken_file_is_rejected_and_the_last_good_settings_stay_in_force() {
    let broken = [
        "OPEN_REST_API = True\nTOKEN = \"s3cr3t-b\n",
        "OPEN_REST_API = True\nTOKEN = open('token').read()\n",
        "OPEN_REST_API = True\nTOKEN = f's3cr3t-{1}'\n",
        "TOKEN = 's3cr3t-b'\nOPEN_REST_API = not False\n",
    ];
    for text in broken {
        let mut gateway = Gateway::serve().token(&token("a")).start();
        let mut client = gateway.client();
        assert_eq!(status_with(&mut client, &token("a")), 200);
        gateway.settings.write(text);
        let event = gateway.wait_settings("rejected");
        assert_names_the_place(event["reason"].as_str().expect("the event has a reason"), 2);
        assert_eq!(status_with(&mut client, &token("a")), 200);
        assert_eq!(status_with(&mut gateway.client(), &token("a")), 200);

        gateway.settings.write(&enabled(&token("repaired")));
        gateway.wait_settings("reloaded");
        assert_eq!(status_with(&mut client, &token("repaired")), 200);
    }
}

/// The settings file is a symbolic link, and the file behind it changes.
#[test]
fn sighup_reads_the_settings_again() {
    let mut gateway = Gateway::serve().settings(disabled()).spawn();
    gateway.wait_event("disabled");
    let elsewhere = SettingsFile::absent();
    elsewhere.write(&enabled(&token("old")));
    gateway.settings.remove();
    std::os::unix::fs::symlink(elsewhere.path(), gateway.settings.path()).unwrap();
    gateway.wait_listening();
    let mut client = gateway.client();
    assert_eq!(status_with(&mut client, &token("old")), 200);

    elsewhere.write(&enabled(&token("new")));
    gateway.signal(Signal::HUP);
    eventually("the new token", || (status_with(&mut client, &token("new")) == 200).then_some(()));
    assert_eq!(status_with(&mut client, &token("old")), 401);
}

/// Asserts that the text contains `user_settings.py:LINE:COLUMN`, which editors can jump to.
pub(crate) fn assert_names_the_place(text: &str, line: u32) {
    let place = format!("user_settings.py:{line}:");
    let column = text.split_once(&place).map(|(_, rest)| rest.starts_with(|it: char| it.is_ascii_digit()));
    assert_eq!(column, Some(true), "{text:?} does not contain {place}COLUMN");
}
