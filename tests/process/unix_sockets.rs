//! `--listen unix:PATH`: all is as by TCP. `statuses::recorded` has the answers, `lifecycle::endpoints` the file.

use crate::support::*;

/// Without an address, no certificate is made.
#[test]
fn it_speaks_http_beside_an_address_in_https_and_without_one() {
    for has_address in [true, false] {
        let (_directory, path) = temporary_path("gateway");
        let builder = Gateway::serve().https();
        let builder = if has_address { builder.listen(ANY_PORT) } else { builder };
        let mut gateway = builder.listen_at(&path).spawn();
        if has_address {
            let event = gateway.wait_event("listening");
            assert!(event["url"].as_str().unwrap().starts_with("https://127.0.0.1:"), "{event}");
        }
        assert_eq!(gateway.wait_event("listening")["url"], UNIX_URL);
        Client::connect_to(&path).exchange(&gateway.request(FINE)).assert_accepted();
        let is_of_pair = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().contains("gateway-");
        assert_eq!(entries(gateway.settings.path().parent().unwrap()).any(is_of_pair), has_address);
        gateway.terminate();
    }
}

#[test]
fn a_socket_that_cannot_be_opened_to_the_end_is_4_and_leaves_no_file() {
    let (directory, path) = temporary_path("gateway");
    let refusal = Refusal { call: libc::SYS_listen, argument: None, errno: Errno::MFILE };
    let gateway = Gateway::serve().connect(&dead_endpoint()).listen_at(&path);
    refusal.during(|| gateway.fail(4));
    assert_eq!(entries(&directory).count(), 0);
}

#[test]
fn nothing_is_at_the_path_while_the_settings_disable_the_gateway() {
    let (_directory, path) = temporary_path("gateway");
    let mut gateway = Gateway::serve().no_settings().listen_at(&path).start_disabled();
    for _ in 0..2 {
        assert!(!path.exists());
        let event = gateway.enable("of-the-test");
        assert_eq!((event["url"].as_str(), event["socket"].as_str()), (Some(UNIX_URL), path.to_str()), "{event}");
        let mut idle = Client::connect_to(&path);
        idle.exchange(&gateway.request(FINE)).assert_accepted();
        gateway.settings.write("");
        gateway.wait_event("disabled");
        idle.expect_close();
    }
    assert!(!path.exists());
    gateway.terminate();
}

#[test]
fn settings_that_switch_off_are_told_when_every_socket_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let place = |number: usize| directory.path().join(number.to_string());
    let mut gateway = (0..100).map(place).fold(Gateway::serve(), |it, path| it.listen_at(&path)).start();
    gateway.disable();
    gateway.wait_settings("reloaded");
    assert_eq!(entries(&directory).count(), 0, "sockets are left");
    gateway.terminate();
}
