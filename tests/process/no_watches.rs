//! The system gives no watches on files, as on a desktop whose inotify instances are used up.

use crate::settings::status_with;
use crate::support::*;

/// Runs the program where it may have no inotify instance.
const WITHOUT_INOTIFY: &str = "exec unshare --user --map-root-user \
     sh -c 'echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"' sh \"$@\"";

#[test]
fn the_settings_are_followed_and_the_log_says_how() {
    let mut gateway = Gateway::serve().token(&token("a")).after(WITHOUT_INOTIFY).start();
    gateway.expect_log("the files are looked at every 1 s instead");
    gateway.change_token("b");
    assert_eq!(status_with(&mut gateway.client(), &token("a")), 401);
    assert_eq!(status_with(&mut gateway.client(), &token("b")), 200);
    gateway.disable();
    assert!(refuses(gateway.address()));
    assert_eq!(gateway.log().matches("are looked at").count(), 1, "{}", gateway.log());
}

#[test]
fn the_certificate_is_followed() {
    let mut gateway = Gateway::serve().https().after(WITHOUT_INOTIFY).start();
    let directory = gateway.settings.path().parent().unwrap().to_owned();
    std::fs::remove_file(directory.join("gateway-key.pem")).unwrap();
    gateway.wait_for("another pair", |event| event["event"] == "certificate" && event["state"] == "renewed");
}
