//! The `certificate` events of the gateway's own pair, which tell a parent process when clients have to trust another certificate.

use std::path::Path;

use serde_json::Value;

use super::self_signed::{files, settings_beside};
use crate::support::gateway::Gateway;
use crate::support::pair::Pair;

/// Waits for the next `certificate` event, which must have this state and this path.
pub(crate) fn expect(gateway: &mut Gateway, state: &str, path: &Path) -> Value {
    let event = gateway.wait_event("certificate");
    assert_eq!((event["state"].as_str(), event["path"].as_str()), (Some(state), path.to_str()), "{event}");
    assert_eq!(event["reason"].is_string(), state == "rejected", "{event}");
    event
}

#[test]
fn a_pair_that_the_gateway_makes_or_renews_is_reported_also_at_the_start() {
    let mut gateway = Gateway::serve().https().spawn_beside(settings_beside(None));
    let [certificate, key, _] = files(gateway.settings.path());
    let made = expect(&mut gateway, "made", &certificate);
    let not_after = made["not_after"].as_str().unwrap().to_owned();
    assert!(not_after.len() == "2040-01-02T03:04:05Z".len() && not_after.ends_with('Z'), "{made}");
    gateway.wait_listening();
    std::fs::remove_file(key).unwrap();
    let renewed = expect(&mut gateway, "renewed", &certificate);
    assert!(renewed["not_after"].as_str() >= Some(&not_after), "{renewed}");

    let mut gateway = Gateway::serve().https().spawn_beside(settings_beside(Some(&Pair::valid(-790, 20))));
    let [certificate, ..] = files(gateway.settings.path());
    expect(&mut gateway, "renewed", &certificate);
    gateway.wait_listening();
}
