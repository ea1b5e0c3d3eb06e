//! The contract's table of statuses. `recorded` has each row; here is what takes time, or a part beside the core.

mod recorded;

use std::time::SystemTime;

use crate::support::*;

#[test]
fn the_fault_that_comes_first_in_the_table_is_answered() {
    let arguments = ["--max-body", "64"];
    let connected = Fixture::with(arguments);
    let unconnected = Gateway::serve().connect(&dead_endpoint()).arguments(arguments).start();
    for (first, ..) in LADDER {
        // Without a hub, the faults after the missing hub are never answered.
        let gateway = if first <= Fault::NoHub { &unconnected } else { &connected.gateway };
        let faults = LADDER.iter().map(|(fault, ..)| *fault).filter(|fault| *fault >= first);
        let request = faults.fold(gateway.request(FINE), |request, fault| fault.put_into(request, 64));
        let answer = gateway.client().exchange(&request);
        answer.check().unwrap_or_else(|fault| panic!("{first:?}: {fault}"));
        let given = (answer.status, answer.kind.as_str());
        assert_eq!(given, first.answer(), "{first:?} and all faults after it: {answer:?}");
    }
}

#[test]
fn every_answer_has_a_date_and_wrong_tokens_are_logged_once_a_minute() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    let target = fixture.gateway.target();
    for target in [target.as_str(), "/", "/api/message"] {
        let asked = SystemTime::now();
        let response = client.exchange(&fixture.request(FINE).target(target));
        let date = httpdate::parse_http_date(response.field("Date").expect("a Date")).unwrap();
        assert!(date <= SystemTime::now(), "{date:?} is in the future");
        // The date has no fractions of a second, and a program may set the clock back by another part of one.
        assert!(date + Duration::from_secs(2) > asked, "{date:?} is before {asked:?}");
    }

    let wrong = fixture.request(FINE).target("/api/message?token=s3cr3t-guess");
    // The counters are looked at once a second, so it takes longer to see that there is no second line.
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(150));
        assert_eq!(fixture.client().exchange(&wrong).status, 401);
        fixture.gateway.wait_log("answered 401");
    }
    assert_eq!(fixture.gateway.log().matches("answered 401").count(), 1, "{}", fixture.gateway.log());
}

#[test]
fn an_idle_connection_is_closed_without_an_answer() {
    let fixture = Fixture::with(["--idle-timeout", "1"]);
    // RFC 9112 §2.2: the empty line that old clients send after a body does not begin a request.
    for end in ["", "\r\n"] {
        let since = Instant::now();
        let mut client = fixture.gateway.served_client();
        client.send(end);
        client.expect_close();
        assert!(since.elapsed() >= SHORTEST_TIMEOUT, "too early, after {:?}", since.elapsed());
    }
}
