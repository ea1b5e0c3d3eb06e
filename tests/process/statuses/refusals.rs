//! What each refusal before the body tells the client.

use super::FINE;
use crate::support::http::Response;
use crate::support::request::Request;
use crate::support::rig::Rig;

fn refused(rig: &Rig, request: &Request, status: u16) -> Response {
    let response = rig.client().exchange(request);
    assert_eq!(response.status, status, "{response:?}");
    response.problem();
    response
}

#[test]
fn another_path_is_404() {
    let rig = Rig::start();
    let target = rig.gateway.target();
    for path in ["/", "/api", "/api/message/", "/api/messages", "/API/message", "//api/message"] {
        let target = target.replacen("/api/message", path, 1);
        refused(&rig, &rig.request(FINE).target(&target), 404);
    }
    rig.assert_bus_is_quiet();
}

#[test]
fn any_method_but_post_is_405_and_told_what_is_allowed() {
    let rig = Rig::start();
    for method in ["GET", "PUT", "PATCH", "DELETE", "TRACE", "BREW", "post"] {
        let response = refused(&rig, &rig.request(FINE).method(method), 405);
        assert_eq!(response.field("Allow"), Some("POST, OPTIONS"), "{method}");
    }
    rig.assert_bus_is_quiet();
}

/// RFC 9110 §9.3.2: no body follows, or everything after it on the connection would be misread.
#[test]
fn head_is_405_without_a_body() {
    let rig = Rig::start();
    let mut client = rig.client();
    client.send(rig.request("").method("HEAD").bytes());
    let response = client.response_without_body();
    assert_eq!((response.status, response.field("Allow")), (405, Some("POST, OPTIONS")));
    client.exchange(&rig.request(FINE)).assert_accepted();
}

#[test]
fn a_body_that_is_not_declared_json_is_415_and_told_what_is_accepted() {
    let rig = Rig::start();
    let plain = rig.request(FINE).without("Content-Type");
    let typed = |value| plain.clone().field("Content-Type", value);
    let encoded = |value| rig.request(FINE).field("Content-Encoding", value);
    let wrong = [
        plain.clone(),
        typed("text/plain"),
        typed("application/jsonp"),
        typed("application/x-www-form-urlencoded"),
        typed("application/json; charset=latin-1"),
        encoded("gzip"),
        encoded("identity, gzip"),
    ];
    for request in wrong {
        let response = refused(&rig, &request, 415);
        assert_eq!(response.field("Accept-Post"), Some("application/json"));
    }
    rig.assert_bus_is_quiet();

    let right = [
        typed("application/json; charset=utf-8"),
        typed("application/json;charset=UTF-8"),
        typed("APPLICATION/JSON"),
        encoded("identity"),
    ];
    for request in right {
        rig.client().exchange(&request).assert_accepted();
    }
}

#[test]
fn a_transfer_coding_other_than_chunked_is_501_and_the_end() {
    let rig = Rig::start();
    for coding in ["gzip", "gzip, chunked"] {
        let mut client = rig.client();
        client.send(rig.request(FINE).field("Transfer-Encoding", coding).bytes());
        let response = client.response();
        assert_eq!(response.status, 501, "{coding}");
        response.problem();
        client.expect_close();
    }
    rig.assert_bus_is_quiet();
}

#[test]
fn another_version_is_505_and_the_end() {
    let rig = Rig::start();
    let mut client = rig.client();
    client.send(rig.request(FINE).version("HTTP/2.0").bytes());
    let response = client.response();
    assert_eq!(response.status, 505);
    response.problem();
    client.expect_close();
    rig.assert_bus_is_quiet();
}
